/** Every object of a cluster at one moment, so that a test can show that nothing is left of what it did. */
import { defineResource, isApiError, type KubeClient, type KubeObject, type Resource } from "@berth/kube";

/** By resource, namespace and name: `pods default/web`, `nodes n1`. Two of them are compared with `toEqual`. */
export type AllObjects = Readonly<Record<string, object>>;

/** Which objects are left out, and what of the others. */
export interface AllObjectsOptions {
  /** Is this object left out? `name` is as in the result. Default none. */
  readonly ignore?: (name: string) => boolean;
}

/** They come and go by themselves. */
const FLEETING: ReadonlySet<string> = new Set([
  "events",
  "events.events.k8s.io",
  "componentstatuses",
  // The server registers the versions of CRDs by itself, a moment after it serves them.
  "apiservices.apiregistration.k8s.io",
]);

/** The API server and the controllers of Kubernetes keep these; users do not. */
const CONTROLLER_ANNOTATIONS: ReadonlySet<string> = new Set([
  "deprecated.daemonset.template.generation",
  "deployment.kubernetes.io/revision",
]);

/**
 * Reads every resource that the server can list, except Events and APIServices. Of each object it leaves out what the server and its
 * controllers manage: resourceVersion, generation, managedFields, status, and the times of a Lease. The uid and the time of
 * creation stay, so that an object that was made anew is another.
 */
export async function readAllObjects(
  client: Pick<KubeClient, "read" | "pages">,
  { ignore = () => false }: AllObjectsOptions = {},
): Promise<AllObjects> {
  const found: Record<string, object> = {};
  const read = async (resource: Resource): Promise<void> => {
    try {
      for await (const { items } of client.pages(resource))
        for (const item of items) {
          const name = nameOf(resource, item);
          if (!ignore(name)) found[name] = stable(resource, item);
        }
    } catch (error) {
      // A CRD that went while it was read.
      if (!isApiError(error, "notFound")) throw error;
    }
  };
  await Promise.all((await listableResources(client)).map(read));
  return found;
}

function nameOf({ group, plural }: Resource, { metadata }: KubeObject): string {
  const resource = group === "" ? plural : `${plural}.${group}`;
  const { namespace, name = "" } = metadata ?? {};
  return `${resource} ${namespace === undefined ? name : `${namespace}/${name}`}`;
}

function stable(resource: Resource, object: KubeObject): object {
  const { status: _status, metadata = {}, ...rest } = object as KubeObject & { readonly status?: unknown };
  const { resourceVersion: _v, generation: _g, managedFields: _m, annotations = {}, ...kept } = metadata;
  const others = Object.entries(annotations).filter(([key]) => !CONTROLLER_ANNOTATIONS.has(key));
  return {
    ...(resource.plural === "leases" ? withoutTimes(rest) : rest),
    metadata: { ...kept, ...(others.length > 0 && { annotations: Object.fromEntries(others) }) },
  };
}

/** Its holder renews a Lease all the time. */
function withoutTimes(lease: object): object {
  const { spec = {} } = lease as { readonly spec?: Readonly<Record<string, unknown>> };
  const { renewTime: _r, acquireTime: _a, ...rest } = spec;
  return { ...lease, spec: rest };
}

interface ResourceList {
  readonly resources?: readonly {
    readonly name: string;
    readonly kind: string;
    readonly namespaced: boolean;
    readonly verbs: readonly string[];
  }[];
}

interface GroupList {
  readonly groups: readonly {
    readonly name: string;
    readonly preferredVersion: { readonly version: string };
    readonly versions: readonly { readonly version: string }[];
  }[];
}

/** Each resource once, in the version that the server prefers of those that have it. */
async function listableResources(client: Pick<KubeClient, "read">): Promise<readonly Resource[]> {
  const { groups } = JSON.parse(await client.read("/apis")) as GroupList;
  const found = new Map<string, Resource>();
  for (const { group, version } of [{ group: "", version: "v1" }, ...groups.flatMap(versionsOf)]) {
    const path = group === "" ? `/api/${version}` : `/apis/${group}/${version}`;
    const { resources = [] } = JSON.parse(await client.read(path)) as ResourceList;
    for (const { name: plural, kind, namespaced, verbs } of resources) {
      const key = group === "" ? plural : `${plural}.${group}`;
      if (plural.includes("/") || !verbs.includes("list") || FLEETING.has(key) || found.has(key)) continue;
      found.set(key, defineResource({ group, version, plural, kind, namespaced }));
    }
  }
  return [...found.values()];
}

function versionsOf({
  name,
  preferredVersion,
  versions,
}: GroupList["groups"][number]): readonly { readonly group: string; readonly version: string }[] {
  const all = new Set([preferredVersion.version, ...versions.map(({ version }) => version)]);
  return [...all].map((version) => ({ group: name, version }));
}
