import { ApiError, type ApiFailure, type Pod } from "@berth/kube";
import { createSilentLogger, createVirtualClock, type VirtualClock } from "@berth/runtime";
import { aPod } from "@berth/testcluster";
import { describe, expect, it } from "vitest";
import { createLeftovers } from "./leftovers.ts";
import { GATE, gatedBy } from "./testing/specs.ts";

const held = gatedBy(aPod("held"), GATE).build();

interface Stage extends AsyncDisposable {
  readonly clock: VirtualClock;
  readonly leftovers: ReturnType<typeof createLeftovers>;
  readonly world: {
    idle: boolean;
    stored: readonly Pod[];
    gated: readonly Pod[] | undefined;
    failure?: ApiFailure;
  };
  /** Whether the pods are watched, as it was said each time. */
  readonly lingering: boolean[];
  readonly lists: () => number;
  /** So many are in force from now on. */
  policies(inForce: number): void;
}

async function setUp(world: Stage["world"]): Promise<Stage> {
  const clock = createVirtualClock();
  const lingering: boolean[] = [];
  let lists = 0;
  const pages = async function* () {
    lists += 1;
    if (world.failure !== undefined) throw new ApiError(world.failure, { verb: "list", resource: "pods" });
    yield { items: world.stored, metadata: {} };
  };
  const leftovers = createLeftovers({
    client: { pages } as unknown as Parameters<typeof createLeftovers>[0]["client"],
    isIdle: () => world.idle,
    gated: () => world.gated,
    onLinger: (needed) => void lingering.push(needed),
    clock,
    log: createSilentLogger(),
  });
  const stopping = new AbortController();
  const { ended } = await leftovers.component.start(stopping.signal);
  return {
    clock,
    leftovers,
    world,
    lingering,
    lists: () => lists,
    policies(inForce) {
      world.idle = inForce === 0;
      leftovers.policiesChanged(inForce);
    },
    async [Symbol.asyncDispose]() {
      stopping.abort();
      await clock.advance(60_000);
      await ended;
    },
  };
}

describe("without policies", () => {
  it("one list of the pods finds that there is nothing to do", async () => {
    await using it = await setUp({ idle: true, stored: [aPod("free").build()], gated: undefined });
    await it.clock.advance(3_600_000);
    expect([it.lingering, it.lists()]).toEqual([[], 1]);
  });

  it("one list is enough as well when the sources of policies are read one after another", async () => {
    await using it = await setUp({ idle: false, stored: [], gated: undefined });
    it.leftovers.policiesChanged(0);
    await it.clock.advance(1000);
    it.policies(0);
    await it.clock.advance(3_600_000);
    expect([it.lingering, it.lists()]).toEqual([[], 1]);
  });

  it("I-15 a list that fails is repeated; one that may not be made, for five minutes", async () => {
    for (const [kind, lists] of [
      ["forbidden", 11],
      ["unreachable", 21],
    ] as const) {
      await using it = await setUp({ idle: true, stored: [], gated: undefined, failure: { kind } });
      await it.clock.advance(600_000);
      expect([it.lingering, it.lists()]).toEqual([[], lists]);
    }
  });

  it("pods of an earlier process are watched until the last has been let go", async () => {
    await using it = await setUp({ idle: true, stored: [held], gated: [held] });
    await it.clock.advance(600_000);
    expect(it.lingering).toEqual([true]);
    it.world.gated = [];
    await it.clock.advance(5000);
    expect(it.lingering).toEqual([true, false]);
  });
});

describe("when the last policy goes", () => {
  it("pods are watched a while longer, for other replicas still hold some; no list is needed", async () => {
    await using it = await setUp({ idle: false, stored: [], gated: [] });
    it.policies(1);
    await it.clock.advance(1000);
    expect(it.lingering).toEqual([]);
    it.policies(0);
    await it.clock.advance(55_000);
    expect(it.lingering).toEqual([true]);
    await it.clock.advance(10_000);
    expect([it.lingering, it.lists()]).toEqual([[true, false], 0]);
  });

  it("and one comes again, the watch goes on for that one", async () => {
    await using it = await setUp({ idle: false, stored: [], gated: [held] });
    it.policies(1);
    it.policies(0);
    await it.clock.advance(10_000);
    it.policies(1);
    await it.clock.advance(10_000);
    expect(it.lingering).toEqual([true, false]);
    it.policies(0);
    await it.clock.advance(1000);
    expect(it.lingering).toEqual([true, false, true]);
  });
});
