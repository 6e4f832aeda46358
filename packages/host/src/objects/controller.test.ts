/** What a reconciler remembers of an object between decisions, and between runs. */
import { ApiError, configMaps, type KubeObject, secrets } from "@berth/kube";
import { clusterName, createSilentLogger, createVirtualClock, type ObjectKey } from "@berth/runtime";
import { beforeEach, describe, expect, it } from "vitest";
import { createObjectReconciler, type ObjectDecision, type ObjectReconcilerOptions } from "./controller.ts";
import type { Intent } from "./intent.ts";

const key: ObjectKey = { cluster: clusterName("c"), namespace: "ns", name: "a" };
const patch: Intent = { do: "patch", patch: { type: "merge", body: { data: {} } }, reason: "R", message: "" };
const creation: Intent = {
  do: "create",
  on: { resource: secrets, seen: undefined },
  body: { metadata: { namespace: "ns", name: "s" } },
  reason: "Made",
  message: "",
};

interface Past {
  looks: number;
}
type Options = ObjectReconcilerOptions<KubeObject, Past, ObjectDecision>;

class World {
  readonly clock = createVirtualClock();
  object: KubeObject | undefined = {
    metadata: { namespace: "ns", name: "a", uid: "u-1", resourceVersion: "1" },
  };
  /** The message of the answer to a creation. Default: it is done. */
  refusal: string | undefined;
  readonly told: string[] = [];
  #version = 1;

  run(rules: Partial<Options>): () => Promise<unknown> {
    const reconcile = createObjectReconciler<KubeObject, Past, ObjectDecision>({
      resource: configMaps,
      action: "Test",
      clock: this.clock,
      client: {
        patch: () =>
          Promise.resolve({ metadata: { ...this.object?.metadata, resourceVersion: `${++this.#version}` } }),
        create: (_resource: unknown, object: KubeObject) => {
          const { refusal: message } = this;
          const request = { verb: "create", resource: "secrets" } as const;
          return message === undefined
            ? Promise.resolve(object)
            : Promise.reject(
                new ApiError({ kind: "invalid", causes: [{ field: "data", message }] }, request),
              );
        },
      } as unknown as Options["client"],
      objects: { get: () => this.object },
      decide: () => ({}),
      ...rules,
    });
    return () => reconcile(key, { signal: new AbortController().signal, log: createSilentLogger() });
  }
}

let world: World;
beforeEach(() => (world = new World()));

describe("a run of several steps", () => {
  it("decides again about what the server stored, and never more often than it may", async () => {
    const seen: unknown[] = [];
    const run = world.run({
      steps: 3,
      look({ metadata }) {
        seen.push(`look ${metadata?.resourceVersion}`);
        return Promise.resolve(undefined);
      },
      decide({ metadata }) {
        seen.push(`decide ${metadata?.resourceVersion}`);
        return { intents: [patch] };
      },
    });
    await run();
    expect(seen).toEqual(["look 1", "decide 1", "look 2", "decide 2", "look 3", "decide 3"]);
  });

  it("ends with a decision that changes nothing, and tells when the next run is due", async () => {
    const waits: unknown[] = [];
    const run = world.run({
      steps: 3,
      look: () => Promise.resolve(700),
      decide: ({ metadata }) =>
        metadata?.resourceVersion === "1" ? { intents: [patch] } : { recheckAfterMs: 900 },
      waits: ({ metadata }, decision, { recheckAfterMs, isBehind }) =>
        void waits.push([metadata?.resourceVersion, decision, recheckAfterMs, isBehind]),
    });
    expect(await run()).toEqual({ recheckAfterMs: 700 });
    expect(waits).toEqual([["2", { recheckAfterMs: 900 }, 700, false]]);
  });
});

describe("a refusal to create another object", () => {
  const rules = (refused: (string | undefined)[]): Partial<Options> => ({
    decide(_object, _past, _key, refusals) {
      refused.push(refusals.get("s"));
      return { intents: [creation] };
    },
    onRefused: ({ name }) => void world.told.push(name),
  });

  it("is known to the next decision until it is done, and asked about once for the same words", async () => {
    const refused: (string | undefined)[] = [];
    const run = world.run(rules(refused));
    world.refusal = "too long";
    await run();
    await run();
    expect(refused[1]).toMatch(/^it is not created: /);
    expect(world.told).toEqual(["a"]);
    world.refusal = undefined;
    await world.clock.advance(30_000);
    for (let n = 0; n < 2; n += 1) await run();
    expect(refused.at(-1)).toBeUndefined();
  });

  it("says nothing about an object that took the name", async () => {
    const refused: (string | undefined)[] = [];
    const run = world.run(rules(refused));
    world.refusal = "too long";
    await run();
    world.object = { metadata: { ...world.object?.metadata, uid: "u-2" } };
    await run();
    expect(refused).toEqual([undefined, undefined]);
  });
});

it("the past of an object ends with it, also when another one takes its name", async () => {
  const looks: (number | undefined)[] = [];
  const run = world.run({
    decide(_object, past) {
      past.looks = (past.looks ?? 0) + 1;
      looks.push(past.looks);
      return {};
    },
    forgotten: (uid) => void world.told.push(uid),
    gone: () => 5,
  });
  await run();
  await run();
  world.object = { metadata: { ...world.object?.metadata, uid: "u-2" } };
  await run();
  world.object = undefined;
  expect([looks, await run(), world.told]).toEqual([[1, 2, 1], { recheckAfterMs: 5 }, ["u-1", "u-2"]]);
});
