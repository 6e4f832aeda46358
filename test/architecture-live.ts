/**
 * Architecture placement with the rest of Kubernetes: nodes that kwok runs, pods that the scheduler binds, users that make
 * pods all the while, and in which order things came about.
 */
import { daemonSets, type KubeObject, nodes, type Pod, pods, type Toleration } from "@berth/kube";
import { eventually } from "@berth/testcluster";
import { type ArchitectureFixture, followed, KEY } from "./architecture-fixture.ts";
import { taintsOf } from "./fixture.ts";

/**
 * A node that kwok runs; its name is that of the architecture unless it says otherwise. Resolves once the controllers let
 * pods onto it: until then the scheduler takes another, whatever pods prefer.
 */
export async function addNode(
  fixture: ArchitectureFixture,
  architecture: string,
  name: string = architecture,
): Promise<void> {
  await fixture.add(name, (it) => it.architecture(architecture).capacity({ pods: "500" }).fake());
  await eventually(
    async () => {
      const taints = taintsOf(await fixture.readNode(name));
      if (taints.some((it) => it.startsWith("node.kubernetes.io/"))) throw new Error(taints.join());
    },
    { timeoutMs: 60_000 },
  );
}

/**
 * One that takes pods only once it is tainted. Real ones take seconds to be ready, as the agents of their network have to
 * start; those of kwok are ready at once.
 */
export async function addTaintedNode(fixture: ArchitectureFixture, architecture: string): Promise<void> {
  const booting = { key: "example.com/booting", effect: "NoSchedule" };
  await fixture.add(architecture, (it) => it.architecture(architecture).tainted(booting).fake());
  await fixture.tainted(architecture, [architecture]);
  await eventually(() => untaint(fixture, architecture, booting.key));
}

/** Fails when somebody else writes the taints at the same time. */
async function untaint(fixture: ArchitectureFixture, node: string, key: string): Promise<void> {
  const { metadata, spec } = await fixture.readNode(node);
  const at = spec?.taints?.findIndex((taint) => taint.key === key) ?? -1;
  const test = { op: "test", path: "/metadata/resourceVersion", value: metadata?.resourceVersion } as const;
  const body = [test, { op: "remove", path: `/spec/taints/${at}` }] as const;
  await fixture.cluster.client.patch(nodes, { name: fixture.nodeName(node) }, { type: "json", body });
}

/** Of the node that the pod is bound to; none before. */
async function whereIs(fixture: ArchitectureFixture, { spec }: Pod): Promise<string | undefined> {
  if (spec?.nodeName === undefined) return undefined;
  const { status } = await fixture.cluster.client.get(nodes, { name: spec.nodeName });
  return status?.nodeInfo?.architecture;
}

/** Resolves with its architecture once the pod runs. */
export async function running(fixture: ArchitectureFixture, name: string): Promise<string> {
  const pod = await eventually(
    async () => {
      const found = await fixture.readPod(name);
      if (found.status?.phase !== "Running")
        throw new Error(`${name} does not run: ${JSON.stringify([found.spec, found.status])}`);
      return found;
    },
    { timeoutMs: 60_000 },
  );
  return (await whereIs(fixture, pod)) ?? "";
}

/** Resolves once the scheduler has found no node for the pod. */
export async function unschedulable(fixture: ArchitectureFixture, name: string): Promise<void> {
  await eventually(async () => {
    const { status } = await fixture.readPod(name);
    const condition = status?.conditions?.find(({ type }) => type === "PodScheduled");
    if (condition?.reason !== "Unschedulable") throw new Error(`${name}: ${JSON.stringify(condition)}`);
  });
}

export interface FirstVersions {
  /** Workloads that came to tolerate the taint, and nodes that came to carry it, with the versions that did first. */
  readonly tolerating: ReadonlyMap<string, bigint>;
  readonly tainted: ReadonlyMap<string, bigint>;
}

/** From now on, until its end. Versions of all resources are of one order: they are etcd's revisions. */
export async function firstVersions(
  fixture: ArchitectureFixture,
): Promise<AsyncDisposable & { end(): Promise<FirstVersions> }> {
  await using owned = new AsyncDisposableStack();
  const tolerating = new Map<string, bigint>();
  const tainted = new Map<string, bigint>();
  const note = (to: Map<string, bigint>, what: string, { metadata }: KubeObject): void => {
    if (!to.has(what)) to.set(what, BigInt(metadata?.resourceVersion ?? "0"));
  };
  const tolerates = (list: readonly Toleration[] = []): boolean => list.some(({ key }) => key === KEY);
  const { client } = fixture.cluster;
  const watches = [
    await followed(client, nodes, (node) => {
      if (taintsOf(node).some((it) => it.startsWith(KEY))) note(tainted, node.metadata?.name ?? "", node);
    }),
    await followed(client, daemonSets, (set) => {
      if (tolerates(set.spec?.template.spec?.tolerations))
        note(tolerating, `DaemonSet ${set.metadata?.name}`, set);
    }),
    await followed(client, pods, (pod) => {
      const isAgent = pod.metadata?.ownerReferences !== undefined;
      if (!isAgent && tolerates(pod.spec?.tolerations)) note(tolerating, `Pod ${pod.metadata?.name}`, pod);
    }),
  ];
  for (const watch of watches) owned.use(watch);
  const disposables = owned.move();
  return {
    async end() {
      for (const watch of watches) await watch.end();
      return { tolerating, tainted };
    },
    [Symbol.asyncDispose]: () => disposables.disposeAsync(),
  };
}

/** How many there are at once. */
const USERS = 3;

export interface Placed {
  readonly pod: Pod;
  readonly allowed: readonly string[];
}

export interface Users extends AsyncDisposable {
  /** Resolves once all pods run that were made before the call. */
  settled(): Promise<void>;
  /** Resolves once so many pods run that were made after the call, with these. */
  seen(count: number): Promise<readonly Placed[]>;
}

/**
 * Each makes a pod, waits until it runs, checks where, and makes the next, until it is disposed.
 *
 * @param choose The image of each pod by its number, and where that runs.
 */
export function createUsers(
  fixture: ArchitectureFixture,
  choose: (at: number) => Promise<{ readonly image: string; readonly allowed: readonly string[] }>,
): Users {
  const stop = new AbortController();
  const placed: (Placed & { readonly madeAt: number })[] = [];
  const waiting = new Map<string, number>();
  let count = 0;
  const next = async (): Promise<void> => {
    const at = count++;
    const name = `app-${at}`;
    const { image, allowed } = await choose(at);
    const madeAt = performance.now();
    waiting.set(name, madeAt);
    await fixture.create(fixture.pod(name).image(image));
    const where = await running(fixture, name);
    if (!allowed.includes(where)) throw new Error(`${name} is for ${allowed.join()} and runs on ${where}`);
    waiting.delete(name);
    placed.push({ pod: await fixture.readPod(name), allowed, madeAt });
  };
  const user = async (): Promise<void> => {
    while (!stop.signal.aborted) await next();
  };
  const working = Promise.all(Array.from({ length: USERS }, user)).finally(() => stop.abort());
  working.catch(() => undefined); // told to whoever looks next
  const when = <T>(check: (from: number) => T): Promise<T> => {
    const from = performance.now();
    const look = async (): Promise<T> => {
      if (stop.signal.aborted) await working;
      return check(from);
    };
    return eventually(look, { timeoutMs: 90_000 });
  };
  return {
    settled: () =>
      when((from) => {
        const before = [...waiting].filter(([, madeAt]) => madeAt < from);
        if (before.length > 0) throw new Error(`${JSON.stringify(before)} wait`);
      }),
    seen: (wanted) =>
      when((from) => {
        const found = placed.filter(({ madeAt }) => madeAt > from);
        if (found.length < wanted) throw new Error(`${found.length} of ${wanted} pods run`);
        return found;
      }),
    async [Symbol.asyncDispose]() {
      stop.abort();
      await working;
    },
  };
}
