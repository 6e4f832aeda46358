import type { KubeObject } from "@berth/kube";
import type { ReconcileContext } from "@berth/runtime";
import { expect, it } from "vitest";
import type { Instance } from "../../api/workload.ts";
import { aCell, aFound, onHub } from "../../hub/testing/fixtures.ts";
import { instance } from "../../hub/testing/instances.ts";
import { collect } from "./collect.ts";
import { a, hubWorld } from "./testing/hub-world.ts";
import { Objects } from "./testing/objects.ts";

const context = {
  signal: new AbortController().signal,
  log: { info: () => undefined },
} as unknown as ReconcileContext;
const key = { cluster: a, namespace: "ns-U", name: "w-us-dfw-0" };

it("a cell that has used up its rate for others waits with its Instances too", async () => {
  const { cells, deployments, inCell, parts, clock } = hubWorld();
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
  const reconcile = collect(parts);
  while (parts.cellPace.take("uid-a") === 0);
  expect([await reconcile(key, context), made]).toEqual([{ recheckAfterMs: 5_000 }, []]);
  await clock.advance(5_000);
  await reconcile(key, context);
  expect(made).toMatchObject([{ kind: "Instance", metadata: { name: key.name } }]);
});
