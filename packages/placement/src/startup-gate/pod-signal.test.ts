import type { ContainerStatus, Pod } from "@berth/kube";
import { BUILT_AT, type PodBuilder } from "@berth/testcluster";
import * as fc from "fast-check";
import { describe, expect, it } from "vitest";
import { originalGate, type PodSignal } from "./document.ts";
import type { Boot } from "./gate.ts";
import {
  build,
  container,
  DS,
  initPod,
  later,
  owned,
  read,
  readyPod,
  reporting,
  unlabelled,
  unreadyPod,
} from "./testing/init-pods.ts";
import type { World } from "./testing/observations.ts";

/** The gate of the original: any pod of any owner in any namespace, whatever its life. */
const dropIn: Partial<PodSignal> = {
  ownedBy: "Anything",
  namespaces: ["*"],
  need: "Any",
  fromBefore: "Count",
};

describe("a pod signal", () => {
  it("names what it looks for, and goes by the transition of the condition", () => {
    expect(read({}, build(readyPod()))).toEqual({
      signal: "pods kube-system startup.k8s.io/component=init",
      state: "holds",
      reason: "SignalHolds",
      message: "kube-system/init-1 is ready",
      since: Date.parse(BUILT_AT),
      evidence: `uid-init-1@${BUILT_AT}`,
    });
  });

  it.each<[string, PodBuilder, string]>([
    ["a container that is not ready", unreadyPod(), "container main"],
    [
      "a container that waits",
      reporting(initPod().ready(), {
        ...container("main", false),
        state: { waiting: { reason: "CrashLoopBackOff" } },
      }),
      "container main (CrashLoopBackOff)",
    ],
    [
      "one of two containers",
      reporting(initPod().ready(), container("a", true), container("b", false)),
      "container b",
    ],
    [
      "the condition",
      reporting(initPod().condition("Ready", "False", "ReadinessGatesNotReady"), container("main", true)),
      "its condition Ready is False (ReadinessGatesNotReady)",
    ],
    ["no condition", reporting(initPod(), container("main", true)), "it has no condition Ready"],
    ["no container status", initPod().ready(), "it has no container status yet"],
  ])("is not ready for %s", (_, pod, why) => {
    expect(read({}, build(pod))).toMatchObject({
      state: "missing",
      reason: "PodNotReady",
      message: `kube-system/init-1 is not ready: ${why}`,
      evidence: "",
    });
    expect(read({}, build(pod)).noPod).toBeUndefined();
  });

  it.each<[string, PodBuilder, string]>([
    ["without the annotation", readyPod(), "missing"],
    ["with another value", readyPod().annotated({ [originalGate.ready]: "yes" }), "missing"],
    ["with the annotation", unreadyPod().annotated({ [originalGate.ready]: "true" }), "holds"],
  ])("with readiness: Annotation, %s", (_, pod, state) => {
    const message =
      state === "holds"
        ? "kube-system/init-1 is ready"
        : "kube-system/init-1 is not ready: it does not have the annotation startup.k8s.io/ready: true";
    expect(read({ readiness: "Annotation" }, build(pod))).toMatchObject({ state, message });
  });

  it.each<[string, PodBuilder, string]>([
    ["terminating", readyPod().stored({ deletionTimestamp: later }), "it is terminating"],
    ["succeeded", readyPod().phase("Succeeded"), "it has ended (Succeeded)"],
    ["failed", readyPod().phase("Failed"), "it has ended (Failed)"],
    [
      "older than the node",
      readyPod().stored({ creationTimestamp: "2025-12-31T23:59:59Z" }),
      "it is older than the node",
    ],
    [
      "of unknown age",
      readyPod().stored({ creationTimestamp: "soon" }),
      "its age, or that of the node, is not known",
    ],
    ["without an owner", owned(), "no DaemonSet controls it"],
    ["of a ReplicaSet", readyPod().ownedBy("ReplicaSet", "init", "ds-1"), "no DaemonSet controls it"],
    [
      "of a DaemonSet of another API group",
      owned({ ...DS, apiVersion: "evil/v1", controller: true }),
      "no DaemonSet controls it",
    ],
    ["owned, not controlled", owned(DS), "no DaemonSet controls it"],
    [
      "of a DaemonSet that there is not",
      readyPod().ofDaemonSet("gone", "ds-1"),
      "its DaemonSet gone does not exist",
    ],
    [
      "of an earlier DaemonSet of that name",
      readyPod().ofDaemonSet("init", "ds-0"),
      "its DaemonSet init is another one now",
    ],
  ])("does not count a pod that is %s", (_, pod, why) => {
    expect(read({}, build(pod))).toMatchObject({
      state: "missing",
      reason: "PodMissing",
      noPod: true,
      message: `kube-system/init-1 does not count: ${why}`,
    });
  });

  it("says that there is no pod", () => {
    expect(read({}, [])).toMatchObject({
      reason: "PodMissing",
      noPod: true,
      message: "there is no such pod on the node",
    });
  });

  it("counts a pod made in the same second as its node", () => {
    const pod = readyPod().stored({ creationTimestamp: "2026-01-01T00:00:00Z" });
    expect(read({}, build(pod)).state).toBe("holds");
  });

  it.each([
    ["All", ["ready", "ready"], "holds", "SignalHolds"],
    ["All", ["ready", "unready"], "missing", "PodNotReady"],
    ["All", ["ready", "starting"], "missing", "PodNotReady"],
    ["All", ["ready", "foreign"], "holds", "SignalHolds"],
    ["All", ["foreign"], "missing", "PodMissing"],
    ["Any", ["ready", "unready"], "holds", "SignalHolds"],
    ["Any", ["unready", "unready"], "missing", "PodNotReady"],
    ["Any", ["foreign", "unready"], "missing", "PodNotReady"],
  ] as const)("%s of %j: %s, %s", (need, kinds, state, reason) => {
    const make = {
      ready: readyPod,
      unready: unreadyPod,
      starting: (name: string) => initPod(name).ready(),
      foreign: (name: string) => unreadyPod(name).ofDaemonSet("gone"),
    };
    const pods = kinds.map((kind, at) => make[kind](`init-${at}`));
    expect(read({ need }, build(...pods))).toMatchObject({ state, reason });
    expect(read({ need }, build(...pods.toReversed()))).toMatchObject({ state, reason });
  });

  it("takes only DaemonSets that it names", () => {
    expect(read({ daemonSets: ["init"] }, build(readyPod())).state).toBe("holds");
    expect(read({ daemonSets: ["cni"] }, build(readyPod()))).toMatchObject({
      reason: "PodMissing",
      message: "kube-system/init-1 does not count: its DaemonSet init is not one of the signal",
    });
    expect(read({ daemonSets: ["cni"] }, build(readyPod())).signal).toBe(
      "pods kube-system startup.k8s.io/component=init of cni",
    );
  });

  it("takes a name as the pod says it, with Anything", () => {
    const signal = { ownedBy: "Anything", daemonSets: ["gone"] } as const;
    expect(read(signal, build(readyPod().ofDaemonSet("gone")), { daemonSetsRead: false }).state).toBe(
      "holds",
    );
    expect(read(signal, build(readyPod())).state).toBe("missing");
  });

  it("counts up what else is not ready", () => {
    expect(read({}, build(unreadyPod("b"), unreadyPod("a"), unreadyPod("c"))).message).toBe(
      "kube-system/a is not ready: container main, and 2 more",
    );
  });
});

describe("what has not been read", () => {
  const both: Partial<PodSignal> = { namespaces: ["kube-system", "network"] };
  const isUnread: World["isUnread"] = ({ namespace }) => namespace === "network";

  it.each([
    ["All", readyPod(), "unknown", "the pods of network have not been read"],
    ["All", unreadyPod(), "missing", "kube-system/init-1 is not ready: container main"],
    ["Any", readyPod(), "holds", "kube-system/init-1 is ready"],
    ["Any", unreadyPod(), "unknown", "the pods of network have not been read"],
  ] as const)("leaves %s unknown unless the rest settles it", (need, pod, state, message) => {
    expect(read({ ...both, need }, build(pod), { isUnread })).toMatchObject({ state, message });
  });

  it("is never no pod", () => {
    const reading = read({}, [], { isUnread: () => true });
    expect(reading).toMatchObject({ state: "unknown", reason: "SignalUnknown" });
    expect(reading.noPod).toBeUndefined();
  });

  it("makes an owner unknown, and its pod with it", () => {
    expect(read({}, build(readyPod()), { daemonSetsRead: false })).toMatchObject({
      state: "unknown",
      message: "kube-system/init-1 cannot be judged: its DaemonSet init has not been read",
    });
  });
});

describe("after a boot", () => {
  const boot: Boot = { id: "b2", since: Date.parse("2026-01-01T01:00:00Z") };
  it.each([
    ["before it", "2026-01-01T00:59:54Z", "missing"],
    ["at it, by another clock", "2026-01-01T00:59:55Z", "holds"],
    ["after it", "2026-01-01T01:00:10Z", "holds"],
    ["at no time that can be read", "later", "missing"],
  ])("a container that started %s: %s", (_, startedAt, state) => {
    const pod = reporting(initPod().ready(), container("main", true, startedAt));
    expect(read({}, build(pod), { boot }).state).toBe(state);
    expect(read({ fromBefore: "Count" }, build(pod), { boot }).state).toBe("holds");
  });

  it("an annotation from before it opens nothing", () => {
    const annotated = initPod().annotated({ [originalGate.ready]: "true" });
    const old = reporting(annotated, container("main", false, later));
    expect(read({}, build(old), { boot }).message).toBe(
      "kube-system/init-1 is not ready: container main is not known to have started since the node booted",
    );
    const stopped: ContainerStatus = { ...container("main", false), state: { waiting: {} } };
    expect(read({}, build(reporting(annotated, stopped)), { boot }).message).toBe(
      "kube-system/init-1 is not ready: container main does not run",
    );
  });

  it("a pod that has yet to start again is waited for, though another is ready", () => {
    const started = reporting(initPod("a").ready(), container("main", true, "2026-01-01T01:00:10Z"));
    const old = reporting(initPod("b").ready(), container("main", true, later));
    expect(read({}, build(started, old), { boot })).toMatchObject({
      state: "missing",
      reason: "PodNotReady",
    });
  });
});

describe("evidence", () => {
  const turned = (name: string, lastTransitionTime: string): Pod => {
    const conditions = [{ type: "Ready", status: "True", lastTransitionTime }];
    const pod = readyPod(name).build();
    return { ...pod, status: { ...pod.status, conditions } };
  };
  const [first, second] = ["2026-01-01T00:02:00Z", "2026-01-01T00:03:00Z"];

  it("changes when the pod became ready again, or is another one", () => {
    const evidence = [turned("a", first), turned("a", second), turned("b", first)].map(
      (pod) => read({}, [pod]).evidence,
    );
    expect(new Set(evidence).size).toBe(3);
  });

  it("is of all pods for All, since the last of them", () => {
    const pods = [turned("b", first), turned("a", second)];
    expect(read({}, pods)).toMatchObject({
      evidence: `uid-a@${second} uid-b@${first}`,
      since: Date.parse(second),
      message: "kube-system/b is ready, and 1 more",
    });
    expect(read({}, pods.toReversed())).toEqual(read({}, pods));
  });

  it("is of the pod that has been ready for longest for Any, so that another one interrupts nothing", () => {
    const pods = [turned("b", first), turned("a", second)];
    expect(read({ need: "Any" }, pods)).toEqual(read({ need: "Any" }, pods.slice(0, 1)));
  });
});

describe("the contract", () => {
  it("N-P6 the annotation makes a pod with unready containers ready", () => {
    const pod = unreadyPod().annotated({ [originalGate.ready]: "true" });
    for (const signal of [{}, dropIn])
      expect(read(signal, build(pod))).toMatchObject({ state: "holds", evidence: "uid-init-1" });
    for (const value of ["True", "1", ""]) {
      const other = unreadyPod().annotated({ [originalGate.ready]: value });
      for (const signal of [{}, dropIn]) expect(read(signal, build(other)).state).toBe("missing");
    }
  });

  it("N-P7 the condition Ready does not speak for an unready container", () => {
    const pod = reporting(initPod().ready(), container("main", true), container("side", false));
    for (const signal of [{}, dropIn]) expect(read(signal, build(pod)).reason).toBe("PodNotReady");
  });

  it("N-P8 in the drop-in the second of two pods is enough", () => {
    expect(read(dropIn, build(unreadyPod("a"), readyPod("b"))).state).toBe("holds");
  });

  it.each([
    ["without the label", unlabelled],
    ["on another node", (pod: PodBuilder) => pod.on("n2")],
  ])("N-P9 an annotated pod %s is not seen", (_, change) => {
    const pod = change(readyPod().annotated({ [originalGate.ready]: "true" }));
    for (const signal of [{}, dropIn]) {
      expect(read(signal, build(pod))).toMatchObject({
        reason: "PodMissing",
        message: "there is no such pod on the node",
      });
    }
  });

  /** What the original asks, read off its source: contract N1. */
  const original = ({ metadata, status }: Pod): boolean =>
    metadata?.annotations?.[originalGate.ready] === "true" ||
    ((status?.containerStatuses ?? []).every(({ ready }) => ready) &&
      status?.conditions?.some(({ type, status: is }) => type === "Ready" && is === "True") === true);

  it("the drop-in opens for exactly the pods that open the original", () => {
    const lives = fc.record({
      namespace: fc.constantFrom("kube-system", "default"),
      owner: fc.constantFrom("init", "gone"),
      annotation: fc.constantFrom("true", "false"),
      ready: fc.constantFrom("True", "False", "Unknown", undefined),
      containers: fc.array(fc.boolean(), { maxLength: 2 }),
      phase: fc.constantFrom("Pending" as const, "Running", "Succeeded", "Failed"),
      times: fc.constantFrom({}, { creationTimestamp: "2020-01-01T00:00:00Z" }, { deletionTimestamp: later }),
    });
    const pods = fc.array(
      lives.map(({ namespace, owner, annotation, ready, containers, phase, times }): Pod => {
        const pod = initPod()
          .in(namespace)
          .ofDaemonSet(owner)
          .annotated({ [originalGate.ready]: annotation })
          .phase(phase)
          .stored(times);
        const statuses = containers.map((is, at) => container(`c${at}`, is, "2020-01-01T00:00:00Z"));
        return reporting(ready === undefined ? pod : pod.condition("Ready", ready), ...statuses).build();
      }),
      { maxLength: 4 },
    );
    const boot = { id: "b", since: Date.parse(later) };
    fc.assert(
      fc.property(pods, (some) => {
        expect(read(dropIn, some, { boot, daemonSetsRead: false }).state).toBe(
          some.some(original) ? "holds" : "missing",
        );
      }),
    );
  });
});

describe("a pod that does not count", () => {
  const unrelated: readonly (readonly [string, (pod: PodBuilder) => PodBuilder])[] = [
    ["on another node", (pod) => pod.on("n2")],
    ["of another namespace", (pod) => pod.in("default")],
    ["without the label", unlabelled],
    ["of another owner", (pod) => pod.ownedBy("ReplicaSet", "tenant")],
    ["that claims the DaemonSet under another uid", (pod) => pod.ofDaemonSet("init", "guess")],
    ["that is terminating", (pod) => pod.stored({ deletionTimestamp: later })],
    ["that has ended", (pod) => pod.phase("Failed")],
    ["from before the node", (pod) => pod.stored({ creationTimestamp: "2025-01-01T00:00:00Z" })],
  ];

  it.each(unrelated)("N-B4 %s opens no gate, annotated or not", (_, change) => {
    const pod = change(readyPod());
    for (const it of [pod, pod.annotated({ [originalGate.ready]: "true" })])
      for (const need of ["All", "Any"] as const) expect(read({ need }, build(it)).state).toBe("missing");
  });

  it("never changes a reading, wherever it comes in", () => {
    const kind = fc.constantFrom(readyPod, unreadyPod, (name: string) => initPod(name));
    const cases = fc.record({
      need: fc.constantFrom("All" as const, "Any" as const),
      pods: fc.array(kind, { maxLength: 4 }),
      stranger: kind,
      change: fc.constantFrom(...unrelated),
      annotation: fc.constantFrom("true", "false"),
      at: fc.nat({ max: 4 }),
      read: fc.boolean(),
    });
    fc.assert(
      fc.property(cases, ({ need, pods, stranger, change: [, change], annotation, at, read: isRead }) => {
        const before = pods.map((make, index) => make(`init-${index}`).build());
        const pod = change(stranger("aaa").annotated({ [originalGate.ready]: annotation })).build();
        const around = { isUnread: () => !isRead };
        const without = read({ need }, before, around);
        const reading = read({ need }, before.toSpliced(at, 0, pod), around);
        // Where no pod counts at all, the message says why this one does not.
        const message = without.reason === "PodMissing" ? reading.message : without.message;
        expect(reading).toEqual({ ...without, message });
      }),
    );
  });
});
