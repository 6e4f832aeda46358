import type { KubeObject } from "@berth/kube";
import type { ReconcileContext } from "@berth/runtime";
import { expect, it } from "vitest";
import type { Instance } from "../../api/workload.ts";
import { aCell, aFound, onHub } from "../../hub/testing/fixtures.ts";
import { copy, instance } from "../../hub/testing/instances.ts";
import { collect } from "./collect.ts";
import { a, hubWorld } from "./testing/hub-world.ts";
import { Objects } from "./testing/objects.ts";

const context = {
  signal: new AbortController().signal,
  log: { info: () => undefined },
} as unknown as ReconcileContext;
const key = { cluster: a, namespace: "ns-U", name: "w-us-dfw-0" };

/** One Instance in a cell, and what is written for its copy. */
function world() {
  const { cells, deployments, inCell, copies, parts, clock, patches } = hubWorld();
  const inCells = new Objects<Instance>(a);
  Object.assign(parts.planes.views.cell, { instances: inCells.view });
  const made: KubeObject[] = [];
  const create = (_resource: object, body: KubeObject): Promise<KubeObject> =>
    Promise.resolve((made.push(body), body));
  Object.assign(parts, { hubClient: { server: "hub", create } });
  const seen = aCell("a");
  cells.set(seen.cell);
  deployments.set(onHub());
  inCell.set(aFound(seen).deployment);
  inCells.set(instance);
  return { inCells, copies, parts, clock, patches, made, reconcile: collect(parts) };
}

it("a cell that has used up its rate for others waits with its Instances too", async () => {
  const { parts, clock, made, reconcile } = world();
  while (parts.cellPace.take("uid-a") === 0);
  expect([await reconcile(key, context), made]).toEqual([{ recheckAfterMs: 5_000 }, []]);
  await clock.advance(5_000);
  await reconcile(key, context);
  expect(made).toMatchObject([{ kind: "Instance", metadata: { name: key.name } }]);
});

it("an Instance whose status never rests gets twelve writes at once, and one in six seconds", async () => {
  const { inCells, copies, clock, patches, reconcile } = world();
  const say = async (at: number) => {
    inCells.set({ ...instance, status: { controller: { observedTemplateHash: `v1-${at}` } } });
    copies.set({ ...copy, ...patches.at(-1), metadata: { ...copy.metadata, resourceVersion: `${at}` } });
    return reconcile(key, context);
  };
  for (let at = 1; at <= 30; at += 1) await say(at);
  expect([patches.length, await say(31)]).toEqual([12, { recheckAfterMs: 6_000 }]);
  await clock.advance(6_000);
  await say(32);
  expect(patches).toHaveLength(13);
});
