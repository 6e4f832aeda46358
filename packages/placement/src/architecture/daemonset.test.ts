/** DaemonSets through time: the reconciler against a server that keeps versions, on a clock of our own. */

import { applyPatch } from "@berth/host";
import { type DaemonSet, type Toleration } from "@berth/kube";
import * as fc from "fast-check";
import { describe, expect, it } from "vitest";
import { BOOTSTRAP_PATIENCE_MS } from "./daemonset-reconciler.ts";
import { decideDaemonSet } from "./decide-daemonset.ts";
import {
  daemonSetOf,
  everything,
  IMAGES,
  type Init,
  KEY,
  other,
  tolerate,
  World,
} from "./testing/daemonset-world.ts";
import { sightOf } from "./testing/observations.ts";
import { type PolicyInit, policiesOf } from "./testing/policies.ts";

const MINUTE = 60_000;

describe("the pod template of a DaemonSet", () => {
  it("A-B7 gets what its images run on behind what it tolerates, in one patch, and that is told", async () => {
    const world = new World({ tolerations: [other] });
    expect(await world.look()).toBeUndefined();
    expect(world.uncovered).toEqual([KEY]);
    expect(world.tolerations).toEqual([other, ...tolerate("amd64", "arm64")]);
    expect(world.events.map(({ note }) => note)).toEqual([
      "its pod template tolerates supported-arch=amd64, supported-arch=arm64 from now on, " +
        "which rolls out its pods: all of its images run on amd64, arm64",
    ]);
    expect(world.told).toEqual(["Normal DaemonSetTolerated"]);
    await world.look();
    expect([world.writes, world.uncovered, world.told]).toEqual([1, [], []]);
  });

  it.each<[string, Init, Record<string, PolicyInit>, readonly Toleration[] | undefined]>([
    ["what all images have in common", { images: ["multi", "arm"] }, { p: {} }, tolerate("arm64")],
    ["nothing when it tolerates everything", { tolerations: [everything] }, { p: {} }, [everything]],
    ["nothing when it can run nowhere", { images: ["amd", "arm"] }, { p: {} }, undefined],
    ["nothing when no policy taints", {}, { p: { mode: "Affinity" } }, undefined],
    [
      "every value when no policy governs it",
      {},
      { p: { excludedNamespaces: ["kube-system"] } },
      [{ key: KEY, operator: "Exists", effect: "NoSchedule" }],
    ],
    [
      "what its own annotation says",
      { annotations: { "berth.dev/architectures": "s390x" } },
      { p: {} },
      tolerate("s390x"),
    ],
    [
      "each key in force, also where somebody else taints nodes",
      { images: ["arm"] },
      { p: {}, q: { taint: { key: "kubernetes.io/arch", nodes: "Leave" } } },
      [{ key: "kubernetes.io/arch", value: "arm64", effect: "NoSchedule" }, ...tolerate("arm64")],
    ],
  ])("gets %s", async (_, init, policies, expected) => {
    const world = new World(init);
    world.policies = policiesOf(policies);
    await world.look();
    expect(world.tolerations).toEqual(expected);
  });

  it("is left alone while it is being deleted, and keeps nobody waiting", async () => {
    const world = new World({ deletionTimestamp: "2026-01-01T00:00:00Z" });
    expect(await world.look()).toBeUndefined();
    expect([world.writes, world.uncovered]).toEqual([0, []]);
  });

  it.each([
    ["the namespaces have not been read", undefined],
    ["its namespace is new, and the watch of namespaces has not told of it", null],
  ])("is left alone, and uncovered, while %s", async (_, namespaceLabels) => {
    const world = new World();
    world.policies = policiesOf({ p: { namespaceSelector: { matchLabels: { team: "a" } } } });
    world.namespaceLabels = namespaceLabels;
    expect(await world.look()).toBe(1_000);
    expect([world.writes, world.uncovered]).toEqual([0, [KEY]]);
    world.namespaceLabels = { team: "a" };
    await world.look();
    expect(world.tolerations).toEqual(tolerate("amd64", "arm64"));
  });

  it("is left alone until the policies of all sources have been read: another may govern it", async () => {
    const world = new World();
    world.policies = policiesOf({ p: { excludedNamespaces: ["kube-system"] } }, { unsettled: "reading" });
    expect(await world.look()).toBe(1_000);
    expect([world.writes, world.outcomes.size]).toEqual([0, 0]);
  });

  it("keeps nobody waiting when it can run nowhere, and its Event says why, once", async () => {
    const world = new World({ images: ["amd", "arm"] });
    await world.look();
    await world.look();
    expect(world.uncovered).toEqual([]);
    expect(world.told).toEqual(["Warning NoCommonArchitecture"]);
    world.policies = policiesOf({ p: { mode: "Affinity" } });
    const silent = new World({ images: ["amd", "arm"] });
    silent.policies = world.policies;
    await silent.look();
    expect(silent.told).toEqual([]);
  });

  it("is forgotten with it", async () => {
    const world = new World({ images: ["new"] });
    await world.look();
    expect(world.uncovered).toEqual([KEY]);
    world.stored = undefined;
    await world.look();
    expect(world.outcomes.size).toBe(0);
  });
});

describe("a DaemonSet with images that are not known", () => {
  it("A-B7 is asked about and waited for, and counts as uncovered", async () => {
    const world = new World({ images: ["new"] });
    expect(await world.look()).toBe(30_000);
    expect([[...world.wanted], world.uncovered, world.writes]).toEqual([["new"], [KEY], 0]);
    world.images = { new: ["arm64"] };
    await world.look();
    expect(world.tolerations).toEqual(tolerate("arm64"));
  });

  it("A-B8 is waited for until maxHold while nodes are tainted, and longer before they are", async () => {
    for (const [isTainting, patience] of [
      [true, 30_000],
      [false, BOOTSTRAP_PATIENCE_MS],
    ] as const) {
      const world = new World({ images: ["multi", "down"] });
      world.isTainting = isTainting;
      await world.look();
      await world.clock.advance(patience - 1);
      await world.look();
      expect([world.writes, world.uncovered]).toEqual([0, [KEY]]);
      await world.clock.advance(1);
      await world.look();
      expect(world.tolerations).toEqual(tolerate("amd64", "arm64"));
      // What was given for want of better knowledge is the end of it: nothing is waited for again.
      await world.look();
      expect([world.writes, world.uncovered]).toEqual([1, []]);
    }
  });

  it("gets nothing more when what was known of its images is lost", async () => {
    const world = new World({ images: ["multi"], tolerations: tolerate("amd64") });
    world.images = {};
    await world.look();
    await world.clock.advance(30_000);
    await world.look();
    expect([world.writes, world.uncovered]).toEqual([0, []]);
  });

  it("is not looked at in a loop while an image is asked for whose time has come", async () => {
    const world = new World({ images: ["lost"] });
    world.policies = policiesOf({ p: { unresolvable: "Closed" } });
    await world.clock.advance(60_000);
    world.images = { lost: { failed: "ImageNotFound", retryAt: world.clock.now() - 1 } };
    expect(await world.look()).toBe(5 * MINUTE);
  });

  it("A-B8 stays as it is, and covered, when the policy is closed; it is told which image and why", async () => {
    const world = new World({ images: ["multi", "lost"] });
    world.policies = policiesOf({ p: { unresolvable: "Closed" } });
    await world.look();
    await world.look();
    expect([world.writes, world.uncovered, world.told]).toEqual([0, [], ["Warning ImageNotFound"]]);
  });
});

describe("a DaemonSet that gets another image", () => {
  it("tolerates what that runs on beyond what the last one did", async () => {
    const world = new World({ images: ["amd"] });
    await world.look();
    world.put(daemonSetOf({ images: ["new"], tolerations: tolerate("amd64") }));
    await world.look();
    expect(world.uncovered).toEqual([KEY]);
    world.images = { new: ["amd64", "arm64"] };
    await world.look();
    expect(world.tolerations).toEqual(tolerate("amd64", "arm64"));
    await world.look();
    expect([world.writes, world.uncovered]).toEqual([2, []]);
  });

  it("waits for that one from then on, however long ago it was first seen", async () => {
    const world = new World({ images: ["amd"] });
    await world.look();
    await world.clock.advance(60 * MINUTE);
    for (const image of ["new", "newer"]) {
      world.put(daemonSetOf({ images: [image] }));
      expect(await world.look()).toBe(30_000);
      await world.clock.advance(29_999);
      await world.look();
      expect(world.tolerations).toBeUndefined();
    }
    world.images = { newer: ["arm64"] };
    await world.look();
    expect(world.tolerations).toEqual(tolerate("arm64"));
  });
});

describe("a DaemonSet that others change", () => {
  it("is put right three times, then left alone for five minutes, which is told", async () => {
    const world = new World();
    for (let round = 0; round < 3; round += 1) {
      expect(await world.look()).toBeUndefined();
      world.revert();
    }
    expect(await world.look()).toBe(5 * MINUTE);
    expect([world.writes, world.events.at(-1)?.note]).toEqual([
      3,
      "another writer keeps removing supported-arch=amd64, supported-arch=arm64 from its pod template: Berth leaves it alone for a while; nodes with these taints get no pod of it",
    ]);
    expect(world.told.at(-1)).toBe("Warning Contested");
  });

  it("is no fight when its images change", async () => {
    const world = new World({ images: ["amd"] });
    for (const image of ["arm", "multi", "more", "most"]) {
      await world.look();
      world.images = { ...world.images, more: ["s390x"], most: ["ppc64le"] };
      world.put(daemonSetOf({ images: [image] }));
    }
    expect(await world.look()).toBeUndefined();
    expect(world.writes).toBe(5);
  });
});

describe("the decision about a DaemonSet", () => {
  const garbage = fc.oneof(fc.jsonValue(), fc.constant(undefined));
  const view = { namespaceLabels: {}, keys: [KEY], observations: sightOf(IMAGES), now: 0 };
  const { policies } = policiesOf({ p: {} });

  it("can be made of anything that was sent", () => {
    fc.assert(
      fc.property(garbage, garbage, garbage, (spec, metadata, containers) => {
        for (const template of [spec, { spec, metadata }, { spec: { containers }, metadata }]) {
          const daemonSet = { metadata: { namespace: "d" }, spec: { template } } as unknown as DaemonSet;
          expect(() => decideDaemonSet({ ...view, policies, daemonSet })).not.toThrow();
        }
      }),
    );
  });

  it("keeps all that stands, and is settled by its own patch", () => {
    const someTolerations = fc.subarray([everything, other, ...tolerate("amd64"), ...tolerate("arm64")]);
    const someImages = fc.subarray(["multi", "amd", "arm", "down", "lost", "new"], { minLength: 1 });
    fc.assert(
      fc.property(someTolerations, someImages, (tolerations, images) => {
        const daemonSet = daemonSetOf({ tolerations, images });
        const { patch = [] } = decideDaemonSet({ ...view, policies, daemonSet });
        const after = applyPatch(daemonSet, patch) as DaemonSet;
        const list = after.spec?.template.spec?.tolerations ?? [];
        expect(list.slice(0, tolerations.length)).toEqual(tolerations);
        expect(decideDaemonSet({ ...view, policies, daemonSet: after }).patch).toBeUndefined();
        expect({ ...after.spec?.template.spec, tolerations: 0 }).toEqual({
          ...daemonSet.spec?.template.spec,
          tolerations: 0,
        });
      }),
    );
  });
});
