/** Owners on a server of the tests' own, read on a virtual clock. */
import {
  ApiError,
  type ApiFailure,
  type KubeClient,
  type KubeObject,
  type ObjectName,
  type OwnerReference,
  type Pod,
  type ReadOptions,
  type Resource,
} from "@berth/kube";
import { createSilentLogger, createVirtualClock, sleep, type VirtualClock } from "@berth/runtime";
import { OwnerResolver } from "../owners.ts";
import { makePod } from "./pods.ts";

interface Kind {
  readonly group: string;
  readonly kind: string;
}

export const POOL: Kind = { group: "ate.dev", kind: "WorkerPool" };
export const DEPLOYMENT: Kind = { group: "apps", kind: "Deployment" };
const GROUPS: Readonly<Record<string, string>> = {
  ReplicaSet: "apps/v1",
  Deployment: "apps/v1",
  WorkerPool: "ate.dev/v1alpha1",
  Secret: "v1",
};
const PLURALS: Readonly<Record<string, string>> = { WorkerPool: "workerpools", Secret: "secrets" };

/** `ReplicaSet/web-1`, with the uid `u-web-1` unless it is given. */
export function refTo(owner: string, uid?: string): OwnerReference {
  const [kind = "", name = ""] = owner.split("/");
  return { apiVersion: GROUPS[kind] ?? "v1", kind, name, uid: uid ?? `u-${name}`, controller: true };
}

export function podOf(name: string, owner?: OwnerReference, node = "n1"): Pod {
  const pod = makePod(name, { namespace: "shop", node, uid: `pod-${name}` });
  return { ...pod, metadata: { ...pod.metadata, ...(owner && { ownerReferences: [owner] }) } };
}

/** Objects by `Kind/name`, what reads of them meet, and what was read. */
export class OwnerServer {
  readonly objects: Map<string, KubeObject> = new Map();
  /** By `Kind/name`: each failure meets one read. */
  readonly failures: Map<string, ApiFailure[]> = new Map();
  /** Kinds that may not be read. */
  readonly denied: Set<string> = new Set();
  /** Kinds that the server does not have yet. */
  readonly unserved: Set<string> = new Set();
  readonly reads: string[] = [];
  latencyMs = 5;
  inFlight = 0;
  most = 0;
  readonly #clock: VirtualClock;

  constructor(clock: VirtualClock) {
    this.#clock = clock;
  }

  /** Of the namespace of the pods. */
  put(id: string, owner?: string, uid?: string): void {
    const { name, uid: own } = refTo(id, uid);
    const ownerReferences = owner === undefined ? [] : [refTo(owner)];
    this.objects.set(id, { metadata: { namespace: "shop", name, uid: own, ownerReferences } });
  }

  readonly client: Pick<KubeClient, "get" | "read"> = {
    get: <T extends KubeObject>({ kind }: Resource<T>, of: ObjectName, options?: ReadOptions) =>
      this.#get(`${kind}/${of.name}`, of, options?.signal) as Promise<T>,
    read: async (path) => {
      await Promise.resolve();
      const served = Object.entries(PLURALS).filter(
        ([kind]) => path.endsWith(`/${GROUPS[kind]}`) && !this.unserved.has(kind),
      );
      if (served.length === 0) throw new ApiError({ kind: "notFound" }, { verb: "get", resource: path });
      return JSON.stringify({
        resources: served.map(([kind, name]) => ({ kind, name, namespaced: true })),
      });
    },
  };

  async #get(id: string, { namespace, name }: ObjectName, signal?: AbortSignal): Promise<KubeObject> {
    const [kind = ""] = id.split("/");
    const request = { verb: "get", resource: kind, name } as const;
    this.reads.push(id);
    this.most = Math.max(this.most, ++this.inFlight);
    const waited = await sleep(this.#clock, this.latencyMs, signal);
    this.inFlight--;
    if (!waited) throw new ApiError({ kind: "aborted" }, request);
    if (this.denied.has(kind)) throw new ApiError({ kind: "forbidden" }, request);
    const failure = this.failures.get(id)?.shift();
    if (failure !== undefined) throw new ApiError(failure, request);
    const found = this.objects.get(id);
    if (found === undefined || namespace !== "shop") throw new ApiError({ kind: "notFound" }, request);
    return found;
  }
}

export class OwnerWorld implements AsyncDisposable {
  readonly clock: VirtualClock = createVirtualClock();
  readonly server: OwnerServer = new OwnerServer(this.clock);
  readonly told: string[] = [];
  moved = 0;
  /** What else is done when a node is told, or all of them. */
  onNode: ((node: string) => void) | undefined;
  onAll: (() => void) | undefined;
  readonly resolver: OwnerResolver;
  readonly #stop = new AbortController();
  readonly #running: ReturnType<OwnerResolver["start"]>;

  constructor(kinds: readonly Kind[] = [POOL], more: { readonly maxOwners?: number } = {}) {
    this.resolver = new OwnerResolver({
      client: this.server.client,
      clock: this.clock,
      log: createSilentLogger(),
      random: () => 0,
      onChange: (node) => {
        this.told.push(node);
        this.onNode?.(node);
      },
      onMoved: () => {
        this.moved++;
        this.onAll?.();
      },
      ...more,
    });
    this.#running = this.resolver.start(this.#stop.signal);
    this.server.put("WorkerPool/pool");
    this.server.put("Deployment/web", "WorkerPool/pool");
    this.server.put("ReplicaSet/web-1", "Deployment/web");
    this.resolver.want(kinds);
  }

  /** `ReplicaSet/web-1` of each, nearest first. */
  look(pod: Pod): readonly string[] | undefined {
    return this.resolver.owners(pod)?.map(({ kind, name }) => `${kind}/${name}`);
  }

  async after(pod: Pod, ms = 100): Promise<readonly string[] | undefined> {
    this.look(pod);
    await this.clock.advance(ms);
    return this.look(pod);
  }

  async [Symbol.asyncDispose](): Promise<void> {
    this.#stop.abort();
    await this.clock.advance(1_000);
    await (await this.#running).ended;
  }
}
