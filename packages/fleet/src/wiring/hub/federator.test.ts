import type { ListOptions } from "@berth/kube";
import type { ReconcileContext } from "@berth/runtime";
import { expect, it } from "vitest";
import type { WorkloadDeployment } from "../../api/workload.ts";
import { aCell, aFound, aSource, onHub } from "../../hub/testing/fixtures.ts";
import { carryDecision } from "./carry.ts";
import { federator } from "./federator.ts";
import { placements } from "./placements.ts";
import { hub, hubWorld } from "./testing/hub-world.ts";

const context = {
  signal: new AbortController().signal,
  log: { info: () => undefined, warn: () => undefined },
} as unknown as ReconcileContext;
const inProject = { cluster: hub, namespace: "default", name: "w-us-dfw" };
const onTheHub = { cluster: hub, namespace: "ns-U", name: "w-us-dfw" };
const later = { annotations: { "compute.datumapis.com/source-generation": "2" } };

/** Hub and project agree on generation 1, and the cell has 2. @param now in the project, whatever its view shows. */
function aheadOfBoth(...now: readonly WorkloadDeployment[]) {
  const { cells, deployments, sources, inCell, parts, asked } = hubWorld();
  cells.set(aCell("a").cell);
  deployments.set(onHub({ min: 2 }));
  sources.set(aSource({ min: 2 }));
  inCell.set(aFound(aCell("a"), { min: 3, metadata: later }).deployment);
  const reads: string[] = [];
  // No `get`: in a project the hub has not the right to it.
  const list = (_: object, { namespace, fieldSelector }: ListOptions<never>) => {
    reads.push(`${namespace} ${fieldSelector}`);
    return Promise.resolve({ metadata: {}, items: now });
  };
  Object.assign(parts.planes.projects.get(hub)?.client ?? {}, { list });
  asked.length = 0;
  const [place, federate] = [placements(parts), federator(parts)];
  return {
    reads,
    asked,
    /** How often the cell would be patched, and when the federator looks again. */
    look: async () => {
      await place(onTheHub, context);
      const result = await federate(inProject, context);
      const { patch = [] } = carryDecision(parts, onHub({ min: 2 })).decision;
      return [patch.length, result?.recheckAfterMs];
    },
  };
}

it("an older generation comes to a cell after one uncached read that shows it in the project", async () => {
  const { look, reads, asked } = aheadOfBoth(aSource({ min: 2 }));
  expect([await look(), reads]).toEqual([[1, undefined], ["default metadata.name=w-us-dfw"]]);
  expect(asked).toContain("federator hub/default/w-us-dfw");
  expect(asked.at(-1)).toBe("carry a/ns-U/w-us-dfw");
  await look();
  expect(reads).toHaveLength(1);
});

it.each<[string, readonly WorkloadDeployment[]]>([
  ["has a later generation", [aSource({ metadata: { generation: 2 } })]],
  ["has another one of its name", [aSource({ metadata: { uid: "other" } })]],
  ["has it no more", []],
])("none comes to a cell while the project %s, and its view is behind", async (_, now) => {
  const { look, reads } = aheadOfBoth(...now);
  expect([await look(), await look(), reads.length]).toEqual([[0, 2_000], [0, 2_000], 2]);
});
