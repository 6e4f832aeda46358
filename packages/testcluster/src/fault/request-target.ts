/**
 * What a request is about, read from its method and URL by the rules of kube-apiserver (RequestInfo in
 * k8s.io/apiserver, pkg/endpoints/request), so that a rule of the proxy means what an RBAC rule means.
 */

/** Empty strings where the request says nothing. */
export interface RequestTarget {
  readonly method: string;
  /** Path and query as they were sent. */
  readonly path: string;
  readonly query: URLSearchParams;
  /** A verb of RBAC for the API's resources; the method in lower case for anything else. */
  readonly verb: string;
  /** `""` is the core group, and every path that is no resource. */
  readonly group: string;
  readonly version: string;
  /** Plural: `nodes`. `""` for `/version`, `/readyz`, discovery. */
  readonly resource: string;
  readonly subresource: string;
  readonly namespace: string;
  /** Also from `fieldSelector=metadata.name=…` on a list or watch, as the server's authorization does. */
  readonly name: string;
}

const VERB_OF_METHOD: Readonly<Record<string, string>> = {
  POST: "create",
  GET: "get",
  HEAD: "get",
  PUT: "update",
  PATCH: "patch",
  DELETE: "delete",
};

/** After `/namespaces/<name>/` these are subresources of the namespace; anything else is a resource in it. */
const NAMESPACE_SUBRESOURCES: ReadonlySet<string> = new Set(["status", "finalize"]);

type ResourcePart = Pick<
  RequestTarget,
  "verb" | "group" | "version" | "resource" | "subresource" | "namespace" | "name"
>;

/** @param url the request target of the HTTP request line: path and query. Never throws. */
export function parseRequestTarget(method: string, url: string): RequestTarget {
  const mark = url.indexOf("?");
  const query = new URLSearchParams(mark < 0 ? "" : url.slice(mark + 1));
  const segments = toSegments(mark < 0 ? url : url.slice(0, mark));
  return { method, path: url, query, ...(toResource(method, segments, query) ?? noResource(method)) };
}

function toResource(
  method: string,
  segments: readonly string[],
  query: URLSearchParams,
): ResourcePart | undefined {
  const [prefix, ...rest] = segments;
  const grouped = prefix === "apis";
  if ((prefix !== "api" && !grouped) || segments.length < (grouped ? 4 : 3)) return undefined;
  const group = grouped ? (rest.shift() ?? "") : "";
  const version = rest.shift() ?? "";
  const verbInPath = rest[0] === "proxy" || rest[0] === "watch";
  if (verbInPath && rest.length < 2) return undefined;
  const verb = verbInPath ? (rest.shift() ?? "") : (VERB_OF_METHOD[method] ?? "");
  const { namespace, parts } = splitNamespace(rest);
  const [resource = "", nameInPath = "", subresource = ""] = parts;
  const name = nameInPath || nameInSelector(verb, query);
  return {
    verb: nameInPath ? verb : verbOnCollection(verb, query),
    group,
    version,
    resource,
    subresource: verb === "proxy" ? "" : subresource,
    namespace,
    name,
  };
}

function noResource(method: string): ResourcePart {
  const nothing = { group: "", version: "", resource: "", subresource: "", namespace: "", name: "" };
  return { verb: method.toLowerCase(), ...nothing };
}

function splitNamespace(parts: readonly string[]): { namespace: string; parts: readonly string[] } {
  const [first, namespace, next] = parts;
  if (first !== "namespaces" || namespace === undefined) return { namespace: "", parts };
  const inside = next !== undefined && !NAMESPACE_SUBRESOURCES.has(next);
  return { namespace, parts: inside ? parts.slice(2) : parts };
}

function verbOnCollection(verb: string, query: URLSearchParams): string {
  if (verb === "delete") return "deletecollection";
  if (verb !== "get") return verb;
  const watch = query.get("watch");
  // Any value but these two is true for the server, the empty one too.
  return watch === null || watch === "0" || watch.toLowerCase() === "false" ? "list" : "watch";
}

function nameInSelector(verb: string, query: URLSearchParams): string {
  if (verb !== "get") return "";
  const terms = (query.get("fieldSelector") ?? "").split(",");
  const found = terms.map((term) => /^metadata\.name==?(?!=)(.+)$/.exec(term)?.[1]).find((name) => name);
  // What could not be a segment of a path is not taken for a name.
  return found === undefined || found === "." || found === ".." || /[/%]/.test(found) ? "" : found;
}

function toSegments(path: string): readonly string[] {
  const trimmed = decode(path).replace(/^\/+|\/+$/g, "");
  return trimmed === "" ? [] : trimmed.split("/");
}

/** A path with broken escapes is taken as it is. */
function decode(path: string): string {
  try {
    return decodeURIComponent(path);
  } catch {
    return path;
  }
}
