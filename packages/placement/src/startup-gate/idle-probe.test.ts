import type { ApiFailure, Node } from "@berth/kube";
import { aNode } from "@berth/testcluster";
import * as fc from "fast-check";
import { describe, expect, it } from "vitest";
import { seededRun } from "../../../runtime/src/testing/property.ts";
import { ANSWER_MS } from "./idle-probe.ts";
import { setUp } from "./testing/idle-pods.ts";

const IGNORED = ["kube-system", "kube-public"];

const node = (name: string, uid: string = `uid-${name}`): Node =>
  aNode(name).stored({ uid, resourceVersion: "1" }).build();

describe("whether a node is idle", () => {
  it.for<{ on: string[][]; is: object }>([
    { on: [[]], is: { idle: true } },
    { on: [["kube-system/proxy", "kube-public/x"]], is: { idle: true } },
    { on: [["kube-system/proxy", "monitoring/exporter"]], is: { idle: false, pod: "monitoring/exporter" } },
    {
      on: [["kube-system/proxy"], ["default/job"], ["default/web"]],
      is: { idle: false, pod: "default/job" },
    },
    { on: [["kube-system/proxy"], ["kube-public/x"]], is: { idle: true } },
  ])("$is with $on", async ({ on, is }) => {
    await using setup = await setUp();
    setup.pods.on.set("n1", on);
    expect(setup.probe.idleOf(node("n1"), IGNORED)).toBe("unknown");
    await setup.clock.advance(100);
    expect(setup.known).toEqual(["n1"]);
    expect(setup.probe.idleOf(node("n1"), IGNORED)).toEqual(is);
    expect(setup.pods.lists).toEqual(["n1"]);
    expect([...setup.pods.asked]).toEqual([JSON.stringify({ metadataOnly: true, limit: 500 })]);
  });

  it("answers for each list of ignored namespaces, in whatever order it is given, out of one list", async () => {
    await using setup = await setUp();
    setup.pods.on.set("n1", [["kube-system/a"], ["default/b"]]);
    setup.probe.idleOf(node("n1"), []);
    setup.probe.idleOf(node("n1"), ["kube-system", "default"]);
    await setup.clock.advance(100);
    expect(setup.probe.idleOf(node("n1"), [])).toEqual({ idle: false, pod: "kube-system/a" });
    expect(setup.probe.idleOf(node("n1"), ["default", "kube-system"])).toEqual({ idle: true });
    expect(setup.pods.lists).toEqual(["n1"]);
  });

  it("forgets an answer after its time, and asks again", async () => {
    await using setup = await setUp();
    setup.probe.idleOf(node("n1"), IGNORED);
    await setup.clock.advance(5);
    await setup.clock.advance(ANSWER_MS - 1);
    expect(setup.probe.idleOf(node("n1"), IGNORED)).toEqual({ idle: true });
    setup.pods.on.set("n1", [["default/new"]]);
    await setup.clock.advance(1);
    expect(setup.probe.idleOf(node("n1"), IGNORED)).toBe("unknown");
    await setup.clock.advance(100);
    expect(setup.probe.idleOf(node("n1"), IGNORED)).toEqual({ idle: false, pod: "default/new" });
    expect(setup.pods.lists).toEqual(["n1", "n1"]);
  });

  it("says of a busy node that it is until it is known better, so that nobody is told of it again and again", async () => {
    await using setup = await setUp();
    setup.pods.on.set("n1", [["default/a"]]);
    setup.probe.idleOf(node("n1"), IGNORED);
    await setup.clock.advance(100);
    setup.pods.on.set("n1", []);
    await setup.clock.advance(ANSWER_MS);
    for (let times = 0; times < 3; times++) {
      expect(setup.probe.idleOf(node("n1"), IGNORED)).toEqual({ idle: false, pod: "default/a" });
    }
    await setup.clock.advance(100);
    expect(setup.known).toEqual(["n1", "n1"]);
    expect(setup.probe.idleOf(node("n1"), IGNORED)).toEqual({ idle: true });
    expect(setup.probe.idleOf(node("n1", "another"), IGNORED)).toBe("unknown");
  });

  it("does not take the answer of a node for that of a later one of its name, nor a list begun before it", async () => {
    await using setup = await setUp();
    setup.pods.on.set("n1", [["default/a"]]);
    setup.probe.idleOf(node("n1", "first"), IGNORED);
    await setup.clock.advance(2);
    expect(setup.probe.idleOf(node("n1", "second"), IGNORED)).toBe("unknown");
    await setup.clock.advance(3);
    expect(setup.known).toEqual([]);
    await setup.clock.advance(100);
    expect(setup.known).toEqual(["n1"]);
    expect(setup.pods.lists).toEqual(["n1", "n1"]);
    expect(setup.probe.idleOf(node("n1", "second"), IGNORED)).toEqual({ idle: false, pod: "default/a" });
    expect(setup.probe.idleOf(node("n1", "third"), IGNORED)).toBe("unknown");
  });

  it("says nothing of a node that was forgotten meanwhile", async () => {
    await using setup = await setUp();
    setup.probe.idleOf(node("n1"), IGNORED);
    await setup.clock.advance(2);
    setup.probe.forget("n1");
    await setup.clock.advance(100);
    expect(setup.known).toEqual([]);
    expect(setup.probe.remembered).toBe(0);
  });
});

describe("lists", () => {
  it("are at most 8 at a time, one for each node, however often it is asked", async () => {
    await using setup = await setUp();
    const names = Array.from({ length: 100 }, (_, index) => `n${index}`);
    for (let times = 0; times < 3; times++) for (const name of names) setup.probe.idleOf(node(name), IGNORED);
    await setup.clock.advance(2);
    for (const name of names) setup.probe.idleOf(node(name), IGNORED);
    await setup.clock.advance(1_000);
    expect(setup.pods.most).toBe(8);
    expect(setup.pods.lists.toSorted()).toEqual(names.toSorted());
    expect(setup.known.toSorted()).toEqual(names.toSorted());
  });

  it("are repeated with growing waits after failures, and no sooner when asked meanwhile", async () => {
    await using setup = await setUp();
    const failures: ApiFailure[] = [
      { kind: "unreachable" },
      { kind: "serverError", status: 500 },
      { kind: "timeout", afterMs: 1 },
    ];
    setup.pods.failures.set("n1", failures);
    setup.pods.latencyMs = 0;
    const at: number[] = [];
    setup.probe.idleOf(node("n1"), IGNORED);
    for (let ms = 0; ms < 1_000 && setup.known.length === 0; ms++) {
      const before = setup.pods.lists.length;
      await setup.clock.advance(1);
      if (setup.pods.lists.length > before) at.push(ms);
      setup.probe.idleOf(node("n1"), IGNORED);
    }
    expect(at).toHaveLength(4);
    const waits = at.slice(1).map((ms, index) => ms - (at[index] ?? 0));
    expect(waits).toEqual(waits.toSorted((a, b) => a - b));
    expect(waits[0]).toBeGreaterThanOrEqual(24);
    expect(setup.known).toEqual(["n1"]);
  });

  it("I-15 without the permission stay unknown, and go on when it is granted", async () => {
    await using setup = await setUp();
    setup.pods.denied = true;
    const names = Array.from({ length: 50 }, (_, index) => `n${index}`);
    for (const name of names) setup.probe.idleOf(node(name), IGNORED);
    await setup.clock.advance(20_000);
    expect(setup.probe.idleOf(node("n1"), IGNORED)).toBe("unknown");
    expect(setup.probe.problem()).toBeUndefined();
    setup.pods.denied = false;
    await setup.clock.advance(31_000);
    expect(setup.known.toSorted()).toEqual(names.toSorted());
  });

  it("end with their component", async () => {
    const setup = await setUp();
    setup.probe.idleOf(node("n1"), IGNORED);
    await setup.clock.advance(2);
    await setup[Symbol.asyncDispose]();
    setup.probe.idleOf(node("n2"), IGNORED);
    await setup.clock.advance(1_000);
    expect(setup.pods.lists).toEqual(["n1"]);
    expect(setup.known).toEqual([]);
  });
});

type Step =
  | { readonly do: "ask"; readonly name: string; readonly uid: string; readonly ignored: readonly string[] }
  | { readonly do: "wait"; readonly ms: number }
  | { readonly do: "forget"; readonly name: string }
  | { readonly do: "bind"; readonly name: string; readonly pod: string }
  | { readonly do: "fail"; readonly name: string };

/** A list of the histories below takes no longer: a page for each pod that is bound, 40 at most. */
const LIST_MS = 40 * 5;

const name = fc.constantFrom("n1", "n2");
const step: fc.Arbitrary<Step> = fc.oneof(
  fc.record({
    do: fc.constant("ask" as const),
    name,
    uid: fc.constantFrom("u1", "u2"),
    ignored: fc.constantFrom<readonly string[]>(IGNORED, []),
  }),
  fc.record({ do: fc.constant("wait" as const), ms: fc.constantFrom(1, 4, 50, 5_000, ANSWER_MS) }),
  fc.record({ do: fc.constant("forget" as const), name }),
  fc.record({ do: fc.constant("bind" as const), name, pod: fc.constantFrom("kube-system/a", "default/b") }),
  fc.record({ do: fc.constant("fail" as const), name }),
);

describe("any history", () => {
  const run = seededRun(200, process.env);
  it(
    `gives only answers that were true within their time, and in the end an answer to whoever asks (${run.name})`,
    run.options,
    async () => {
      await fc.assert(
        fc.asyncProperty(fc.array(step, { maxLength: 40 }), async (steps) => {
          await using setup = await setUp();
          const { clock, pods, probe } = setup;
          /** By node: since when a pod that counts has been there, by list of ignored namespaces. */
          const busySince = new Map<string, number>();
          const wrong: string[] = [];
          for (const it of steps) {
            if (it.do === "wait") await clock.advance(it.ms);
            if (it.do === "forget") probe.forget(it.name);
            if (it.do === "fail") pods.failures.set(it.name, [{ kind: "unreachable" }]);
            if (it.do === "bind") {
              pods.on.set(it.name, [...(pods.on.get(it.name) ?? []), [it.pod]]);
              for (const ignored of [IGNORED, []]) {
                const key = `${it.name} ${ignored.join()}`;
                if (!ignored.includes(it.pod.split("/")[0] ?? "") && !busySince.has(key))
                  busySince.set(key, clock.monotonic());
              }
            }
            if (it.do !== "ask") continue;
            const answer = probe.idleOf(node(it.name, it.uid), it.ignored);
            if (answer === "unknown") continue;
            const since = busySince.get(`${it.name} ${it.ignored.join()}`);
            // Pods only come: busy stays true for ever, and idle was true when it was listed.
            if (!answer.idle && since === undefined) wrong.push("busy without a pod");
            if (answer.idle && since !== undefined && clock.monotonic() - since > ANSWER_MS + LIST_MS)
              wrong.push("idle for too long");
          }
          expect(wrong).toEqual([]);
          const asked = node("n1", "last");
          probe.idleOf(asked, IGNORED);
          for (let ms = 0; ms < 5_000 && probe.idleOf(asked, IGNORED) === "unknown"; ms += 100)
            await clock.advance(100);
          const isBusy = busySince.has(`n1 ${IGNORED.join()}`);
          expect(probe.idleOf(asked, IGNORED)).toMatchObject({ idle: !isBusy });
        }),
        run.parameters,
      );
    },
  );
});
