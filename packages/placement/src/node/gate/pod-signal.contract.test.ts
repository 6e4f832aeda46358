/** The rows of nodetaintshandler's contract that say which pods open a gate. */
import type { Pod } from "@berth/kube";
import type { PodBuilder } from "@berth/testcluster";
import * as fc from "fast-check";
import { describe, expect, it } from "vitest";
import { originalGate } from "../../api/startup-gate.ts";
import {
  build,
  container,
  dropIn,
  initPod,
  later,
  read,
  readyPod,
  reporting,
  unreadyPod,
} from "./testing/init-pods.ts";

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
    [
      "without the label",
      (pod: PodBuilder) => pod.with((it) => ({ ...it, metadata: { ...it.metadata, labels: {} } })),
    ],
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

  it.each<[string, PodBuilder]>([
    ["of another namespace", readyPod().in("default")],
    ["without the DaemonSet", readyPod().ownedBy("ReplicaSet", "tenant")],
    ["that claims the DaemonSet under another uid", readyPod().ofDaemonSet("init", "guess")],
    ["that is terminating", readyPod().stored({ deletionTimestamp: later })],
    ["from before the node", readyPod().stored({ creationTimestamp: "2025-01-01T00:00:00Z" })],
  ])("N-B4 a pod %s opens no gate, annotated or not", (_, pod) => {
    const annotated = pod.annotated({ [originalGate.ready]: "true" });
    for (const need of ["All", "Any"] as const) {
      expect(read({ need }, build(pod)).state).toBe("missing");
      expect(read({ need }, build(annotated)).state).toBe("missing");
    }
  });

  it("N-B4 a pod whose containers are from before the boot opens no gate, annotated or not", () => {
    const boot = { id: "b2", since: Date.parse("2026-01-01T01:00:00Z") };
    const annotated = readyPod().annotated({ [originalGate.ready]: "true" });
    for (const pod of [readyPod(), annotated]) expect(read({}, build(pod), { boot }).state).toBe("missing");
  });
});
