import type { ReconcileContext } from "@berth/runtime";
import { expect, it } from "vitest";
import { formatPlacement } from "../../api/placement.ts";
import { recordAnnotations } from "../../hub/source.ts";
import { aCell, aFound, aPlacement, aSource, going, onHub, signer } from "../../hub/testing/fixtures.ts";
import { placements } from "./placements.ts";
import { hub, hubWorld } from "./testing/hub-world.ts";

const key = { cluster: hub, namespace: "ns-U", name: "w-us-dfw" };
const context = {
  signal: new AbortController().signal,
  log: { info: () => undefined, warn: () => undefined },
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

it("a cell that has used up its rate for others waits, and then gets one write", async () => {
  const { cells, deployments, inCell, parts, patches, clock } = hubWorld();
  const reconcile = placements(parts);
  const seen = aCell("a");
  cells.set(seen.cell);
  deployments.set(onHub());
  inCell.set({ ...aFound(seen).deployment, status: { ...counts, replicas: 2 } });
  while (parts.cellPace.take("uid-a") === 0);
  expect([await reconcile(key, context), patches]).toEqual([{ recheckAfterMs: 5_000 }, []]);
  await clock.advance(5_000);
  await reconcile(key, context);
  expect([patches.length, parts.cellPace.wait("uid-b")]).toEqual([1, 0]);
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

const recorded = recordAnnotations(aSource(), formatPlacement(aPlacement()), signer);
const old = { ...counts, replicas: 2, observedGeneration: 1 };

it("numbers are marked while the cell refuses the deployment as it is now", async () => {
  const { cells, deployments, inCell, parts, patches } = hubWorld();
  const seen = aCell("a");
  cells.set(seen.cell);
  deployments.set(onHub({ status: old }));
  inCell.set({ ...aFound(seen).deployment, status: { ...counts, replicas: 2 } });
  parts.memory.refused("hub-wd", "denied by a webhook");
  await placements(parts)(key, context);
  const stale = { type: "Stale", status: "True", reason: "CellRefuses", message: "denied by a webhook" };
  expect(patches).toMatchObject([{ status: { readyReplicas: 2, conditions: [stale] } }]);
});

it("numbers are marked when the hub refuses those of the cell", async () => {
  const { cells, deployments, inCell, parts, patches, refuse } = hubWorld();
  const seen = aCell("a");
  cells.set(seen.cell);
  deployments.set(onHub({ status: old }));
  inCell.set({ ...aFound(seen).deployment, status: { ...counts, replicas: 3 } });
  refuse((patch) =>
    (patch as { status?: { replicas?: number } }).status?.replicas === 3
      ? { kind: "invalid", causes: [{ field: "status.replicas", message: "no" }] }
      : undefined,
  );
  await placements(parts)(key, context);
  expect(patches).toMatchObject([
    { status: { replicas: 2, unheard: 2, conditions: [{ type: "Stale", reason: "StatusRefused" }] } },
  ]);
});

it("numbers come home when another write fails", async () => {
  const { cells, deployments, inCell, parts, patches, refuse, sources } = hubWorld();
  const seen = aCell("a");
  cells.set(seen.cell);
  deployments.set(onHub({ status: old, metadata: going }));
  sources.set(aSource({ metadata: { annotations: { ...aSource().metadata?.annotations, ...recorded } } }));
  inCell.set({ ...aFound(seen).deployment, status: { ...counts, replicas: 3 } });
  refuse(({ metadata }) => (metadata?.finalizers ? { kind: "serverError", status: 500 } : undefined));
  await expect(placements(parts)(key, context)).rejects.toThrow("500");
  expect(patches).toMatchObject([{ status: { replicas: 3 } }]);
});

it("a deployment of a project is not taken for one of the hub by what its users write on it", async () => {
  const { cells, deployments, hubNamespaces, parts, asked } = hubWorld();
  const seen = aCell("a");
  cells.set({ ...seen.cell, metadata: { ...seen.cell.metadata, ...going } });
  for (const namespace of ["team", "ns-team"]) {
    hubNamespaces.set({ metadata: { name: namespace, uid: "team" } });
    deployments.set(onHub({ metadata: { ...onHub().metadata, namespace } }));
    asked.length = 0;
    await placements(parts)({ ...key, namespace }, context);
    expect([asked, parts.know.placedIn("uid-a")]).toEqual([[], []]);
  }
});

it("why a deployment cannot leave its cell stays until it is its turn again", async () => {
  const { cells, deployments, inCell, parts, patches } = hubWorld();
  const drained = aCell("a", { spec: { drain: true } });
  cells.set(drained.cell);
  inCell.set({ ...aFound(drained).deployment, status: { ...counts, replicas: 2 } });
  deployments.set(onHub({ status: old }));
  await placements(parts)(key, context);
  const why = { type: "Moving", status: "False", reason: "NoOtherCell" };
  expect(patches).toMatchObject([{ status: { conditions: [why] } }]);
  const told = { ...onHub(), ...patches[0] };
  deployments.set({ ...told, metadata: { ...onHub().metadata, resourceVersion: "2" } });
  for (const name of Array.from({ length: 10 }, (_, at) => `other-${at}`))
    parts.moves.begins({ ...key, name });
  await placements(parts)(key, context);
  expect(patches).toHaveLength(1);
});
