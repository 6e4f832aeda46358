/** Random histories of a log, read by informers that share watches, come and go, and are refused, on a virtual clock. */
import type { ApiFailure, KubeObject } from "@berth/kube";
import * as fc from "fast-check";
import { describe, expect, it } from "vitest";
import { createVirtualClock } from "../clock.ts";
import { createSilentLogger } from "../json-log.ts";
import { clusterName } from "../key.ts";
import { Observer } from "../testing/informer-observer.ts";
import { randomFrom, seededRun, steps } from "../testing/property.ts";
import { connectSelecting } from "../testing/selected-log.ts";
import { type Thing, things } from "../testing/things.ts";
import { VersionLog } from "../testing/version-log.ts";
import { createSharedInformers } from "./shared-informers.ts";

const phaseOf = (object: KubeObject): unknown => ("phase" in object ? object.phase : undefined);
/** Field selectors, written out by hand, from wide to narrow. The last two overlap, and neither includes the other. */
const SCOPES: Readonly<Record<string, (object: KubeObject) => boolean>> = {
  "": () => true,
  "status.phase!=blue": (it) => phaseOf(it) !== "blue",
  "status.phase=red": (it) => phaseOf(it) === "red",
  "status.phase=green": (it) => phaseOf(it) === "green",
  "status.phase!=green": (it) => phaseOf(it) !== "green",
};
const SELECTORS = Object.keys(SCOPES);
const selection = (selector: string): ((object: KubeObject) => boolean) => SCOPES[selector] ?? (() => false);

const name = fc.constantFrom("a", "b", "c", "d");
const selector = fc.constantFrom(...SELECTORS);
const failure = fc.constantFrom<ApiFailure>(
  { kind: "unreachable" },
  { kind: "expired" },
  { kind: "forbidden" },
);
const step = fc.oneof(
  steps(8, ["write", "write", "remove"], { name, phase: fc.constantFrom("red", "green", "blue") }),
  steps(5, ["join", "join", "leave"], { selector }),
  steps(2, ["refuse", "allow"], { selector }),
  steps(3, ["cut", "fail next"], { failure }),
  steps(2, ["end", "forget"], {}),
  steps(5, ["wait"], { ms: fc.constantFrom(1, 15, 25, 300, 2_000, 40_000) }),
);
type Step = typeof step extends fc.Arbitrary<infer S> ? S : never;
const setting = fc.record({
  latencyMs: fc.constantFrom(0, 15, 400),
  refusesStreams: fc.constantFrom(false, false, true),
  seed: fc.nat(),
});
type Setting = typeof setting extends fc.Arbitrary<infer S> ? S : never;

async function violationsOf(
  history: readonly Step[],
  { seed, ...server }: Setting,
): Promise<readonly string[]> {
  const clock = createVirtualClock();
  const log = new VersionLog({ ...server, clock });
  const refused = new Set<string>();
  const client = connectSelecting(log, selection, { refused });
  const cluster = clusterName("c");
  const shared = createSharedInformers({ client, cluster, clock, random: randomFrom(seed) });
  const running = new Map<string, Observer[]>();
  const found: string[] = [];
  const join = (fieldSelector: string): void => {
    const observer = new Observer(log, {
      clock,
      selects: selection(fieldSelector),
      inform: (indexes) =>
        shared.informer<Thing>({
          resource: things,
          scope: { ...(fieldSelector && { fieldSelector }) },
          indexes,
          project: (thing) => thing,
          log: createSilentLogger(),
        }).informer,
    });
    observer.start();
    running.set(fieldSelector, [...(running.get(fieldSelector) ?? []), observer]);
  };
  const leave = async (fieldSelector: string): Promise<void> => {
    const [first, ...others] = running.get(fieldSelector) ?? [];
    running.set(fieldSelector, others);
    await first?.stop();
    found.push(...(first?.violations ?? []));
  };
  const observers = (): readonly Observer[] => [...running.values()].flat();
  for (const [index, it] of history.entries()) {
    if (it.do === "write")
      log.write(it.name, { colour: it.phase, phase: it.phase, status: { phase: it.phase } });
    if (it.do === "remove") log.remove(it.name);
    if (it.do === "join") join(it.selector);
    if (it.do === "leave") await leave(it.selector);
    if (it.do === "refuse") refused.add(it.selector);
    if (it.do === "allow") refused.delete(it.selector);
    if (it.do === "cut") log.cut(it.failure);
    if (it.do === "fail next") log.failNext(it.failure);
    if (it.do === "end") log.end();
    if (it.do === "forget") log.forget();
    await clock.advance(it.do === "wait" ? it.ms : 0);
    for (const observer of observers()) observer.look(`after step ${index} (${it.do})`);
  }
  log.heal();
  await clock.advance(600_000);
  for (const [it, those] of running)
    if (!refused.has(it) && those.some(({ informer }) => !informer.synced))
      found.push(`${it} waits for a watch that is refused`);
  refused.clear();
  log.write("last", { colour: "red", phase: "red", status: { phase: "red" } });
  await clock.advance(600_000);
  for (const observer of observers()) found.push(...observer.finish());
  const wanted = SELECTORS.filter((it) => (running.get(it)?.length ?? 0) > 0);
  const needed = watchesFor(wanted);
  if (log.openStreams !== needed) found.push(`${log.openStreams} watches for ${wanted.join(" and ")}`);
  for (const observer of observers()) await observer.stop();
  if (log.openStreams > 0) found.push("a stream was left open");
  return found;
}

/** How many watches serve these scopes, counted on the objects. */
function watchesFor(wanted: readonly string[]): number {
  const all = ["red", "green", "blue"].map((phase) => ({ phase }) as KubeObject);
  const selected = (it: string): ReadonlySet<KubeObject> => new Set(all.filter(selection(it)));
  return wanted.filter((one) => !wanted.some((it) => it !== one && selected(one).isSubsetOf(selected(it))))
    .length;
}

describe("informers that share watches, on any history with any faults", () => {
  const run = seededRun(400, process.env);
  it(
    `each show the states of their scope, forward only, and end with the truth over the fewest watches (${run.name})`,
    run.options,
    async () => {
      await fc.assert(
        fc.asyncProperty(fc.array(step, { maxLength: 30, size: "max" }), setting, async (history, server) => {
          expect(await violationsOf(history, server)).toEqual([]);
        }),
        run.parameters,
      );
    },
  );
});
