import { type Pod } from "@berth/kube";
import { aPod, type PodBuilder } from "@berth/testcluster";
import { describe, expect, it } from "vitest";
import { type KnownImages } from "./testing/observations.ts";
import { aWorld, GATE, type World } from "./testing/pod-world.ts";
import { policiesOf } from "./testing/policies.ts";

const held = (image = "amd"): PodBuilder =>
  aPod("p")
    .image(image)
    .with((it) => ({ ...it, spec: { containers: [], ...it.spec, schedulingGates: [GATE] } }));
const spec = ({ server }: World): Pod["spec"] => server.pods.get("p")?.spec;
const AMD: KnownImages = { amd: ["amd64"] };

describe("the reconciler of pods", () => {
  it("on a miss: asks for the image, and when it is known sends one patch", async () => {
    const world = aWorld(held(), "Both");
    expect(await world.told()).toEqual({ recheckAfterMs: 30_000 });
    expect(world.wanted.map(({ image }) => image)).toEqual(["amd"]);
    expect(world.server.requests).toBe(0);
    await world.clock.advance(700);
    world.images = AMD;
    await world.reconcile();
    await world.reconcile();
    expect(await world.told()).toBeUndefined();
    expect(world.server.requests).toBe(1);
    expect(world.lifted).toEqual([700]);
    expect(spec(world)).toMatchObject({ schedulingGates: [], tolerations: [{ value: "amd64" }] });
    expect(world.events).toEqual([]);
    expect(world.outcomes.get("Pod default/p")).toMatchObject({ phase: "settled", uncovered: [] });
  });

  it("does nothing before all policies and the namespace are known", async () => {
    const world = aWorld(held(), "Both");
    const { policies } = world;
    world.images = AMD;
    world.policies = undefined;
    expect(await world.told()).toBeUndefined();
    Object.assign(world, { policies, labels: undefined });
    expect(await world.reconcile()).toEqual({ recheckAfterMs: 1000 });
    expect(world.outcomes.get("Pod default/p")?.uncovered).toEqual(["supported-arch"]);
    expect(world.server.requests).toBe(0);
    world.labels = {};
    await world.reconcile();
    expect(world.server.requests).toBe(1);
  });

  it("a change that is refused for good: the gate alone, with one Event, and then nothing for half a minute", async () => {
    const world = aWorld(held(), "Both");
    world.images = AMD;
    world.refusal = ({ spec }) => (spec?.tolerations ? { kind: "forbidden", ofObject: true } : undefined);
    expect(await world.told()).toEqual({ recheckAfterMs: 30_000 });
    expect(spec(world)?.schedulingGates).toEqual([]);
    expect(spec(world)).not.toHaveProperty("affinity");
    expect(world.events.map(({ reason }) => reason)).toEqual(["PodPatchRefused"]);
    expect(await world.told()).toEqual({ recheckAfterMs: 30_000 });
    expect(world.server.requests).toBe(2);
    await world.clock.advance(30_000);
    world.refusal = undefined;
    await world.told();
    expect(spec(world)).toMatchObject({ schedulingGates: [], tolerations: [{ value: "amd64" }] });
    expect(world.events).toHaveLength(1);
  });

  it("I-15 a missing permission: for the controller to try again, and told of when it lasts", async () => {
    const world = aWorld(held());
    world.images = AMD;
    world.refusal = () => ({ kind: "forbidden" });
    const refused = (): Promise<void> =>
      expect(world.told()).rejects.toMatchObject({ failure: { kind: "forbidden" } });
    await refused();
    await world.clock.advance(9_999);
    await refused();
    expect(world.events).toEqual([]);
    await world.clock.advance(1);
    await refused();
    await refused();
    expect(world.events.map(({ reason }) => reason)).toEqual(["PodPatchRefused"]);
    world.refusal = undefined;
    await world.told();
    expect(spec(world)).toMatchObject({ schedulingGates: [], affinity: { nodeAffinity: {} } });
  });

  it("tells of a failure once while it lasts", async () => {
    const world = aWorld(held().container("side", "arm"));
    world.images = { ...AMD, arm: ["arm64"] };
    await world.told();
    await world.reconcile();
    expect(world.events).toMatchObject([
      {
        reason: "NoCommonArchitecture",
        type: "Warning",
        action: "PlacePod",
        regarding: { kind: "Pod", name: "p" },
      },
    ]);
    expect(world.outcomes.get("Pod default/p")?.phase).toBe("impossible");
  });

  it.each(["Affinity", "Taint", "Both"] as const)(
    "mode %s: a pod that can run nowhere and gets another image is not let go before that was waited for",
    async (mode) => {
      const world = aWorld(mode === "Taint" ? aPod("p").image("win") : held("win"), mode);
      world.images = { win: ["windows/amd64"] };
      const os = { "kubernetes.io/os": "linux" };
      world.server.edit("p", (pod) => ({
        ...pod,
        spec: { containers: [], ...pod.spec, nodeSelector: os },
      }));
      await world.told();
      expect(world.outcomes.get("Pod default/p")?.phase).toBe("impossible");
      await world.clock.advance(600_000);
      // kubectl set image
      world.server.edit("p", (pod) => ({
        ...pod,
        spec: { ...pod.spec, containers: [{ name: "main", image: "arm" }] },
      }));
      // Its condition goes first.
      await world.told();
      expect(await world.told()).toEqual({ recheckAfterMs: 30_000 });
      expect(world.outcomes.get("Pod default/p")?.phase).toBe("waiting");
      expect(world.server.requests).toBe(0);
      await world.clock.advance(29_000);
      world.images = { arm: ["arm64"] };
      await world.reconcile();
      await world.told();
      const tolerated = mode === "Affinity" ? undefined : [{ value: "arm64" }];
      expect(spec(world)).toMatchObject({ ...(tolerated && { tolerations: tolerated }) });
      expect(JSON.stringify(spec(world)?.affinity ?? "").includes("arm64")).toBe(mode !== "Taint");
    },
  );

  it("a pod that gets another image which never comes is let go when maxHold is over, by its policy", async () => {
    const world = aWorld(held());
    await world.told();
    await world.clock.advance(20_000);
    world.server.edit("p", (pod) => ({
      ...pod,
      spec: { ...pod.spec, containers: [{ name: "main", image: "arm" }] },
    }));
    expect(await world.told()).toEqual({ recheckAfterMs: 30_000 });
    await world.clock.advance(30_000);
    await world.reconcile();
    expect(spec(world)?.schedulingGates).toEqual([]);
    expect(world.events).toMatchObject([{ reason: "HoldExpired" }]);
  });

  it("a pod that is bound or gone is forgotten", async () => {
    const world = aWorld(held());
    await world.told();
    expect(world.outcomes.size).toBe(1);
    world.server.edit("p", (pod) => ({ ...pod, spec: { containers: [], ...pod.spec, nodeName: "n" } }));
    world.images = AMD;
    await world.told();
    expect(world.outcomes.get("Pod default/p")).toEqual({ rule: undefined, uncovered: [], phase: "settled" });
    world.server.remove("p");
    await world.told();
    expect([world.outcomes.size, world.server.requests]).toEqual([0, 0]);
  });

  it("a pod that is being deleted is left alone, and keeps no bootstrap waiting, however long that takes", async () => {
    const world = aWorld(aPod("p").image("new"), "Taint");
    await world.told();
    expect(world.outcomes.get("Pod default/p")?.uncovered).toEqual(["supported-arch"]);
    const deletionTimestamp = "2026-01-01T00:00:00Z";
    world.server.edit("p", (pod) => ({ ...pod, metadata: { ...pod.metadata, deletionTimestamp } }));
    await world.told();
    // It is still among those that have to be looked at before nodes are tainted.
    expect(world.outcomes.get("Pod default/p")).toMatchObject({ uncovered: [], phase: "settled" });
    expect(world.server.requests).toBe(0);
  });

  it.each([
    ["is let go when maxHold is over, with nothing else", "Release", []],
    ["is held on where a policy that may govern it says so", "Keep", [GATE]],
  ] as const)("a pod whose namespace cannot be read %s", async (_, afterMaxHold, gates) => {
    const world = aWorld(held());
    const labels = { team: "a" };
    world.policies = policiesOf({ p: { mode: "Both", afterMaxHold }, q: { mode: "Both", maxHold: "50s" } });
    Object.assign(world, { labels: undefined, images: AMD });
    const before = spec(world);
    await world.told();
    await world.clock.advance(49_999);
    await world.reconcile();
    expect(world.server.requests).toBe(0);
    await world.clock.advance(1);
    await world.reconcile();
    expect(spec(world)).toEqual({ ...before, schedulingGates: gates });
    expect(world.events.map(({ reason }) => reason)).toEqual(gates.length === 0 ? ["HoldExpired"] : []);
    // What can be given later is given then.
    world.labels = labels;
    await world.told();
    expect(spec(world)?.tolerations).toMatchObject([{ value: "amd64" }]);
  });

  it("a pod is not let go while a policy that is still to be read may govern it", async () => {
    const world = aWorld(held());
    const elsewhere = { p: { mode: "Both", namespaceSelector: { matchLabels: { team: "a" } } } } as const;
    world.policies = policiesOf(elsewhere, { unsettled: "reading" });
    await world.told();
    await world.clock.advance(10_000);
    await world.reconcile();
    expect(world.server.requests).toBe(0);
    world.policies = policiesOf(elsewhere);
    await world.reconcile();
    expect(spec(world)?.schedulingGates).toEqual([]);
  });
});

describe("I-11 a pod that is kept pending since it can run nowhere", () => {
  const ours = ({ server }: World): unknown =>
    server.pods.get("p")?.status?.conditions?.find(({ type }) => type === "berth.dev/ArchitectureFits");
  const selecting = (): PodBuilder => held().selecting({ "kubernetes.io/arch": "arm64" });

  it("gets one Event and one condition, and both name image and requirement", async () => {
    const world = aWorld(selecting());
    world.images = AMD;
    await world.told();
    // The informer is behind: it is not written again.
    await world.reconcile();
    await world.told();
    await world.told();
    expect(world.statusPatches).toBe(1);
    const message =
      "container main (docker.io/library/amd:latest) runs on amd64, and the pod requires kubernetes.io/arch=arm64: no node fits both";
    const reason = "RequiredArchitectureConflict";
    expect(world.events).toEqual([expect.objectContaining({ reason, note: message, type: "Warning" })]);
    expect(ours(world)).toMatchObject({ status: "False", reason, message });
    expect(world.outcomes.get("Pod default/p")?.phase).toBe("impossible");
    expect(world.server.requests).toBe(0);
  });

  it("loses the condition before it is let go", async () => {
    const world = aWorld(selecting());
    world.images = AMD;
    await world.told();
    world.images = { amd: ["amd64", "arm64"] };
    await world.told();
    expect(ours(world)).toBeUndefined();
    expect(spec(world)?.schedulingGates).toEqual([GATE]);
    await world.told();
    expect(spec(world)?.schedulingGates).toEqual([]);
    expect(world.statusPatches).toBe(2);
  });

  it("in mode Taint as well, and loses it with the policy", async () => {
    const world = aWorld(aPod("p").image("amd").container("side", "arm"), "Taint");
    world.images = { ...AMD, arm: ["arm64"] };
    await world.told();
    expect(ours(world)).toMatchObject({ reason: "NoCommonArchitecture" });
    world.policies = policiesOf({});
    await world.told();
    expect(ours(world)).toBeUndefined();
  });

  it("I-15 is let go all the same where the permission for the condition is missing, which is for the controller to try again", async () => {
    const world = aWorld(selecting());
    world.images = AMD;
    await world.told();
    world.images = { amd: ["arm64"] };
    world.statusRefusal = { kind: "forbidden" };
    for (let at = 0; at < 2; at += 1) {
      await expect(world.told()).rejects.toMatchObject({ failure: { kind: "forbidden" } });
      expect(spec(world)?.schedulingGates).toEqual([]);
    }
    world.statusRefusal = undefined;
    await world.told();
    expect(ours(world)).toBeUndefined();
  });
});
