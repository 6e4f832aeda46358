/**
 * A small cluster for the model of descheduling: a controller, a scheduler, kubelets and an API server with budgets, and
 * an oracle that knows only the pods. The steps and the oracle are only understood together.
 */
import { type Node, type Pod, pathOf } from "@berth/kube";
import { aNode, aPod, BUILT_AT } from "@berth/testcluster";
import { controllerOf } from "../../node/owner-reference.ts";
import { decideEvictions, type EvictionView, replicasIn, type Standing } from "../decide.ts";
import { EvictionLedger, isReady, ownerOf } from "../ledger.ts";
import { LostPods } from "../lost-pods.ts";
import type { DeschedulePolicyInForce } from "../policy.ts";
import { aPolicy, BUILT_MS, GPU, observations } from "./lost.ts";

export const NODES = ["n1", "n2", "n3", "n4"] as const;
/** Replicas by owner. */
export const OWNERS: Readonly<Record<string, number>> = { a: 1, b: 1, c: 1, d: 2, e: 3 };
const FOR_MS = 60_000;
const LIMITS = { cluster: 3, node: 2, namespace: 2, perMinute: 2 };
/** Two nodes have room for all pods. */
const ROOM = 4;
const REPLACEMENT_MS = 600_000;
const ANSWER_MS = 60_000;
const WINDOW_MS = 300_000;

export const guarded: DeschedulePolicyInForce = aPolicy({
  for: "1m",
  limits: LIMITS,
  breaker: { percent: 40, pods: 4 },
});
/** The same after the user has let all pods go. */
export const open: DeschedulePolicyInForce = aPolicy({
  for: "1m",
  limits: LIMITS,
  breaker: { percent: 100 },
});

/** About no pod any more. */
export const narrowed: DeschedulePolicyInForce = aPolicy({
  for: "1m",
  limits: LIMITS,
  podSelector: { matchLabels: { app: "none" } },
  breaker: { percent: 100 },
});
/** About the same pods all the time, and evicts none. */
const shadow: DeschedulePolicyInForce = aPolicy({ dryRun: true, for: "1m" }, "shadow");

interface Gone {
  readonly uid: string;
  readonly owner: string;
  readonly node: string;
  readonly namespace: string;
  readonly atMs: number;
  /** Pods of the owner at that time. */
  readonly others: ReadonlySet<string>;
}

export class Life {
  readonly pods: Map<string, Pod> = new Map();
  /** Broken rules, in words. */
  readonly violations: string[] = [];
  readonly answers: Map<string, "evict" | "refuse" | "silent"> = new Map();
  policy: DeschedulePolicyInForce = guarded;
  #nodes = new Map<string, Node>();
  #nowMs = 0;
  #made = 0;
  #ledger = new EvictionLedger();
  #lost = this.#newLost();
  // What the oracle knows of this Berth.
  #lostSince = new Map<string, number>();
  #gone: Gone[] = [];
  /** By namespace, "" for all. */
  #frozenUntilMs = new Map<string, number>();

  constructor() {
    for (const name of NODES) this.label(name, name !== "n4");
    this.#runControllers();
    for (const uid of this.pods.keys()) this.ready(uid, true);
  }

  label(name: string, isThere: boolean): void {
    this.#nodes.set(
      name,
      aNode(name)
        .labelled(isThere ? { [GPU]: "true" } : {})
        .build(),
    );
  }

  ready(uid: string, isSo: boolean): void {
    this.#change(uid, (pod) => {
      if (!pod.spec?.nodeName) return pod;
      return { ...pod, status: { conditions: [{ type: "Ready", status: isSo ? "True" : "False" }] } };
    });
  }

  /** The kubelet has ended a pod that is being deleted. */
  end(uid: string): void {
    const pod = this.pods.get(uid);
    if (pod?.metadata?.deletionTimestamp === undefined) return;
    this.pods.delete(uid);
    this.#lost.forget(pathOf(pod.metadata));
  }

  /** Berth starts again and has forgotten all. The oracle as well: it cannot ask for more than the pods show. */
  restart(): void {
    this.#ledger = new EvictionLedger();
    this.#lost = this.#newLost();
    this.#lostSince = new Map();
    this.#gone = [];
    this.#frozenUntilMs = new Map();
  }

  setPolicy(policy: DeschedulePolicyInForce): void {
    this.policy = policy;
    this.#ledger.forgetPolicies(new Set([shadow.rule]));
    this.#frozenUntilMs = new Map();
    this.#gone = this.#gone.filter((it) => this.#isSent(it));
  }

  /** @param looks whether Berth judges all pods before. */
  pass(ms: number, looks = true): void {
    this.#nowMs += ms;
    this.#runControllers();
    if (looks) for (const pod of this.pods.values()) this.#lost.look(pod);
    this.#see();
    this.#ledger.observe(
      (owner) => this.#podsOf(owner),
      (pod) => this.#lost.has(pod),
      this.#nowMs,
    );
    const decision = decideEvictions(this.#view());
    this.#ledger.freeze(decision.tooMany, this.#nowMs);
    for (const standing of decision.standings)
      if (standing.reason === "PodDescheduled") this.#begin(standing);
    for (const { pod } of this.#ledger.inProgress.values()) this.#send(pod.metadata?.uid ?? "");
  }

  isLost(pod: Pod): boolean {
    const { nodeName = "" } = pod.spec ?? {};
    const labels = this.#nodes.get(nodeName)?.metadata?.labels;
    return nodeName !== "" && pod.metadata?.deletionTimestamp === undefined && labels?.[GPU] !== "true";
  }

  #newLost(): LostPods {
    return new LostPods({
      ...observations,
      policies: () => [this.policy, shadow],
      nodeOf: ({ spec }) => this.#nodes.get(spec?.nodeName ?? ""),
      monotonic: () => this.#nowMs,
    });
  }

  #view(): EvictionView {
    return {
      lost: this.#lost.all(),
      inScope: () => this.#inScope().length,
      ledger: this.#ledger,
      podsOf: (owner) => this.#podsOf(owner),
      replicasOf: (owner) => replicasIn(this.#podsOf(owner)),
      placed: this.#ledger.inProgress
        .values()
        .flatMap(({ pod, target }) => (target === undefined ? [] : [{ pod, node: target }]))
        .toArray(),
      fit: (_, _how, placed) => {
        const node = this.#nodeWithRoom((name) => placed.filter((it) => it.node === name).length);
        return node === undefined ? { reason: "NoOtherNode", message: "none" } : { node };
      },
      now: BUILT_MS + this.#nowMs,
      nowMs: this.#nowMs,
    };
  }

  #inScope(): readonly Pod[] {
    return [...this.pods.values()].filter(
      ({ spec, metadata }) => spec?.nodeName && !metadata?.deletionTimestamp,
    );
  }

  #podsOf(owner: string): readonly Pod[] {
    return [...this.pods.values()].filter((pod) => ownerOf(pod) === owner);
  }

  #nodeWithRoom(more: (node: string) => number = () => 0): string | undefined {
    const taken = (name: string): number =>
      [...this.pods.values()].filter(({ spec }) => spec?.nodeName === name).length + more(name);
    const [least] = NODES.filter((name) => this.#nodes.get(name)?.metadata?.labels?.[GPU] === "true").sort(
      (a, b) => taken(a) - taken(b),
    );
    return least !== undefined && taken(least) < ROOM ? least : undefined;
  }

  /** The ReplicaSet controller makes pods, and the scheduler binds them. */
  #runControllers(): void {
    for (const [owner, replicas] of Object.entries(OWNERS)) {
      const namespace = `team-${Number(owner > "b")}`;
      const kept = this.#podsOf(`${namespace}/${owner}`).filter(isKept);
      for (let left = replicas - kept.length; left > 0; left -= 1) {
        this.#made += 1;
        const uid = `${owner}-${this.#made}`;
        const pod = aPod(uid)
          .in(namespace)
          .stored({ uid, creationTimestamp: BUILT_AT })
          .ownedBy("ReplicaSet", owner, owner);
        this.pods.set(uid, pod.selecting({ [GPU]: "true" }).build());
      }
    }
    for (const [uid, { spec }] of this.pods) {
      if (spec?.nodeName) continue;
      const nodeName = this.#nodeWithRoom();
      if (nodeName !== undefined)
        this.#change(uid, (pod) => ({ ...pod, spec: { containers: [], ...pod.spec, nodeName } }));
    }
  }

  #change(uid: string, change: (pod: Pod) => Pod): void {
    const pod = this.pods.get(uid);
    if (pod !== undefined) this.pods.set(uid, change(pod));
  }

  /** The oracle looks at all pods, as Berth does. */
  #see(): void {
    const lost = [...this.pods].filter(([, pod]) => this.isLost(pod)).map(([uid]) => uid);
    this.#lostSince = new Map(lost.map((uid) => [uid, this.#lostSince.get(uid) ?? this.#nowMs]));
    this.#gone = this.#gone.filter(
      (one) =>
        this.#nowMs - one.atMs < (this.#isSent(one) ? REPLACEMENT_MS : ANSWER_MS) && !this.#isReplaced(one),
    );
    const recent = this.#ledger.begunSince(this.#nowMs - WINDOW_MS).map(({ uid }) => uid);
    const counted = lost.filter((uid) => !this.#ledger.isGivenUp(ownerOf(this.pods.get(uid) ?? {})));
    const { percent, pods } = this.policy.spec.breaker;
    const going = [...new Set([...counted, ...recent])].filter(
      (uid) => this.#ledger.restOf(uid)?.reason !== "DisruptionBudget",
    );
    const isTooMany = (count: number): boolean =>
      percent < 100 && count >= pods && count * 100 > this.#inScope().length * percent;
    const freeze = (namespace: string): void =>
      void this.#frozenUntilMs.set(namespace, this.#nowMs + WINDOW_MS);
    // An owner of a team is named by the first letter of its pods.
    const ofTeam = [true, false].map((is) => going.filter((uid) => uid < "c" === is).length);
    for (const [at, count] of ofTeam.entries()) if (isTooMany(count)) freeze(`team-${at}`);
    let least = 1;
    while (!isTooMany(least) && least < 100) least += 1;
    const shares = ofTeam.map((count) => Math.min(count, least / 2));
    if (isTooMany(shares.reduce((a, b) => a + b))) freeze("");
  }

  #isSent({ uid }: Gone): boolean {
    const pod = this.pods.get(uid);
    return pod === undefined || !isKept(pod);
  }

  #isReplaced({ uid, owner, others }: Gone): boolean {
    const come = this.#podsOf(owner).filter(({ metadata }) => !others.has(metadata?.uid ?? ""));
    return !this.pods.has(uid) && come.some(isReady);
  }

  #begin({ lost: { pod, policy, message }, target }: Standing): void {
    const [uid, owner, node] = [pod.metadata?.uid ?? "", ownerOf(pod), pod.spec?.nodeName ?? ""];
    const namespace = pod.metadata?.namespace ?? "";
    const others = this.#podsOf(owner).filter((it) => it.metadata?.uid !== uid);
    const require = (holds: boolean, rule: string): void => {
      if (!holds) this.violations.push(`${uid} at ${this.#nowMs}: ${rule}`);
    };
    require(this.isLost(pod), "it fits its node");
    require(this.#nowMs - (this.#lostSince.get(uid) ?? this.#nowMs) >=
      FOR_MS, "it was not lost for long enough");
    for (const of of ["", namespace])
      require(this.#nowMs >= (this.#frozenUntilMs.get(of) ?? 0), `its policy is frozen for "${of}"`);
    require(others.every((it) => isKept(it) && (isReady(it) || this.isLost(it))), "its owner is not whole");
    require(!this.#gone.some((it) => it.owner === owner), "another pod of its owner goes");
    require(this.#gone.length < LIMITS.cluster, "too many go in the cluster");
    const going = (is: (it: Gone) => boolean): number => this.#gone.filter(is).length;
    require(going((it) => it.node === node) < LIMITS.node, "too many go from its node");
    require(going((it) => it.namespace === namespace) < LIMITS.namespace, "too many go in its namespace");
    require(this.#ledger.begunSince(this.#nowMs - 60_000).length <
      LIMITS.perMinute, "too many in this minute");
    require(target !== undefined, "no other node was found");
    const known = new Set(this.#podsOf(owner).map(({ metadata }) => metadata?.uid ?? ""));
    this.#gone.push({ uid, owner, node, namespace, atMs: this.#nowMs, others: known });
    const of = {
      pod,
      rule: policy.rule,
      owner,
      node,
      namespace,
      known,
      message,
      atMs: this.#nowMs,
    };
    this.#ledger.begin({ ...of, isAccepted: false, ...(target !== undefined && { target }) });
  }

  #send(uid: string): void {
    const pod = this.pods.get(uid);
    const eviction = this.#ledger.inProgress.values().find((it) => it.pod.metadata?.uid === uid);
    if (pod === undefined || eviction?.isAccepted !== false) return;
    const answer = this.answers.get(controllerOf(pod.metadata ?? {})?.uid ?? "") ?? "evict";
    const forget = (): void => void (this.#gone = this.#gone.filter((it) => it.uid !== uid));
    this.#lost.look(pod);
    if (!this.#lost.has(pod, eviction.rule)) {
      this.#ledger.withdraw(uid);
      forget();
    } else if (answer === "evict") {
      if (this.policy === narrowed) this.violations.push(`${uid} at ${this.#nowMs}: no policy is about it`);
      this.#ledger.accept(uid);
      this.#change(uid, (it) => ({ ...it, metadata: { ...it.metadata, deletionTimestamp: BUILT_AT } }));
    } else if (answer === "refuse") {
      this.#ledger.refuse(uid, { reason: "DisruptionBudget", message: "no" }, 0, this.#nowMs);
      forget();
    }
  }
}

function isKept({ metadata }: Pod): boolean {
  return metadata?.deletionTimestamp === undefined;
}
