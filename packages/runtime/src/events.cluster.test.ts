/** Events as a real API server stores them and as kubectl looks for them. */
import { coreEvents, events, type KubeEvent, nodes } from "@berth/kube";
import { aNode, eventually, sharedTestCluster } from "@berth/testcluster";
import { describe, expect, it } from "vitest";
import { createVirtualClock } from "./clock.ts";
import { EVENT_LIMITS, type EventInput, referenceTo } from "./event-series.ts";
import { EventRecorder } from "./events.ts";
import { createSilentLogger } from "./json-log.ts";

let nodeCount = 0;

const cluster = await sharedTestCluster();

/** A node of its own, and a recorder that runs. Only a test lets the times of a series pass. */
async function setUp() {
  const node = await cluster.client.create(nodes, aNode(`evented-${++nodeCount}`).build());
  const clock = createVirtualClock(Date.now());
  const recorder = new EventRecorder({
    client: cluster.client,
    clock,
    log: createSilentLogger(),
    reportingController: "berth.dev/controller",
    reportingInstance: "berth-0",
  });
  const stopping = new AbortController();
  const running = recorder.run(stopping.signal);
  const regarding = referenceTo(nodes, node);
  return {
    node,
    clock,
    recorder,
    record: (input: Partial<EventInput> = {}) =>
      recorder.record({
        regarding,
        reason: "LabelApplied",
        note: "it fits the rule",
        type: "Normal",
        action: "Label",
        ...input,
      }),
    stored: async (): Promise<readonly KubeEvent[]> => {
      const { items } = await cluster.client.list(events, { namespace: "default" });
      return items.filter((event) => event.regarding?.name === node.metadata?.name);
    },
    async [Symbol.asyncDispose]() {
      stopping.abort();
      await running;
    },
  };
}

it("an event about a node is found as kubectl describe looks for it", async () => {
  await using setup = await setUp();
  const { name = "", uid = "" } = setup.node.metadata ?? {};
  setup.record();
  const found = await eventually(async () => {
    const fieldSelector = `involvedObject.kind=Node,involvedObject.name=${name},involvedObject.uid=${uid}`;
    const { items } = await cluster.client.list(coreEvents, { fieldSelector });
    expect(items).toHaveLength(1);
    return items[0];
  });
  expect(found).toMatchObject({
    reason: "LabelApplied",
    message: "it fits the rule",
    type: "Normal",
    reportingComponent: "berth.dev/controller",
    reportingInstance: "berth-0",
  });
  expect((await setup.stored())[0]?.eventTime).toMatch(/\.\d{6}Z$/);
});

it("an event with the longest texts and an odd name is taken by the server", async () => {
  await using setup = await setUp();
  setup.record({
    reason: "R".repeat(200),
    action: "A".repeat(200),
    note: "ü".repeat(2_000),
    type: "Warning",
    regarding: {
      kind: "Node",
      apiVersion: "v1",
      name: setup.node.metadata?.name ?? "",
      uid: "x".repeat(40),
    },
  });
  const event = await eventually(async () => {
    const [first] = await setup.stored();
    expect(first).toBeDefined();
    return first;
  });
  expect(Buffer.byteLength(event?.note ?? "")).toBeLessThanOrEqual(EVENT_LIMITS.noteBytes);
  expect(event?.note).toMatch(/ü…$/);
  expect(setup.recorder.dropped).toBe(0);
});

describe("equal events", () => {
  it("become one Event with a series, made anew with its count when the server has forgotten it", async () => {
    await using setup = await setUp();
    for (let count = 0; count < 3; count++) setup.record();
    await eventually(async () => expect(await setup.stored()).toHaveLength(1));
    for (let count = 0; count < 4; count++) setup.record();
    const updated = await eventually(async () => {
      // The time runs from the answer to the first write, which may come later than we see what it wrote.
      await setup.clock.advance(EVENT_LIMITS.firstUpdateMs);
      const stored = await setup.stored();
      expect(stored.map(({ series }) => series?.count)).toEqual([7]);
      return stored[0]?.metadata;
    });
    await cluster.client.delete(events, { namespace: "default", name: updated?.name ?? "" });
    setup.record();
    await eventually(async () => {
      await setup.clock.advance(EVENT_LIMITS.lastUpdateMs);
      const stored = await setup.stored();
      expect(stored.map(({ series }) => series?.count)).toEqual([8]);
      expect(stored[0]?.metadata?.uid).not.toBe(updated?.uid);
    });
    expect(setup.recorder.dropped).toBe(0);
  });
});
