import { ApiError, type ApiFailure } from "@berth/kube";
import { type StartupGate, startupGates } from "@berth/placement";
import { type Change, createVirtualClock, type Informer, type VirtualClock } from "@berth/runtime";
import { describe, expect, it } from "vitest";
import { createDocumentFollower, LOOK_MS, PATIENCE_MS } from "./document-follower.ts";

const gateOf = (name: string): StartupGate => ({
  kind: "StartupGate",
  metadata: { name, uid: name, generation: 1 },
  spec: { signals: {} },
});

interface Stage extends AsyncDisposable {
  readonly clock: VirtualClock;
  /** What the informer says, and what the server answers to a question. */
  readonly world: { synced: boolean; absent: boolean; failure: ApiFailure | undefined };
  readonly gates: Map<string, StartupGate>;
  /** The names of each telling; `unreadable` when it is gone on without. */
  readonly told: string[];
  readonly questions: () => number;
  readonly tell: (change: Change<StartupGate>) => void;
}

async function setUp(
  world: Stage["world"] = { synced: true, absent: false, failure: undefined },
  names: readonly string[] = ["a", "b"],
): Promise<Stage> {
  const clock = createVirtualClock();
  const gates = new Map(names.map((name) => [name, gateOf(name)]));
  const told: string[] = [];
  let questions = 0;
  let handler: ((change: Change<StartupGate>) => void) | undefined;
  const informer = {
    get synced() {
      return world.synced;
    },
    get absent() {
      return world.absent;
    },
    list: () => gates.values(),
    whenSynced: () => new Promise<boolean>(() => {}),
    subscribe: ({ onChange }: { readonly onChange: (change: Change<StartupGate>) => void }) => {
      handler = onChange;
      return { [Symbol.dispose]: () => (handler = undefined) };
    },
  } as unknown as Informer<StartupGate>;
  const list = async (): Promise<never> => {
    questions += 1;
    if (world.failure !== undefined)
      throw new ApiError(world.failure, { verb: "list", resource: "startupgates" });
    return { metadata: {}, items: [] } as never;
  };
  const stopping = new AbortController();
  const { ended } = await createDocumentFollower({
    client: { list },
    resource: startupGates,
    documents: informer,
    annotations: ["example.com/read"],
    nodes: { whenSynced: () => Promise.resolve(true) },
    clock,
    onDocuments: (read) => told.push([...read].map(({ metadata }) => metadata?.name).join()),
    onUnreadable: () => told.push("unreadable"),
    onNodes: () => {},
  }).start(stopping.signal);
  return {
    clock,
    world,
    gates,
    told,
    questions: () => questions,
    tell: (change) => handler?.(change),
    async [Symbol.asyncDispose]() {
      stopping.abort();
      await ended;
    },
  };
}

describe("documents of the cluster", () => {
  it("are told at the start and when they change, but not when only their status does", async () => {
    await using it = await setUp();
    const a = gateOf("a");
    it.tell({ type: "updated", old: a, object: a });
    await it.clock.advance(100);
    expect(it.told).toEqual(["a,b"]);
    it.gates.delete("a");
    it.tell({ type: "deleted", object: a });
    await it.clock.advance(100);
    expect(it.told).toEqual(["a,b", "b"]);
    await it.clock.advance(2 * PATIENCE_MS);
    expect([it.told.length, it.questions()]).toEqual([2, 0]);
  });

  it("are told when an annotation changes that is read, and not for others", async () => {
    await using it = await setUp();
    const old = gateOf("a");
    const annotated = (key: string): StartupGate => ({
      ...old,
      metadata: { ...old.metadata, annotations: { [key]: "true" } },
    });
    it.tell({ type: "updated", old, object: annotated("example.com/other") });
    await it.clock.advance(100);
    expect(it.told).toHaveLength(1);
    it.tell({ type: "updated", old, object: annotated("example.com/read") });
    await it.clock.advance(100);
    expect(it.told).toHaveLength(2);
  });

  it("are none when their CRD is not there at the start, and it is asked once", async () => {
    await using it = await setUp({ synced: false, absent: true, failure: { kind: "notFound" } }, []);
    await it.clock.advance(0);
    expect([it.told, it.questions()]).toEqual([[""], 1]);
    await it.clock.advance(10 * PATIENCE_MS);
    expect([it.told, it.questions()]).toEqual([[""], 1]);
  });

  it("are gone on without when they may not be read, or cannot; it is hardly asked", async () => {
    for (const absent of [true, false]) {
      await using it = await setUp({ synced: false, absent, failure: { kind: "forbidden" } }, []);
      await it.clock.advance(PATIENCE_MS - 1);
      expect(it.told).toEqual([]);
      await it.clock.advance(10 * PATIENCE_MS);
      expect(it.told).toEqual(["unreadable"]);
      expect(it.questions()).toBeLessThanOrEqual(absent ? 8 : 0);
    }
  });

  it("are none when their CRD went while nobody watched, and are there again when it comes back as it was", async () => {
    await using it = await setUp();
    it.world.absent = true;
    it.world.failure = { kind: "notFound" };
    await it.clock.advance(2 * LOOK_MS);
    expect(it.told).toEqual(["a,b", ""]);
    it.world.absent = false;
    await it.clock.advance(LOOK_MS);
    expect(it.told).toEqual(["a,b", "", "a,b"]);
  });

  it("stay when the CRD was missed by one look only, or the server says that it is there", async () => {
    await using it = await setUp();
    it.world.absent = true;
    await it.clock.advance(LOOK_MS);
    it.world.absent = false;
    await it.clock.advance(LOOK_MS);
    it.world.absent = true;
    await it.clock.advance(4 * LOOK_MS);
    expect([it.told, it.questions()]).toEqual([["a,b"], 1]);
  });
});
