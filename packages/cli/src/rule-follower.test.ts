import { ApiError, type ApiFailure, type KubeObject } from "@berth/kube";
import type { LabelRule } from "@berth/placement";
import { type Change, createSilentLogger, createVirtualClock, type Informer } from "@berth/runtime";
import { describe, expect, it } from "vitest";
import type { ClusterRules } from "./label-rules.ts";
import { CRD_GRACE_MS, RuleFollower } from "./rule-follower.ts";

type Answer = ApiFailure | "served" | "ending";

/** Rules as an informer would hold them, and a server that says what became of their CRD. */
function stage({
  ageMs = 2 * CRD_GRACE_MS,
  names = ["a", "b"],
}: {
  ageMs?: number;
  names?: readonly string[];
} = {}) {
  const clock = createVirtualClock();
  const createdAt = clock.now() - ageMs;
  const rules = new Map(names.map((name) => [name, ruleOf(name)]));
  const handlers = new Set<(change: Change<LabelRule>) => void>();
  const told: (ClusterRules | undefined)[] = [];
  const world = { answer: "served" as Answer, questions: 0, latencyMs: 0 };
  const informer = {
    synced: true,
    list: () => rules.values(),
    whenSynced: () => Promise.resolve(true),
    subscribe: ({ onChange }: { onChange: (change: Change<LabelRule>) => void }) => {
      handlers.add(onChange);
      return { [Symbol.dispose]: () => void handlers.delete(onChange) };
    },
  } as unknown as Informer<LabelRule>;
  const get = async (): Promise<KubeObject> => {
    world.questions += 1;
    const { answer } = world;
    if (world.latencyMs > 0) await new Promise<void>((resolve) => clock.schedule(world.latencyMs, resolve));
    if (typeof answer !== "string")
      throw new ApiError(answer, { verb: "get", resource: "customresourcedefinitions" });
    const creationTimestamp = new Date(createdAt).toISOString();
    return {
      metadata: { creationTimestamp, ...(answer === "ending" && { deletionTimestamp: creationTimestamp }) },
    };
  };
  const follower = new RuleFollower({
    client: { get } as unknown as ConstructorParameters<typeof RuleFollower>[0]["client"],
    rules: informer,
    clock,
    log: createSilentLogger(),
    onRules: (read) => told.push(read),
  });
  const remove = (...gone: readonly string[]): void => {
    for (const name of gone) {
      const object = rules.get(name) ?? ruleOf(name);
      rules.delete(name);
      for (const tell of handlers) tell({ type: "deleted", object });
    }
  };
  const add = (name: string): void => {
    rules.set(name, ruleOf(name));
    for (const tell of handlers) tell({ type: "added", object: ruleOf(name), initial: false });
  };
  const last = (): readonly string[] | undefined => told.at(-1)?.documents.map(({ name }) => name);
  const start = async (): Promise<void> => {
    await follower.start(new AbortController().signal);
    await clock.advance(0);
  };
  return { clock, world, told, start, remove, add, last };
}

function ruleOf(name: string): LabelRule {
  const spec = { match: {}, labels: [{ key: `example.com/${name}` }] };
  return {
    apiVersion: "berth.dev/v1alpha1",
    kind: "LabelRule",
    metadata: { name, uid: name, generation: 1 },
    spec,
  };
}

describe("rules that disappear", () => {
  it("are deleted when their CRD is served", async () => {
    const { clock, start, remove, last, told } = stage();
    await start();
    remove("a");
    await clock.advance(50);
    expect(last()).toEqual(["b"]);
    expect(told.at(-1)?.unsettled).toBeUndefined();
  });

  it.each<Answer>(["ending", { kind: "notFound" }])(
    "are nobody's wish when the CRD is %j",
    async (answer) => {
      const { clock, world, start, remove, told } = stage();
      await start();
      world.answer = answer;
      remove("a", "b");
      await clock.advance(50);
      expect(told.at(-1)).toBeUndefined();
    },
  );

  it("are deleted when nothing can be asked, unless it is all of them", async () => {
    const { clock, world, start, remove, last } = stage();
    await start();
    world.answer = { kind: "forbidden" };
    remove("a");
    await clock.advance(50);
    expect(last()).toEqual(["b"]);
    remove("b");
    await clock.advance(50);
    expect(last()).toBeUndefined();
  });

  it("are waited with while the server does not answer", async () => {
    const { clock, world, start, remove, last } = stage();
    await start();
    world.answer = { kind: "unreachable" };
    remove("a");
    await clock.advance(50);
    expect(last()).toEqual(["a", "b"]);
    world.answer = "served";
    await clock.advance(5000);
    expect(last()).toEqual(["b"]);
  });

  it("are asked about once, and an edit asks nothing", async () => {
    const { clock, world, start, add, remove } = stage();
    await start();
    expect(world.questions).toBe(1);
    add("c");
    await clock.advance(50);
    expect(world.questions).toBe(1);
    remove("a", "b");
    await clock.advance(50);
    expect(world.questions).toBe(2);
  });

  it("are seen in time although the server was slow to answer about others", async () => {
    const { clock, world, start, remove, last } = stage({ ageMs: 0, names: ["a", "b", "c"] });
    await start();
    world.latencyMs = 1000;
    remove("a");
    await clock.advance(50);
    remove("b");
    await clock.advance(3000);
    expect(last()).toEqual(["c"]);
  });
});

describe("a young CRD", () => {
  it("may not have all its rules yet, but what is seen to go is gone", async () => {
    const { clock, start, remove, add, told } = stage({ ageMs: CRD_GRACE_MS - 60_000 });
    await start();
    expect(told.at(-1)?.unsettled).toEqual({ deleted: new Set() });
    remove("a");
    await clock.advance(50);
    expect(told.at(-1)?.unsettled).toEqual({ deleted: new Set(["cluster/a"]) });
    add("a");
    await clock.advance(50);
    expect(told.at(-1)?.unsettled).toEqual({ deleted: new Set() });
    await clock.advance(60_000);
    expect(told.at(-1)?.unsettled).toBeUndefined();
  });
});
