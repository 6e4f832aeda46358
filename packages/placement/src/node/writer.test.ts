import { ApiError } from "@berth/kube";
import { describe, expect, it } from "vitest";
import { type LabelRules, parseLabelFolder } from "../labels/index.ts";
import { rulesOf } from "../labels/testing/rule-set.ts";
import type { BoundCapability } from "./capability.ts";
import { bindLabels, folderOf, labelsFrom } from "./testing/labels.ts";
import { type OneNode, oneNode } from "./testing/server.ts";
import { capabilityOf, wish } from "./testing/stub.ts";
import { makeNode } from "./testing/world.ts";
import { type WriterUnderTest, writerOf } from "./testing/writer.ts";

const MARKS = "berth.dev/marks";

const setup = (world: OneNode, ...capabilities: readonly BoundCapability[]): WriterUnderTest =>
  writerOf(world, capabilities);

const warnings = (world: OneNode): string[] =>
  world.events.list.filter(({ type }) => type === "Warning").map(({ reason }) => reason);

const labelsOf = ({ node }: OneNode) => node.metadata?.labels;
const ruled = labelsFrom(folderOf({ out: "in" }));
const matching = () => oneNode(makeNode({ labels: { in: "1" } }));

describe("the node writer", () => {
  it("L-P1, L-P3 writes one patch for a node that matches, and none once it is settled, nor after a restart", async () => {
    const { world, run, look } = setup(matching(), ruled);
    await run();
    expect(labelsOf(world)).toEqual({ in: "1", out: "true" });
    expect(await look()).toBeUndefined();
    await setup(world, ruled).run();
    expect(world.patches).toHaveLength(1);
  });

  it("does not decide on a version older than its own write", async () => {
    const { world, clock, run, look } = setup(matching(), ruled);
    await run();
    expect(await run()).toEqual({ recheckAfterMs: 100 });
    await clock.advance(29_950);
    expect(await run()).toEqual({ recheckAfterMs: 50 });
    expect(world.patches).toHaveLength(1);
    await look();
    expect(world.patches).toHaveLength(1);
  });

  it("goes on with what the cache has when it never catches up, because the patch is guarded", async () => {
    const { world, clock, run } = setup(matching(), ruled);
    await run();
    await clock.advance(30_000);
    expect(await run()).toMatchObject({ recheckAfterMs: 100 });
    expect(world.patches).toHaveLength(2);
    expect(labelsOf(world)?.["out"]).toBe("true");
  });

  it("L-B4 clears the label although the first attempt conflicts", async () => {
    const { world, run, look } = setup(matching(), ruled);
    await run();
    world.edit({ labels: { in: null } });
    world.editUnseen({ annotations: { heartbeat: "1" } });
    expect(await run()).toEqual({ recheckAfterMs: 100 });
    expect(labelsOf(world)?.["out"]).toBe("true");
    expect(await run()).toEqual({ recheckAfterMs: 100 });
    expect(world.patches).toHaveLength(2);
    await look();
    expect(labelsOf(world)).toEqual({});
    expect(world.node.metadata?.annotations).toEqual({ heartbeat: "1" });
  });

  it("L-B4 clears the label also when no newer version explains the conflict, ever more patiently", async () => {
    const { world, clock, run } = setup(matching(), ruled);
    await run();
    world.edit({ labels: { in: null } });
    world.refuse = () => ({ kind: "conflict", causes: [] });
    await run();
    for (const [waitMs, patches] of [
      [500, 3],
      [999, 3],
      [1, 4],
      [2000, 5],
    ] as const) {
      await clock.advance(waitMs);
      await run();
      expect(world.patches).toHaveLength(patches);
    }
    world.refuse = undefined;
    await clock.advance(4000);
    await run();
    expect(labelsOf(world)).toEqual({});
  });

  it("forgets a node that is gone, and begins anew with one of the same name", async () => {
    const { world, writer, run } = setup(matching(), ruled);
    world.refuse = () => ({ kind: "notFound" });
    expect(await run()).toBeUndefined();
    expect(writer.remembered).toBe(0);
    world.refuse = undefined;
    await run();
    world.remove();
    await run();
    expect(writer.remembered).toBe(0);
  });

  it.each([
    { kind: "tooManyRequests", causes: [] } as const,
    { kind: "serverError", status: 500 } as const,
    { kind: "timeout", afterMs: 1 } as const,
    { kind: "unreachable" } as const,
  ])("throws $kind as it came, for the controller's retry policy", async (failure) => {
    const { world, run } = setup(matching(), ruled);
    world.refuse = () => failure;
    await expect(run()).rejects.toBeInstanceOf(ApiError);
    await expect(run()).rejects.toMatchObject({ failure });
  });

  it("writes the record again when it vanishes while it runs", async () => {
    const { world, run, look } = setup(matching(), ruled);
    await run();
    const record = world.node.metadata?.annotations?.[MARKS];
    world.edit({ annotations: { [MARKS]: null } });
    await run();
    expect(world.node.metadata?.annotations?.[MARKS]).toBe(record);
    world.edit({ annotations: { [MARKS]: null }, labels: { in: null } });
    await run();
    expect(labelsOf(world)).toEqual({});
    expect(world.node.metadata?.annotations).toEqual({});
    expect(await look()).toBeUndefined();
    expect(world.patches).toHaveLength(3);
  });

  it("does not take a label for its own that somebody else sets after it was removed", async () => {
    const { world, run } = setup(matching(), ruled);
    await run();
    world.edit({ labels: { in: null } });
    await run();
    world.edit({ labels: { out: "theirs" } });
    await run();
    expect(labelsOf(world)).toEqual({ out: "theirs" });
    expect(world.patches).toHaveLength(2);
    // It remembers that no record is left, and need not ask the server.
    expect(world.reads).toBe(0);
  });

  it("leaves alone what another process released, and somebody else has set since, before it could see either", async () => {
    for (const theirs of ["manual", "true"]) {
      const { world, run, look } = setup(matching(), ruled);
      await run();
      await look();
      world.editUnseen({ labels: { in: null, out: null }, annotations: { [MARKS]: null } });
      world.edit({ labels: { out: theirs } });
      await run();
      expect(labelsOf(world)).toEqual({ out: theirs });
      expect(world.patches).toHaveLength(1);
      expect(world.reads).toBe(1);
    }
  });

  it("forgets the record when somebody removed it together with its marks", async () => {
    const { world, run } = setup(matching(), ruled);
    await run();
    world.edit({ labels: { in: null, out: null }, annotations: { [MARKS]: null } });
    await run();
    world.edit({ labels: { out: "theirs" } });
    await run();
    expect(labelsOf(world)).toEqual({ out: "theirs" });
    expect(world.patches).toHaveLength(1);
  });

  it("neither sets nor removes anything before the rules have been read", async () => {
    let rules: LabelRules | undefined = parseLabelFolder(folderOf({ out: "in" })).rules;
    const bound = bindLabels(() => rules);
    const { world, run } = setup(matching(), bound);
    await run();
    world.edit({ labels: { in: null } });
    rules = undefined;
    await run();
    expect(labelsOf(world)).toEqual({ out: "true" });
    rules = parseLabelFolder(folderOf({})).rules;
    await run();
    expect(labelsOf(world)).toEqual({});
  });
});

describe("a removal that waits", () => {
  it("counts as standing, so that a rule for its absence acts when it is made, in the same write", async () => {
    const { labels } = rulesOf({
      cluster: {
        gpu: { match: { all: [{ key: "in" }] }, labels: [{ key: "gpu" }], removalDelay: "60s" },
        user: { match: { all: [{ key: "gpu" }] }, labels: [{ key: "gpu-user" }], removalDelay: "0s" },
        cpu: { match: { all: [{ key: "gpu", operator: "DoesNotExist" }] }, labels: [{ key: "cpu-only" }] },
      },
    });
    const { world, clock, run } = setup(matching(), ...labels);
    await run();
    world.observe();
    world.edit({ labels: { in: null } });
    expect(await run()).toEqual({ recheckAfterMs: 60_000 });
    expect(world.patches).toHaveLength(1);
    await clock.advance(60_000);
    await run();
    expect(world.patches).toHaveLength(2);
    expect(labelsOf(world)).toEqual({ "cpu-only": "true" });
  });
});

describe("a refused write", () => {
  const good = capabilityOf("good", [wish("label/good", "1")]);
  const bad = capabilityOf("bad", [wish("label/fine", "1"), wish("label/bad", "1"), wish("label/fair", "1")]);
  const refuseBad: OneNode["refuse"] = ({ metadata }) =>
    metadata.labels && "bad" in metadata.labels ? { kind: "invalid", causes: [] } : undefined;

  it("stops only the offending mark; the others land with their record", async () => {
    const { world, run } = setup(oneNode(makeNode()), good, bad);
    world.refuse = refuseBad;
    expect(await run()).toEqual({ recheckAfterMs: 30_000 });
    expect(labelsOf(world)).toEqual({ good: "1", fine: "1", fair: "1" });
    // All, each capability, halves of what one capability wants, and one by one.
    const sent = world.patches.map(({ metadata: { labels } }) => Object.keys(labels ?? {}).join(" "));
    expect(sent).toEqual(["bad fair fine good", "bad fair fine", "bad fair", "bad", "fair", "fine", "good"]);
    expect(Object.keys(JSON.parse(world.node.metadata?.annotations?.[MARKS] ?? "").marks)).toEqual([
      "label/fair",
      "label/fine",
      "label/good",
    ]);
    expect(warnings(world)).toEqual(["WriteRefused"]);
  });

  it("is not repeated before its delay, which doubles up to five minutes, and heals by itself", async () => {
    const { world, clock, run } = setup(oneNode(makeNode()), bad);
    world.refuse = refuseBad;
    await run();
    world.observe();
    const sent = world.patches.length;
    expect(await run()).toEqual({ recheckAfterMs: 30_000 });
    expect(world.patches).toHaveLength(sent);
    for (const delayMs of [60_000, 120_000, 240_000, 300_000, 300_000]) {
      await clock.advance(delayMs);
      expect(await run()).toEqual({ recheckAfterMs: delayMs });
    }
    expect(world.patches).toHaveLength(sent + 5);
    expect(warnings(world)).toEqual(["WriteRefused"]);
    world.refuse = undefined;
    await clock.advance(300_000);
    expect(await run()).toBeUndefined();
    expect(labelsOf(world)?.["bad"]).toBe("1");
  });

  it("is tried at once when something else is wanted", async () => {
    let value = "1";
    const changing: BoundCapability = {
      name: "changing",
      contribute: (view, now) => capabilityOf("changing", [wish("label/bad", value)]).contribute(view, now),
      inputs: () => [],
    };
    const { world, run } = setup(oneNode(makeNode()), changing);
    world.refuse = refuseBad;
    await run();
    world.refuse = undefined;
    value = "2";
    await run();
    expect(labelsOf(world)).toEqual({ bad: "2" });
  });

  it("I-15 for want of permission is not split, and is for the controller to send again", async () => {
    const { world, run } = setup(oneNode(makeNode()), good, bad);
    world.refuse = () => ({ kind: "forbidden" });
    await expect(run()).rejects.toMatchObject({ failure: { kind: "forbidden" } });
    expect(world.patches).toHaveLength(1);
    world.refuse = undefined;
    await run();
    expect(labelsOf(world)).toEqual({ good: "1", bad: "1", fair: "1", fine: "1" });
  });

  it("that conflicts in the middle goes on from a newer version", async () => {
    const { world, run } = setup(oneNode(makeNode()), good, bad);
    let refused = false;
    world.refuse = ({ metadata }) => {
      if (!refused && metadata.labels && "good" in metadata.labels) {
        refused = true;
        return { kind: "invalid", causes: [] };
      }
      if (metadata.labels && "good" in metadata.labels) return { kind: "conflict", causes: [] };
      return undefined;
    };
    expect(await run()).toEqual({ recheckAfterMs: 100 });
    world.refuse = undefined;
    world.edit({ annotations: { a: "1" } });
    await run();
    expect(labelsOf(world)).toEqual({ good: "1", bad: "1", fair: "1", fine: "1" });
  });
});

describe("a contested place", () => {
  it("is left alone after three reverts in a minute, names the rival, and is tried again after five", async () => {
    const { world, clock, run } = setup(matching(), ruled);
    for (let revert = 0; revert < 3; revert += 1) {
      await run();
      await clock.advance(1000);
      world.edit({ labels: { out: "theirs" } });
    }
    const fieldsV1 = { "f:metadata": { "f:labels": { "f:out": {} } } };
    const live = {
      ...world.node,
      metadata: { ...world.node.metadata, managedFields: [{ manager: "nfd", fieldsV1 }] },
    };
    const read = world.api.read.bind(world.api);
    Object.assign(world.api, { read: (...args: Parameters<typeof read>) => read(...args).then(() => live) });
    expect(await run()).toEqual({ recheckAfterMs: 300_000 });
    expect(world.reads).toBe(1);
    expect(world.patches).toHaveLength(3);
    const contested = world.events.list.filter(({ reason }) => reason === "Contested");
    expect(contested).toHaveLength(1);
    expect(contested[0]?.note).toContain("nfd");
    await clock.advance(299_999);
    await run();
    expect(world.patches).toHaveLength(3);
    await clock.advance(1);
    await run();
    expect(world.patches).toHaveLength(4);
    expect(world.reads).toBe(1);
  });

  it("is left alone also when the rival cannot be found out", async () => {
    const { world, run } = setup(matching(), ruled);
    for (let revert = 0; revert < 3; revert += 1) {
      await run();
      world.edit({ labels: { out: null } });
    }
    const failure = new ApiError({ kind: "forbidden" }, { verb: "get", resource: "nodes" });
    Object.assign(world.api, { read: () => Promise.reject(failure) });
    expect(await run()).toMatchObject({ recheckAfterMs: 300_000 });
    expect(warnings(world)).toEqual(["Contested"]);
  });
});

describe("what the writer reports", () => {
  it("is an Event for what it takes away or replaces, not for what it sets", async () => {
    const { world, run } = setup(oneNode(makeNode({ labels: { in: "1", out: "theirs" } })), ruled);
    await run();
    world.edit({ labels: { in: null } });
    await run();
    expect(world.events.list.map(({ reason, type }) => `${type} ${reason}`)).toEqual([
      "Normal ForeignValueReplaced",
      "Normal InputGone",
    ]);
  });

  it("announces a warning once while it stands, and again when it comes back", async () => {
    const { world, run, look } = setup(matching(), ruled);
    world.edit({ annotations: { [MARKS]: "{" } });
    await run();
    await look();
    world.edit({ annotations: { [MARKS]: null } });
    await run();
    world.edit({ annotations: { [MARKS]: "{" } });
    await run();
    expect(warnings(world)).toEqual(["RecordUnreadable", "RecordUnreadable"]);
  });
});
