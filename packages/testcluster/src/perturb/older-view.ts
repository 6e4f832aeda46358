/**
 * Answers lists and watches as an API server does that lags behind: from the history, as of some version, until
 * released; then it catches up and stays live. Reads of single objects and all writes go to the real server.
 *
 * One thing no real server does: the sentinel is always shown as it is, though the rest is old, because its change
 * is how the controller is made to tell that it has acted on the old view.
 */
import { Readable } from "node:stream";
import { apiVersionOf, type KubeObject, nameOfResource, type Resource } from "@berth/kube";
import type { Interceptor, ObservedRequest, Reply } from "../fault/interceptor.ts";
import type { Version, VersionLog } from "./history.ts";

export interface OlderViewOptions {
  readonly log: Pick<VersionLog, "versions" | "viewOf" | "present" | "resourceVersionOf" | "conditions">;
  readonly resources: readonly Resource[];
  /** The view is that after so many versions. */
  readonly count: number;
  readonly isSentinel: (resource: Resource, object: KubeObject) => boolean;
}

export interface OlderView extends Interceptor {
  /** The server catches up, with these resources only. Default all. */
  release(resources?: readonly Resource[]): void;
}

/** A part of the collection that a request asks for. */
type Wanted = (object: KubeObject) => boolean;

export function createOlderView(options: OlderViewOptions): OlderView {
  const { log, resources, count, isSentinel } = options;
  /** By resource: the number of versions when it was listed, from which on the sentinel is told by a watch. */
  const listedAt = new Map<string, number>();
  const released = new Set<Resource>();

  function objectsOf(resource: Resource): readonly KubeObject[] {
    const old = [...log.viewOf(resource, count).values()].filter((object) => !isSentinel(resource, object));
    const sentinels = log.present(resource).filter((object) => isSentinel(resource, object));
    return [...old, ...sentinels];
  }

  function list(resource: Resource, wanted: Wanted): Reply {
    listedAt.set(nameOfResource(resource), log.versions.length);
    const body = {
      apiVersion: apiVersionOf(resource),
      kind: `${resource.kind}List`,
      metadata: { resourceVersion: log.resourceVersionOf(resource, count) },
      items: objectsOf(resource).filter(wanted),
    };
    return {
      kind: "answer",
      status: 200,
      headers: { "content-type": "application/json" },
      body: JSON.stringify(body),
    };
  }

  async function* events(
    resource: Resource,
    wanted: Wanted,
    request: ObservedRequest,
  ): AsyncGenerator<Buffer> {
    let live = listedAt.get(nameOfResource(resource)) ?? log.versions.length;
    if (request.query.get("sendInitialEvents") === "true") {
      live = log.versions.length;
      for (const object of objectsOf(resource).filter(wanted)) yield lineOf("ADDED", object);
      yield endOfSnapshot(resource, log.resourceVersionOf(resource, count));
    }
    let behind = count;
    while (!request.signal.aborted) {
      const caughtUp = released.has(resource);
      const until = log.versions.length;
      const missed = caughtUp ? log.versions.slice(behind, live) : [];
      const fresh = log.versions.slice(live, until);
      const due = [
        ...missed.filter(({ object }) => !isSentinel(resource, object)),
        ...fresh.filter(({ object }) => caughtUp || isSentinel(resource, object)),
      ];
      for (const version of due) {
        const type = version.resource === resource ? typeFor(version, wanted) : undefined;
        if (type !== undefined) yield lineOf(type, version.object);
      }
      live = until;
      if (caughtUp) behind = until;
      await log.conditions.until(
        () => request.signal.aborted || log.versions.length > live || released.has(resource) !== caughtUp,
      );
    }
  }

  return {
    release(those = resources) {
      for (const resource of those) released.add(resource);
      log.conditions.changed();
    },
    async request(request, forward) {
      const resource = resources.find(
        ({ group, plural }) => group === request.group && plural === request.resource,
      );
      const isRead = request.verb === "list" || request.verb === "watch";
      // Who asks for a part of a collection by its fields looks something up: no cache answers that.
      const isLookUp = request.verb === "list" && request.query.has("fieldSelector");
      if (resource === undefined || !isRead || isLookUp || released.has(resource)) return forward();
      const wanted = wantedBy(request);
      if (request.verb === "list") return list(resource, wanted);
      request.signal.addEventListener("abort", () => log.conditions.changed(), { once: true });
      return {
        kind: "forwarded",
        status: 200,
        headers: { "content-type": "application/json" },
        body: Readable.from(events(resource, wanted, request)),
      };
    },
  };
}

/** @throws RangeError for a selector that says more than which labels there are, or have which values, and which fields do or do not. */
function wantedBy({ namespace, name, query }: ObservedRequest): Wanted {
  const terms = query.get("labelSelector")?.split(",") ?? [];
  const present = terms.filter((term) => /^[\w./-]+$/.test(term));
  const labels = equalitiesOf(terms.filter((term) => !present.includes(term)).join(), ["="]);
  const fields = equalitiesOf(query.get("fieldSelector"), ["=", "!="]);
  return (object) => {
    const { metadata = {} } = object;
    return (
      (namespace === "" || metadata.namespace === namespace) &&
      (name === "" || metadata.name === name) &&
      present.every((key) => metadata.labels?.[key] !== undefined) &&
      labels.every(({ key, value }) => metadata.labels?.[key] === value) &&
      fields.every(({ key, operator, value }) => (fieldAt(object, key) === value) === (operator === "="))
    );
  };
}

interface Equality {
  readonly key: string;
  readonly operator: string;
  readonly value: string;
}

function equalitiesOf(selector: string | null, operators: readonly string[]): readonly Equality[] {
  if (selector === null || selector === "") return [];
  return selector.split(",").map((part) => {
    const [, key, operator = "", value] = /^([^!=()\s]+)(!?=)([^!=()\s]*)$/.exec(part) ?? [];
    if (key === undefined || value === undefined || !operators.includes(operator))
      throw new RangeError(`an older view cannot be selected by ${selector}`);
    return { key, operator, value };
  });
}

/** As the API server reads it: what is not set is empty. */
function fieldAt(object: unknown, path: string): unknown {
  let value = object;
  for (const name of path.split("."))
    value = typeof value === "object" && value !== null ? Reflect.get(value, name) : undefined;
  return value ?? "";
}

/** What a watch of a part of the collection says of this version: its labels or fields may have brought it there, or away. */
function typeFor({ type, object, before }: Version, wanted: Wanted): Version["type"] | undefined {
  const was = before !== undefined && wanted(before);
  if (!wanted(object)) return was ? "DELETED" : undefined;
  return type === "MODIFIED" && !was ? "ADDED" : type;
}

function lineOf(type: string, object: unknown): Buffer {
  return Buffer.from(`${JSON.stringify({ type, object })}\n`);
}

/** The mark of KEP-3157. */
function endOfSnapshot(resource: Resource, resourceVersion: string): Buffer {
  const annotations = { "k8s.io/initial-events-end": "true" };
  const { kind } = resource;
  const metadata = { resourceVersion, annotations };
  return lineOf("BOOKMARK", { kind, apiVersion: apiVersionOf(resource), metadata });
}
