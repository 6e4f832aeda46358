/** What the measurements of descheduling share: a policy, nodes with and without the device, pods that ask for it. */
import { type Pod } from "@berth/kube";
import { aPod, type PodBuilder } from "@berth/testcluster";
import { withFewerVariables } from "./bench-cluster.ts";
import { type FootprintStage, NAMESPACE, report, turnOf } from "./footprint-stage.ts";
import { post } from "./gate-stage.ts";
import type { RawRequest } from "./raw-requests.ts";

/** The label that pods ask for and that nodes lose. */
export const DEVICE = "bench.example/device";
/** Pods with it are evicted; the benchmark watches these alone. */
export const MOVING = "bench.example/moving";
export const FOR_MS = 2000;
const PODS = `/api/v1/namespaces/${NAMESPACE}/pods`;
const MANY = 100_000;

/** It never waits for a limit. The large pods have an `emptyDir`. */
export const POLICY: object = {
  apiVersion: "berth.dev/v1alpha1",
  kind: "DeschedulePolicy",
  metadata: { name: "bench" },
  spec: {
    for: `${FOR_MS}ms`,
    keys: [DEVICE],
    include: ["LocalStorage"],
    limits: { cluster: MANY, node: MANY, namespace: MANY, perMinute: MANY },
    breaker: { percent: 100 },
  },
};

/** Nodes that lose nothing, for changes that matter to no pod. */
const FEW = 4;
/** `--max-pods` of a kubelet by default. */
const CROWD = 110;
/** One node of so many has the device, beside those that lose it. */
const ONE_OF = 4;
/** Pods of one owner. */
const REPLICAS = 10;
/** Kubernetes labels each node with it, so pods that ask for it always fit. */
const ALWAYS = { "kubernetes.io/arch": "amd64" };

export interface Furnished {
  /** 110 pods each, which do not ask for the device. */
  readonly crowded: readonly string[];
  /** As many, without a pod. */
  readonly empty: readonly string[];
  /** They have the device, and lose it. */
  readonly losing: readonly string[];
  /** They have the device, and keep it. */
  readonly keeping: readonly string[];
}

/** Gives some nodes the device, and creates these pods of 11 KB. Each of them asks for one label, and its node has it. */
export async function furnish(
  { raw, names }: FootprintStage,
  { pods, moved }: { readonly pods: number; readonly moved: number },
): Promise<Furnished> {
  const crowded = names.slice(0, FEW);
  const empty = names.slice(FEW, 2 * FEW);
  const losing = names.slice(2 * FEW, 2 * FEW + Math.min(moved, Math.floor(names.length / ONE_OF)));
  const others = names.slice(2 * FEW + losing.length);
  const keeping = others.filter((_, index) => index % ONE_OF === 0);
  const have = new Set([...losing, ...keeping]);
  // A server taints new nodes as not ready, and no controller runs that would take this back.
  const ready = (node: string): object => ({
    metadata: { labels: have.has(node) ? { [DEVICE]: "true" } : {} },
    spec: { taints: null },
  });
  await raw.sendAll(names.map((node) => patchNode(node, ready(node))));
  const nodeOf = (index: number): string =>
    index < CROWD * FEW ? turnOf(crowded, index) : turnOf(others, index);
  // Built once: what differs between them is little.
  const large = aPod("").in(NAMESPACE).realistic().with(withFewerVariables).build();
  await raw.sendAll(
    Array.from({ length: pods }, (_, index) => {
      const node = nodeOf(index);
      const { metadata } = ownedPod(`pod-${index}`, Math.floor(index / REPLICAS)).build();
      const nodeSelector = have.has(node) ? { [DEVICE]: "true" } : ALWAYS;
      return post(PODS, {
        ...large,
        metadata: { ...large.metadata, ...metadata },
        spec: { ...large.spec, nodeName: node, nodeSelector },
      });
    }),
  );
  return { crowded, empty, losing, keeping };
}

/** Berth with the policy, once it has read all pods. It is ready before that. */
export async function startSynced(stage: FootprintStage): ReturnType<FootprintStage["startBerth"]> {
  await using owned = new AsyncDisposableStack();
  const berth = owned.use(await stage.startBerth([POLICY]));
  await berth.line('"resource":"pods"');
  owned.move();
  return berth;
}

function ownedPod(name: string, owner: number | string): PodBuilder {
  return aPod(name).in(NAMESPACE).ownedBy("ReplicaSet", `set-${owner}`);
}

/** The only pod of its owner, Ready on this node. @param asks for the device. */
export function moving(
  name: string,
  { owner, node, asks }: { readonly owner: string; readonly node: string; readonly asks: boolean },
): readonly RawRequest[] {
  const pod = ownedPod(name, owner)
    .labelled({ [MOVING]: "true" })
    .on(node);
  const made: Pod = (asks ? pod.selecting({ [DEVICE]: "true" }) : pod).build();
  return [post(PODS, made), report(name, "Running", true)];
}

export function evict(name: string): RawRequest {
  const metadata = { name, namespace: NAMESPACE };
  return post(`${PODS}/${name}/eviction`, { apiVersion: "policy/v1", kind: "Eviction", metadata });
}

export function labelNode(node: string, key: string, value: string | null): RawRequest {
  return patchNode(node, { metadata: { labels: { [key]: value } } });
}

function patchNode(node: string, body: object): RawRequest {
  return { method: "PATCH", path: `/api/v1/nodes/${node}`, body };
}
