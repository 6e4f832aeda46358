/**
 * The random lives of two nodes with gates, and the oracle that judges them. It knows no evidence, no state and no record:
 * only since when each signal has been there. Long because steps and oracle are only understood together.
 */
import type { Node, Pod, Taint } from "@berth/kube";
import * as fc from "fast-check";
import { recordOf } from "../../node/record.ts";
import type { SpecInput } from "./gate-case.ts";
import { type Documents, GateWorld } from "./gate-world.ts";

const NAMES = ["n1", "n2"] as const;
type Name = (typeof NAMES)[number];
const GATES = { g: "startup.k8s.io/initializing", h: "example.com/h" } as const;
type GateName = keyof typeof GATES;
const AT = "startup.k8s.io/completedAt";
const taintOf = (gate: GateName): Taint => ({ key: GATES[gate], value: "wait", effect: "NoSchedule" });

/** Signals that there are: pods of two kinds, all of a kind have to be ready, and an annotation of the node. */
const SIGNALS = ["a", "b", "ok"] as const;
type Signal = (typeof SIGNALS)[number];

/** One gate as a document has it, and as the oracle understands it. */
export interface GateModel {
  readonly signals: readonly Signal[];
  readonly stableMs: number;
  readonly minimumMs: number;
  readonly mode: "Once" | "Continuous";
  readonly taintRemoved: "Restore" | "Release";
  readonly timeout: "none" | "Keep" | "Release" | "Cordon";
  readonly regateOnReboot: boolean;
  readonly everyNode: boolean;
  readonly backfill: boolean;
  readonly behind: boolean;
}
const NO_POD_MS = 60_000;
const NOT_READY_MS = 120_000;

function specOf(name: GateName, model: GateModel): SpecInput {
  const pods = model.signals
    .filter((signal) => signal !== "ok")
    .map((kind) => ({
      selector: { matchLabels: { kind } },
      ownedBy: "Anything" as const,
    }));
  return {
    taint: { key: GATES[name] },
    signals: { pods, annotations: model.signals.includes("ok") ? [{ key: "ok" }] : [], conditions: [] },
    stableFor: `${model.stableMs / 1000}s`,
    minimumHold: `${model.minimumMs / 1000}s`,
    mode: model.mode,
    taintRemoved: model.taintRemoved,
    ...(model.timeout !== "none" && {
      timeouts: { noPod: `${NO_POD_MS / 1000}s`, notReady: `${NOT_READY_MS / 1000}s`, policy: model.timeout },
    }),
    regateOnReboot: model.regateOnReboot,
    heldAgain: { percent: 0, nodes: 1 },
    nodeSelector: model.everyNode ? {} : { matchLabels: { pool: "a" } },
    backfill: { within: model.backfill ? "5m" : "0s" },
    after: model.behind && name === "h" ? ["g"] : [],
  };
}

const node = fc.constantFrom<Name>(...NAMES);
const gateName = fc.constantFrom<GateName>("g", "h");
/** A gate as users may write it. */
export const model: fc.Arbitrary<GateModel> = fc.record({
  signals: fc.subarray([...SIGNALS], { minLength: 1 }),
  stableMs: fc.constantFrom(0, 5_000, 30_000),
  minimumMs: fc.constantFrom(0, 0, 20_000),
  mode: fc.constantFrom("Once", "Continuous"),
  taintRemoved: fc.constantFrom("Restore", "Restore", "Release"),
  timeout: fc.constantFrom("none", "none", "Keep", "Release", "Cordon"),
  regateOnReboot: fc.boolean(),
  everyNode: fc.constantFrom(true, true, false),
  backfill: fc.boolean(),
  behind: fc.boolean(),
});

const kind = fc.constantFrom<"a" | "b">("a", "b");
/** What time, kubelets, users and other processes do. */
export type Step =
  | { readonly do: "pass"; readonly ms: number }
  | {
      readonly do: "come" | "ready" | "unready" | "go" | "replace";
      readonly name: Name;
      readonly kind: "a" | "b";
    }
  | { readonly do: "ok" | "not ok"; readonly name: Name }
  | { readonly do: "taint" | "untaint" | "other value"; readonly name: Name; readonly gate: GateName }
  | { readonly do: "foreign"; readonly name: Name; readonly count: number }
  | { readonly do: "pool"; readonly name: Name; readonly pool: string }
  | { readonly do: "gate"; readonly gate: GateName; readonly model: GateModel | null }
  | { readonly do: "fault"; readonly gate: GateName }
  | { readonly do: "reboot" | "recreate"; readonly name: Name }
  | { readonly do: "restart" | "lose patches" | "unread" | "read" }
  | { readonly do: "jump"; readonly ms: number };

export const step: fc.Arbitrary<Step> = fc.oneof(
  {
    weight: 8,
    arbitrary: fc.record({
      do: fc.constant("pass"),
      ms: fc.constantFrom(0, 100, 1_000, 4_000, 6_000, 31_000, 130_000),
    }),
  },
  {
    weight: 10,
    arbitrary: fc.record({
      do: fc.constantFrom("come", "ready", "ready", "unready", "go", "replace"),
      name: node,
      kind,
    }),
  },
  {
    weight: 4,
    arbitrary: fc.record({
      do: fc.constantFrom("ok", "ok", "not ok"),
      name: node,
    }),
  },
  {
    weight: 3,
    arbitrary: fc.record({
      do: fc.constantFrom("taint", "untaint", "other value"),
      name: node,
      gate: gateName,
    }),
  },
  { weight: 2, arbitrary: fc.record({ do: fc.constant("foreign"), name: node, count: fc.nat(3) }) },
  {
    weight: 1,
    arbitrary: fc.record({ do: fc.constant("pool"), name: node, pool: fc.constantFrom("a", "b") }),
  },
  {
    weight: 2,
    arbitrary: fc.record({ do: fc.constant("gate"), gate: gateName, model: fc.option(model) }),
  },
  { weight: 1, arbitrary: fc.record({ do: fc.constant("fault"), gate: gateName }) },
  {
    weight: 1,
    arbitrary: fc.record({ do: fc.constantFrom("reboot", "recreate"), name: node }),
  },
  {
    weight: 2,
    arbitrary: fc.record({
      do: fc.constantFrom("restart", "lose patches", "unread", "read"),
    }),
  },
  {
    weight: 1,
    arbitrary: fc.record({ do: fc.constant("jump"), ms: fc.constantFrom(3_600_000, -3_600_000) }),
  },
);

/** Since when, on the clock that cannot jump; `undefined`: not now. */
type Since = number | undefined;

/** What the oracle knows of one node. */
interface Facts {
  /** Since when each signal has held without a break. */
  readonly since: Map<Signal, Since>;
  /** Since when the taint of a gate has stood, or its gate has wanted it back, without a break. */
  readonly held: Map<GateName, Since>;
  /** The gate has let the node go without its signals, on purpose and in this boot. */
  readonly forced: Set<GateName>;
  /** Another writer has removed the taint since the last look. */
  readonly takenOff: Set<GateName>;
}

class Life {
  readonly world: GateWorld;
  readonly found: string[] = [];
  readonly #models = new Map<GateName, GateModel>();
  readonly #faulty = new Set<GateName>();
  readonly #facts = new Map<Name, Facts>();
  readonly #pods = new Map<string, Pod>();
  #uid = 0;
  #boots = 1;
  #patchesToLose = 0;
  readonly #isContinuous: boolean;

  constructor(models: Readonly<Record<GateName, GateModel>>, isContinuous: boolean) {
    this.#isContinuous = isContinuous;
    const tainted = {
      labels: { pool: "a" },
      taints: [taintOf("g"), { key: "foreign-0", effect: "NoSchedule" }],
    };
    this.world = new GateWorld({
      nodes: [
        { name: "n1", ...tainted },
        { name: "n2", labels: { pool: "a" } },
      ],
      ageMs: 0,
    });
    this.world.idle = { idle: true };
    this.world.isLost = () => this.#patchesToLose-- > 0;
    this.world.onWrite = (before, after) => this.#audit(before, after);
    for (const name of NAMES) this.#facts.set(name, emptyFacts());
    for (const gate of ["g", "h"] as const) this.#models.set(gate, models[gate]);
    this.#configure();
    this.#note();
  }

  do(it: Step): void {
    const { world } = this;
    if (it.do === "pass") this.#pass(it.ms);
    else if (it.do === "ok" || it.do === "not ok")
      world.edit({ annotations: { ok: it.do === "ok" ? "true" : null } }, it.name);
    else if (it.do === "pool") world.edit({ labels: { pool: it.pool } }, it.name);
    else if (it.do === "foreign") this.#foreign(it.name, it.count);
    else if (it.do === "taint" || it.do === "untaint" || it.do === "other value")
      this.#meddle(it.name, it.gate, it.do);
    else if (it.do === "gate") this.#edit(it.gate, it.model ?? undefined);
    else if (it.do === "fault") this.#faulty.add(it.gate);
    else if (it.do === "reboot") this.#reboot(it.name);
    else if (it.do === "recreate") this.#recreate(it.name);
    else if (it.do === "restart") world.restart();
    else if (it.do === "lose patches") this.#patchesToLose = 2;
    else if (it.do === "unread" || it.do === "read") world.podsRead = it.do === "read";
    else if (it.do === "jump") world.wallMs += this.#isContinuous ? it.ms : 0;
    else if ("kind" in it) this.#pod(it.do, it.name, it.kind);
    this.#configure();
    this.#note();
    world.settle();
    this.#note();
  }

  /** All is well from now on; then what is wrong all the same. */
  finish(): readonly string[] {
    this.world.podsRead = true;
    this.#patchesToLose = 0;
    this.#faulty.clear();
    for (const name of NAMES) {
      for (const one of ["a", "b"] as const)
        for (const what of ["go", "come", "ready"] as const) this.#pod(what, name, one);
      this.world.edit({ annotations: { ok: "true" } }, name);
    }
    this.#configure();
    this.#note();
    this.#pass(600_000);
    const { writes } = this.world;
    this.#pass(3_600_000);
    if (this.world.writes !== writes) this.found.push("it goes on writing");
    for (const name of NAMES) this.#checkRest(name);
    this.world.setGates({});
    this.world.settle();
    for (const name of NAMES) {
      const record = recordOf(this.world.nodeOf(name));
      if (record.state !== "absent") this.found.push(`${name}: something is left of gates that are gone`);
    }
    return this.found;
  }

  #checkRest(name: Name): void {
    const node = this.world.nodeOf(name);
    const record = recordOf(node);
    for (const [gate, one] of this.#models) {
      const stands = standsOn(node, gate) !== undefined;
      const selected = one.everyNode || node.metadata?.labels?.["pool"] === "a";
      if (selected && stands) this.found.push(`${name}: ${gate} holds it though all signals are there`);
      const recorded = record.state === "read" && record.record.marks.has(`taint/${GATES[gate]}:NoSchedule`);
      if (recorded) this.found.push(`${name}: the taint of ${gate} is still recorded`);
    }
    if (node.spec?.unschedulable === true) this.found.push(`${name}: it is still cordoned`);
  }

  #pass(ms: number): void {
    const { world } = this;
    world.settle();
    this.#note();
    world.pass(ms);
    this.#note();
  }

  #foreign(name: Name, count: number): void {
    const ours = (this.world.nodeOf(name).spec?.taints ?? []).filter(({ key }) => isGateKey(key));
    const theirs = Array.from(
      { length: count },
      (_, at): Taint => ({ key: `foreign-${at}`, effect: "NoExecute" }),
    );
    // Among ours, so that there is an order to keep.
    this.world.edit({ spec: { taints: [...theirs.slice(0, 1), ...ours, ...theirs.slice(1)] } }, name);
  }

  #meddle(name: Name, gate: GateName, what: "taint" | "untaint" | "other value"): void {
    const taints = this.world.nodeOf(name).spec?.taints ?? [];
    const others = taints.filter(({ key }) => key !== GATES[gate]);
    if (what === "untaint" && others.length < taints.length) this.#of(name).takenOff.add(gate);
    const value = what === "taint" ? "wait" : "other";
    const next = what === "untaint" ? others : [{ ...taintOf(gate), value }, ...others];
    this.world.edit({ spec: { taints: next } }, name);
  }

  #edit(gate: GateName, next: GateModel | undefined): void {
    this.#faulty.delete(gate);
    if (next === undefined) this.#models.delete(gate);
    else this.#models.set(gate, next);
  }

  /** Kubelet and containers are away for two minutes; then the boot is another, and what pods say is from before. */
  #reboot(name: Name): void {
    this.#pass(120_000);
    this.#boots += 1;
    const bootID = `boot-${this.#boots}`;
    const lastHeartbeatTime = new Date(this.world.serverMs).toISOString();
    const conditions = [{ type: "Ready", status: "True", lastHeartbeatTime }];
    this.world.change(
      (node) => ({ ...node, status: { nodeInfo: { bootID }, conditions } as Node["status"] & object }),
      name,
    );
    const facts = this.#of(name);
    facts.forced.clear();
    for (const kind of ["a", "b"] as const) facts.since.set(kind, undefined);
    for (const [id, pod] of this.#pods)
      if (pod.spec?.nodeName === name)
        this.#pods.set(id, {
          ...pod,
          metadata: { ...pod.metadata, labels: { ...pod.metadata?.labels, stale: "1" } },
        });
    this.#showPods();
  }

  #recreate(name: Name): void {
    for (const [id, pod] of this.#pods) if (pod.spec?.nodeName === name) this.#pods.delete(id);
    this.#showPods();
    this.world.tally.gone(name);
    this.world.clocks.forget(name);
    this.world.register({ name, labels: { pool: "a" }, taints: [taintOf("h")] });
    this.#uid += 1;
    this.world.change(
      (node) => ({ ...node, metadata: { ...node.metadata, uid: `uid-${name}-${this.#uid}` } }),
      name,
    );
    this.#facts.set(name, emptyFacts());
  }

  #pod(what: "come" | "ready" | "unready" | "go" | "replace", name: Name, of: "a" | "b"): void {
    const mine = [...this.#pods].filter(
      ([, { metadata, spec }]) => spec?.nodeName === name && metadata?.labels?.["kind"] === of,
    );
    if (what === "go" || what === "replace") for (const [id] of mine) this.#pods.delete(id);
    if (what === "come" || what === "replace") {
      // A second one now and then; more say nothing new.
      if (mine.length < 2 || what === "replace") this.#add(name, of, what === "replace" && mine.length > 0);
    }
    if (what === "ready" || what === "unready")
      for (const [id, pod] of mine) this.#pods.set(id, this.#withReady(pod, what === "ready"));
    this.#showPods();
  }

  #add(name: Name, of: "a" | "b", isReady: boolean): void {
    this.#uid += 1;
    const uid = `pod-${this.#uid}`;
    const metadata = { name: uid, namespace: "kube-system", uid, labels: { kind: of } };
    const creationTimestamp = new Date(this.world.serverMs).toISOString();
    this.#pods.set(
      uid,
      this.#withReady(
        { metadata: { ...metadata, creationTimestamp }, spec: { nodeName: name, containers: [] } },
        isReady,
      ),
    );
  }

  /** Restarted where the boot is another; else it goes on running. */
  #withReady(pod: Pod, isReady: boolean): Pod {
    const { stale, ...labels } = pod.metadata?.labels ?? {};
    const before = pod.status?.containerStatuses?.[0]?.state?.running?.startedAt;
    const startedAt =
      stale === undefined && before !== undefined ? before : new Date(this.world.serverMs).toISOString();
    const was = pod.status?.conditions?.[0];
    const status = isReady ? "True" : "False";
    const lastTransitionTime =
      was?.status === status && stale === undefined
        ? was.lastTransitionTime
        : new Date(this.world.serverMs).toISOString();
    return {
      ...pod,
      metadata: { ...pod.metadata, labels },
      status: {
        conditions: [
          { type: "Ready", status, ...(lastTransitionTime !== undefined && { lastTransitionTime }) },
        ],
        containerStatuses: [
          {
            name: "main",
            ready: isReady,
            restartCount: 0,
            image: "",
            imageID: "",
            state: { running: { startedAt } },
          },
        ],
      },
    };
  }

  #showPods(): void {
    this.world.pods = [...this.#pods.values()];
  }

  #configure(): void {
    const documents: Documents = Object.fromEntries(
      [...this.#models]
        .filter(([gate]) => !this.#faulty.has(gate))
        .map(([gate, one]) => [gate, specOf(gate, one)]),
    );
    this.world.setGates(documents, { unreadable: [...this.#faulty] });
  }

  #of(name: Name): Facts {
    const facts = this.#facts.get(name);
    if (facts === undefined) throw new Error(`no node ${name}`);
    return facts;
  }

  /** Looks at the world as it is now, without asking the gates. */
  #note(): void {
    const now = this.world.monoMs;
    for (const name of NAMES) {
      const { since, held, forced, takenOff } = this.#of(name);
      const node = this.world.nodeOf(name);
      for (const signal of SIGNALS)
        since.set(signal, this.#isThere(signal, node) ? (since.get(signal) ?? now) : undefined);
      for (const gate of ["g", "h"] as const) {
        if (standsOn(node, gate) !== undefined) takenOff.delete(gate);
        const stands = standsOn(node, gate) !== undefined || takenOff.has(gate);
        held.set(gate, stands ? (held.get(gate) ?? now) : undefined);
        if (!this.#models.has(gate)) forced.delete(gate);
      }
    }
  }

  #isThere(signal: Signal, node: Node): boolean {
    if (signal === "ok") return node.metadata?.annotations?.["ok"] === "true";
    const pods = [...this.#pods.values()].filter(
      ({ metadata, spec }) => spec?.nodeName === node.metadata?.name && metadata?.labels?.["kind"] === signal,
    );
    return (
      pods.length > 0 &&
      pods.every(
        ({ metadata, status }) =>
          metadata?.labels?.["stale"] === undefined && status?.containerStatuses?.[0]?.ready === true,
      )
    );
  }

  #audit(before: Node, after: Node): void {
    const name = (after.metadata?.name ?? "n1") as Name;
    const say = (what: string): void => void this.found.push(`${name} at ${this.world.monoMs}: ${what}`);
    const { forced, takenOff } = this.#of(name);
    const taints = after.spec?.taints ?? [];
    if (new Set(taints.map(({ key, effect }) => `${key}:${effect}`)).size < taints.length)
      say("a taint stands twice");
    const foreign = ({ spec }: Node): string =>
      JSON.stringify((spec?.taints ?? []).filter(({ key }) => !isGateKey(key)));
    if (foreign(before) !== foreign(after)) say("it changed the taints of others");
    for (const gate of ["g", "h"] as const) {
      const [was, is] = [standsOn(before, gate), standsOn(after, gate)];
      if (was !== undefined && is === undefined) this.#auditRelease(gate, { before, after, say, name });
      else if (!this.#faulty.has(gate) && was === undefined && is === undefined && takenOff.delete(gate)) {
        // Whatever that write was about: the taint has not come back with it.
        if (this.#models.get(gate)?.taintRemoved === "Release") forced.add(gate);
      }
    }
    this.#note();
  }

  /** Only for one of these reasons may a taint go. */
  #auditRelease(
    gate: GateName,
    { before, after, say, name }: { before: Node; after: Node; name: Name; say: (what: string) => void },
  ): void {
    const one = this.#models.get(gate);
    const facts = this.#of(name);
    if (this.#faulty.has(gate)) return say(`${gate} let go though it has a fault`);
    if (one === undefined) return;
    const selected = one.everyNode || before.metadata?.labels?.["pool"] === "a";
    const recorded = recordOf(before);
    const isOurs = recorded.state === "read" && recorded.record.marks.has(`taint/${GATES[gate]}:NoSchedule`);
    if (!selected) return isOurs ? undefined : say(`${gate} took off a taint that is not its own`);
    if (gate === "g" && !/^\d+$/u.test(after.metadata?.annotations?.[AT] ?? ""))
      say("g let go without saying when");
    if (facts.forced.has(gate)) return;
    if (one.behind && gate === "h" && standsOn(before, "g") !== undefined && this.#isInForceOn("g", before))
      say("h let go before g");
    const { monoMs: now } = this.world;
    const heldFor = now - (facts.held.get(gate) ?? now);
    const isThere = one.signals.every(
      (signal) => now - (facts.since.get(signal) ?? Number.POSITIVE_INFINITY) >= one.stableMs,
    );
    // What is written is in whole seconds, and another process goes on from it.
    if (isThere && heldFor + 1_000 >= one.minimumMs) return;
    if (one.timeout === "Release" && heldFor + 1_000 >= NO_POD_MS) return void facts.forced.add(gate);
    say(
      `${gate} let go after ${heldFor} without ${one.signals.filter((it) => facts.since.get(it) === undefined).join()}`,
    );
  }

  #isInForceOn(gate: GateName, { metadata }: Node): boolean {
    const one = this.#models.get(gate);
    return (
      one !== undefined && !this.#faulty.has(gate) && (one.everyNode || metadata?.labels?.["pool"] === "a")
    );
  }
}

function emptyFacts(): Facts {
  return { since: new Map(), held: new Map(), forced: new Set(), takenOff: new Set() };
}

function isGateKey(key: string): boolean {
  return key === GATES.g || key === GATES.h;
}

function standsOn({ spec }: Node, gate: GateName): string | undefined {
  return spec?.taints?.find(({ key }) => key === GATES[gate])?.value;
}

/** What was wrong in a life of these steps, patch by patch and in the end. */
export function violationsOf(
  models: Readonly<Record<GateName, GateModel>>,
  steps: readonly Step[],
): readonly string[] {
  // Who knows nothing of a hold but what is written on the node has to believe the clock that it was written by.
  const isContinuous = !steps.some(
    (one) => one.do === "restart" || (one.do === "gate" && one.model === null),
  );
  const life = new Life(models, isContinuous);
  for (const one of steps) life.do(one);
  return life.finish();
}
