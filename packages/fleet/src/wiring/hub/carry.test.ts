import type { Patch } from "@berth/kube";
import type { ReconcileContext } from "@berth/runtime";
import { expect, it } from "vitest";
import type { WorkloadDeployment } from "../../api/workload.ts";
import { aCell, aFound, onHub } from "../../hub/testing/fixtures.ts";
import { carry } from "./carry.ts";
import { a, hubWorld } from "./testing/hub-world.ts";

const context = {
  signal: new AbortController().signal,
  log: { info: () => undefined },
} as unknown as ReconcileContext;
const key = { cluster: a, namespace: "ns-U", name: "w-us-dfw" };

it("CellMutates a spec that a webhook in the cell changes is sent once, and not again for ten minutes", async () => {
  const { cells, deployments, inCell, parts, clock } = hubWorld();
  Object.assign(parts.host, { metrics: { gauge: () => undefined } });
  const seen = aCell("a");
  cells.set(seen.cell);
  deployments.set(onHub({ min: 2 }));
  const present = { ...aFound(seen).deployment, ...withReplicas(7) };
  inCell.set(present);
  const sent: unknown[] = [];
  const patch = (_resource: object, _of: object, { body }: Patch & { readonly body: object }) => {
    sent.push(body);
    const stored = { ...present, metadata: { ...present.metadata, resourceVersion: `${sent.length}` } };
    inCell.set(stored);
    return Promise.resolve(stored);
  };
  Object.assign(parts.planes.cells.get(a)?.client ?? {}, { patch });
  const reconcile = carry(parts);
  await reconcile(key, context);
  expect(sent).toMatchObject([{ spec: { scaleSettings: { minReplicas: 2 } } }]);
  await clock.advance(1_000);
  expect([await reconcile(key, context), sent.length]).toEqual([{ recheckAfterMs: 599_000 }, 1]);
});

function withReplicas(minReplicas: number): Pick<WorkloadDeployment, "spec"> {
  const { spec } = onHub();
  return { ...(spec && { spec: { ...spec, scaleSettings: { minReplicas } } }) };
}
