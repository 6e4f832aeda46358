/** Policies, pods and views for tests of descheduling. All pods ask for the label `GPU=true`. */
import { type Pod, pathOf } from "@berth/kube";
import { aPod, BUILT_AT, type PodBuilder } from "@berth/testcluster";
import { compileDeschedule } from "../compile.ts";
import { decideEvictions, type EvictionView, type LostPod, replicasIn } from "../decide.ts";
import { deschedulePolicySpec } from "../document.ts";
import type { JudgeObservations } from "../judge.ts";
import { type Eviction, emptyLedger, ownerOf } from "../ledger.ts";
import type { DeschedulePolicyInForce } from "../policy.ts";

export const GPU = "example.com/gpu";
/** When all pods here were made, ms. */
export const BUILT_MS: number = Date.parse(BUILT_AT);

/** @param spec as a user writes it. */
export function aPolicy(spec: object = {}, name = "default"): DeschedulePolicyInForce {
  const documents = [{ name, spec: deschedulePolicySpec.parse(spec), annotations: {} }];
  const { policies, faults } = compileDeschedule({ sources: [{ source: "config", documents }] });
  const [policy] = policies;
  if (policy === undefined) throw new TypeError(JSON.stringify(faults));
  return policy;
}

/** A Ready pod of the ReplicaSet `web` on node `n1`; its name is its UID. */
export function gpuPod(name: string): PodBuilder {
  return aPod(name)
    .stored({ uid: name, creationTimestamp: BUILT_AT })
    .ownedBy("ReplicaSet", "web", "web")
    .selecting({ [GPU]: "true" })
    .on("n1")
    .ready();
}

/** A pod of an owner of its own, which has its name. */
export function single(name: string): Pod {
  return gpuPod(name).ownedBy("ReplicaSet", name, name).build();
}

/** `p1`, `p2` and so on, lost under one policy. */
export function singles(count: number, more: Partial<LostPod> = {}): readonly LostPod[] {
  const of = { policy: aPolicy(), ...more };
  return Array.from({ length: count }, (_, i) => lostPod(single(`p${i + 1}`), of));
}

/** The default: rules write the label `GPU`, and all is known. */
export const observations: JudgeObservations = {
  namespaceLabels: () => ({}),
  priorityOf: () => null,
  derivedKeys: () => new Set([GPU]),
  isUnsettled: () => false,
};

/** Lost since 0 ms. */
export function lostPod(pod: Pod, more: Partial<LostPod> = {}): LostPod {
  return { pod, name: pathOf(pod.metadata), policy: aPolicy(), sinceMs: 0, message: "it is lost", ...more };
}

/** An hour after the pods were lost, with room on node `n9`. @param more.pods pods besides the lost ones. */
export function aView(
  lost: readonly LostPod[],
  { pods = [], ...more }: Partial<EvictionView> & { readonly pods?: readonly Pod[] } = {},
): EvictionView {
  const all = [...new Set([...lost.map(({ pod }) => pod), ...pods])];
  const podsOf = (owner: string) => all.filter((pod) => ownerOf(pod) === owner);
  return {
    lost,
    inScope: () => 1_000,
    ledger: emptyLedger,
    podsOf,
    replicasOf: (owner) => replicasIn(podsOf(owner)),
    placed: [],
    fit: () => ({ node: "n9" }),
    now: BUILT_MS + 3_600_000,
    nowMs: 3_600_000,
    ...more,
  };
}

/** `pod reason` of each standing, in order. */
export function decided(view: EvictionView): readonly string[] {
  return decideEvictions(view).standings.map(
    ({ lost: { pod }, reason }) => `${pod.metadata?.name} ${reason}`,
  );
}

/** An accepted eviction of this pod, which was the only one of its owner. */
export function anEviction(pod: Pod, more: Partial<Eviction> = {}): Eviction {
  return {
    pod,
    rule: "config/default",
    owner: ownerOf(pod),
    node: pod.spec?.nodeName ?? "",
    namespace: pod.metadata?.namespace ?? "",
    message: "it is lost",
    atMs: 0,
    isAccepted: true,
    known: new Set([pod.metadata?.uid ?? ""]),
    ...more,
  };
}
