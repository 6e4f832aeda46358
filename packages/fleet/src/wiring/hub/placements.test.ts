import type { ReconcileContext } from "@berth/runtime";
import { expect, it } from "vitest";
import { aCell, aFound, onHub } from "../../hub/testing/fixtures.ts";
import { placements } from "./placements.ts";
import { hub, hubWorld } from "./testing/hub-world.ts";

const key = { cluster: hub, namespace: "ns-U", name: "w-us-dfw" };
const context = {
  signal: new AbortController().signal,
  log: { info: () => undefined },
} as unknown as ReconcileContext;
const counts = { currentReplicas: 2, updatedReplicas: 2, desiredReplicas: 2, readyReplicas: 2 };

it("a cell that says something new without end gets ten writes at once, and one in a second", async () => {
  const { cells, deployments, inCell, parts, patches, clock } = hubWorld();
  const reconcile = placements(parts);
  const seen = aCell("a");
  cells.set(seen.cell);
  const { deployment } = aFound(seen);
  const say = async (replicas: number) => {
    inCell.set({ ...deployment, status: { ...counts, replicas } });
    const result = await reconcile(key, context);
    deployments.set({
      ...onHub(),
      ...patches.at(-1),
      metadata: { ...onHub().metadata, resourceVersion: `${patches.length}` },
    });
    return result;
  };
  deployments.set(onHub());
  for (let at = 1; at <= 50; at += 1) await say(at);
  expect(patches).toHaveLength(10);
  expect(await say(51)).toEqual({ recheckAfterMs: 1_000 });
  await clock.advance(1_000);
  await say(52);
  expect(patches.at(-1)).toMatchObject({ status: { replicas: 52 } });
});

it("numbers are marked that the cell has lost, while another one may have them", async () => {
  const { cells, deployments, parts, patches } = hubWorld();
  cells.set(aCell("a").cell);
  cells.set(aCell("b").cell);
  deployments.set(onHub({ status: { ...counts, replicas: 2, observedGeneration: 1 } }));
  await placements(parts)(key, context);
  expect(patches).toMatchObject([
    { status: { readyReplicas: 2, unheard: 2, conditions: [{ type: "Stale", reason: "CellsNotRead" }] } },
  ]);
});
