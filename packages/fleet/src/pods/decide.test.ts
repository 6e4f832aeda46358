import type { Pod } from "@berth/kube";
import { mergeConditions, toTime } from "@berth/runtime";
import * as fc from "fast-check";
import { describe, expect, it } from "vitest";
import { seededRun } from "../../../runtime/src/testing/property.ts";
import type { Seen } from "../api/seen.ts";
import type { Instance } from "../api/workload.ts";
import type { InstanceRules } from "../fleet/document.ts";
import { RULES } from "../fleet/testing/rules.ts";
import { decidePod, type PodDecision, type PodView } from "./decide.ts";
import { anInstance, CREATED, createdMs, podOf } from "./testing/instances.ts";

const run = seededRun(500, process.env);
const instance = anInstance();
const none: Seen<Pod> = { is: "none" };
const there = (value: Pod): Seen<Pod> => ({ is: "there", value });
const withMeta = (pod: Pod, metadata: Pod["metadata"]): Pod => ({
  ...pod,
  metadata: { ...pod.metadata, ...metadata },
});
const decide = (pod: Seen<Pod>, change: Partial<PodView> = {}): PodDecision =>
  decidePod({ instance, pod, nowMs: createdMs, isGated: false, rules: RULES, ...change });
const deleted = anInstance({}, { metadata: { deletionTimestamp: CREATED } });

/** `action: Programmed status/reason, Available status/reason message` */
const summary = ({ pod, contribution, isDown }: PodDecision): string => {
  const [programmed, available] = contribution.conditions;
  if (programmed !== undefined)
    expect([programmed.type, available?.type]).toEqual(["Programmed", "Available"]);
  const says =
    programmed === undefined
      ? "nothing"
      : `${programmed.status}/${programmed.reason}, ${available?.status}/${available?.reason} ${available?.message}`;
  return `${isDown ? "down" : (pod?.do ?? "wait")}: ${says}`;
};
const PROVISIONING = "False/ProgrammingInProgress, False/Provisioning";
const MISCONFIGURED = "False/ConfigurationError, False/ConfigurationError";

const pending = podOf(instance);
const ready = podOf(instance, { phase: "Running", conditions: [{ type: "Ready", status: "True" }] }, "n1");
const evicted = podOf(
  instance,
  { phase: "Failed", reason: "Evicted", message: "The node was low on memory. " },
  "n1",
);
const ending = withMeta(ready, { deletionTimestamp: CREATED });
const foreign = withMeta(ready, { ownerReferences: [] });
const ofEarlier = podOf(anInstance({}, { metadata: { uid: "i-0" } }));

describe("the pod of an Instance", () => {
  it.each<[string, Seen<Pod>, Partial<PodView>, string]>([
    ["is created once no gate is left", none, {}, `create: ${PROVISIONING} The pod is being created`],
    ["is not created while a gate is there", none, { isGated: true }, "wait: nothing"],
    ["is left alone while it is unknown", { is: "unknown", because: "" }, {}, "wait: nothing"],
    ["starts", there(pending), {}, `wait: ${PROVISIONING} The pod waits for the scheduler`],
    ["is ready", there(ready), {}, "wait: True/Programmed, True/Available The pod is ready"],
    [
      "is replaced after it was evicted",
      there(evicted),
      { memory: { knownMs: 60_000, ended: 1 } },
      `delete: ${PROVISIONING} The pod has ended (Evicted: The node was low on memory). Berth replaces it`,
    ],
    [
      "is replaced after it has succeeded",
      there(podOf(instance, { phase: "Succeeded" })),
      { memory: { knownMs: 60_000, ended: 1 } },
      `delete: ${PROVISIONING} The pod has ended (Succeeded). Berth replaces it`,
    ],
    [
      "is kept for ten seconds when a kubelet refused it at once",
      there(evicted),
      {},
      `wait: ${PROVISIONING} The pod has ended (Evicted: The node was low on memory). Berth replaces it after 10 s`,
    ],
    [
      "is waited for while its kubelet ends it",
      there(ending),
      { nowMs: createdMs + 86_400_000 },
      `wait: ${PROVISIONING} The pod is being deleted. Berth replaces it once the kubelet of node n1 has ended it`,
    ],
    [
      "is not touched when it has no controller",
      there(foreign),
      {},
      `wait: ${MISCONFIGURED} Pod ns-u/w-us-dfw-0 exists and has no controller. Delete it, so that Berth can create its own.`,
    ],
    [
      "is not touched when it is of an earlier Instance",
      there(ofEarlier),
      {},
      `wait: ${MISCONFIGURED} Pod ns-u/w-us-dfw-0 exists and belongs to Instance w-us-dfw-0 (uid i-0). Delete it, so that Berth can create its own.`,
    ],
    [
      "is not created from what pods cannot run",
      none,
      { rules: { ...RULES, catalog: {} } },
      `wait: ${MISCONFIGURED} The catalog of this cell has no instance type datumcloud/d1-standard-2. Choose another type.`,
    ],
    [
      "is tried again after the API server refused it",
      none,
      { refusal: "its pod is not created: exceeded quota" },
      `create: ${MISCONFIGURED} its pod is not created: exceeded quota`,
    ],
    ["is deleted with its Instance", there(ready), { instance: deleted }, "delete: nothing"],
    [
      "is deleted with its Instance, gates or not",
      there(ready),
      { instance: deleted, isGated: true },
      "delete: nothing",
    ],
    ["holds its deleted Instance until it is gone", there(ending), { instance: deleted }, "wait: nothing"],
    [
      "holds its deleted Instance while it is unknown",
      { is: "unknown", because: "" },
      { instance: deleted },
      "wait: nothing",
    ],
    ["is gone", none, { instance: deleted }, "down: nothing"],
    [
      "does not hold an Instance that does not own it",
      there(foreign),
      { instance: deleted },
      "down: nothing",
    ],
  ])("%s", (_, pod, change, expected) => {
    expect(summary(decide(pod, change))).toBe(expected);
  });

  it("stays as it is when the Fleet says something else about Pods, its size and its keys included", () => {
    const rules: InstanceRules = {
      catalog: {},
      template: { ...RULES.template, keys: [] },
      pods: { ...RULES.pods, capabilities: ["SYS_ADMIN"], ephemeralStorage: "1Mi" },
    };
    expect(decide(there(ready), { rules })).toEqual(decide(there(ready)));
    expect(decide(there(ready), { rules }).pod).toBeUndefined();
  });

  it("reports the hash of the template, and its address while it runs", () => {
    expect(decide(none).contribution).toMatchObject({ observedTemplateHash: "v1-abc" });
    const withAddress = { ...ready, status: { ...ready.status, podIP: "10.0.0.1" } };
    expect(decide(there(withAddress)).contribution).toMatchObject({ networkIP: "10.0.0.1" });
    expect(
      decide(there(withMeta(withAddress, { deletionTimestamp: CREATED }))).contribution.networkIP,
    ).toBeUndefined();
  });
});

/** Carries out a decision: the API server stores pods with a uid, and removes ended ones at once. */
class Cell {
  nowMs = createdMs;
  pod: Pod | undefined;
  instance: Instance = instance;
  readonly created: number[] = [];
  /** False: the process is a new one each time. */
  hasMemory = true;
  #sinceMs = createdMs;
  #ended = 0;
  /** Of each new pod. */
  readonly #status: Pod["status"];

  constructor(status: Pod["status"]) {
    this.#status = status;
  }

  step(): PodDecision {
    const { instance: it, nowMs } = this;
    const knownMs = nowMs - this.#sinceMs;
    const memory = { knownMs, ended: this.hasMemory ? this.#ended : 1 };
    const decision = decide(this.pod ? there(this.pod) : none, { instance: it, nowMs, memory });
    const conditions = mergeConditions(it.status?.conditions, decision.contribution.conditions, nowMs);
    this.instance = { ...it, status: { ...it.status, conditions } };
    if (decision.pod?.do === "delete") this.pod = undefined;
    if (decision.pod?.do === "create") {
      this.created.push((nowMs - createdMs) / 1000);
      this.#sinceMs = nowMs;
      this.#ended += 1;
      const metadata = { uid: `p-${this.created.length}`, creationTimestamp: toTime(nowMs) };
      this.pod = { ...withMeta(decision.pod.pod, metadata), ...(this.#status && { status: this.#status }) };
    }
    return decision;
  }

  /** Until nothing is left to do before `seconds` have passed. */
  runFor(seconds: number): void {
    const endMs = this.nowMs + seconds * 1000;
    for (;;) {
      const { pod, contribution } = this.step();
      if (pod !== undefined) continue;
      const nextMs = this.nowMs + (contribution.recheckAfterMs ?? Infinity);
      this.nowMs = Math.min(nextMs, endMs);
      if (nextMs >= endMs) return;
    }
  }
}

describe("the replacement of pods that fail at once", () => {
  it("waits twice as long each time, at most five minutes", () => {
    const cell = new Cell({ phase: "Failed", reason: "OutOfcpu" });
    cell.runFor(1300);
    expect(cell.created).toEqual([0, 10, 30, 70, 150, 310, 610, 910, 1210]);
  });

  it("grows by the condition Available where the process remembers nothing", () => {
    const cell = new Cell({ phase: "Failed", reason: "OutOfcpu" });
    cell.hasMemory = false;
    cell.runFor(1300);
    expect(cell.created).toEqual([0, 10, 20, 40, 80, 160, 320, 620, 920, 1220]);
  });

  it.each([-600_000, 600_000])("B15 is not replaced sooner by a clock that is %d ms off", (ms) => {
    const memory = { knownMs: 9_999, ended: 1 };
    const { pod, contribution } = decide(there(evicted), { nowMs: createdMs + ms, memory });
    expect([pod, contribution.recheckAfterMs]).toEqual([undefined, 1]);
  });

  it("R9 does not count from 1970, the time of the condition's default", () => {
    const type = "Available";
    const lastTransitionTime = "1970-01-01T00:00:00Z";
    const status = {
      conditions: [{ type, status: "Unknown", reason: "Pending", message: "", lastTransitionTime }],
    } as const;
    const { contribution } = decide(there(evicted), { instance: { ...instance, status } });
    expect(contribution.recheckAfterMs).toBe(10_000);
  });

  it("begins anew once a pod was ready", () => {
    const cell = new Cell({ phase: "Failed" });
    cell.hasMemory = false;
    cell.runFor(400);
    cell.pod = { ...cell.pod, status: ready.status ?? {}, spec: { containers: [], nodeName: "n1" } };
    cell.runFor(60);
    cell.pod = { ...cell.pod, status: { phase: "Failed" } };
    cell.created.length = 0;
    cell.runFor(35);
    expect(cell.created).toEqual([460, 470, 480]);
  });
});

describe("any pod", () => {
  const state = fc.constantFrom(
    {},
    { running: { startedAt: CREATED } },
    { running: {} },
    { terminated: { exitCode: 1 } },
    { waiting: { reason: "CrashLoopBackOff" } },
    { waiting: { reason: "ErrImagePull", message: "x".repeat(5000) } },
    { waiting: { reason: "constructor" } },
  );
  const containerStatus = fc.record({
    name: fc.constant("app"),
    image: fc.constant(""),
    imageID: fc.constant(""),
    ready: fc.boolean(),
    restartCount: fc.nat(9),
    state,
  });
  const metadata = fc.record(
    {
      creationTimestamp: fc.constantFrom(CREATED, "", "2026-01-01T00:00:50Z"),
      deletionTimestamp: fc.constant(CREATED),
    },
    { requiredKeys: ["creationTimestamp"] },
  );
  const status = fc.record({
    phase: fc.constantFrom("Pending", "Running", "Failed", "Succeeded", "Unknown", ""),
    containerStatuses: fc.array(containerStatus, { maxLength: 2 }),
    conditions: fc.constantFrom("True", "False", "Unknown").map((it) => [{ type: "Ready", status: it }]),
  });
  const anyPod = fc
    .tuple(fc.constantFrom(pending, ready, foreign, ofEarlier), metadata, status)
    .map(([from, meta, now]): Pod => withMeta({ ...from, status: now }, meta));
  const anySeen: fc.Arbitrary<Seen<Pod>> = fc.oneof(
    fc.constant(none),
    fc.constant({ is: "unknown", because: "it was not read" } as const),
    anyPod.map(there),
  );

  it(`has a decision that is bounded, and safe for pods of others (${run.name})`, run.options, () => {
    const property = fc.property(
      anySeen,
      fc.boolean(),
      fc.boolean(),
      fc.nat(100_000),
      (pod, isGated, isDeleted, ms) => {
        const it = isDeleted ? deleted : instance;
        const decision = decide(pod, { instance: it, isGated, nowMs: createdMs + ms });
        const { recheckAfterMs = 1, conditions } = decision.contribution;
        for (const { message } of conditions) expect(message.length).toBeLessThanOrEqual(1024);
        expect(recheckAfterMs).toBeGreaterThan(0);
        const isOurs = pod.is === "there" && pod.value.metadata?.ownerReferences?.[0]?.uid === "i-1";
        const allowed = {
          create: pod.is === "none" && !isGated && !isDeleted,
          delete: isOurs && pod.value.metadata?.deletionTimestamp === undefined,
        };
        expect(decision.pod === undefined || allowed[decision.pod.do]).toBe(true);
        expect(!decision.isDown || (isDeleted && pod.is !== "unknown")).toBe(true);
      },
    );
    fc.assert(property, run.parameters);
  });

  it(
    `comes to rest: the same look decides the same, and nothing is left to do (${run.name})`,
    run.options,
    () => {
      const property = fc.property(anyPod, (pod) => {
        const cell = new Cell({ phase: "Running", conditions: [{ type: "Ready", status: "True" }] });
        cell.pod = pod;
        cell.runFor(600);
        const before = cell.instance;
        const decision = cell.step();
        expect(decision.pod).toBeUndefined();
        expect(cell.instance.status?.conditions).toBe(before.status?.conditions);
        expect(cell.created.length).toBeLessThanOrEqual(1);
      });
      fc.assert(property, run.parameters);
    },
  );
});
