/** Node footprints for tests, read and compiled as those of users are. */

import type { SourceDocuments, SourceName } from "@berth/host";
import { type CompileFootprintsInput, compileFootprints } from "../compile.ts";
import { type NodeFootprintSpec, nodeFootprintSpec } from "../document.ts";
import type { Footprint, FootprintDocument, Footprints, NeedingPods } from "../footprint.ts";

/** By name of the document. */
export type Specs = Readonly<Record<string, NodeFootprintSpec>>;

/** Documents of one source. */
export function documentsOf(
  specs: Specs,
  source: SourceName = "cluster",
): SourceDocuments<FootprintDocument> {
  const documents = Object.entries(specs).map(([name, spec]) => ({
    name,
    spec: nodeFootprintSpec.parse(spec),
  }));
  return { source, documents };
}

/** Those of the cluster, compiled. */
export function footprintsOf(specs: Specs, more: Omit<CompileFootprintsInput, "sources"> = {}): Footprints {
  return compileFootprints({ sources: [documentsOf(specs)], ...more });
}

/** One footprint in force, `cluster/f`. @throws Error when it has a fault. */
export function footprintOf(spec: NodeFootprintSpec): Footprint {
  const { footprints, faults } = footprintsOf({ f: spec });
  const [footprint] = footprints;
  if (footprint === undefined) throw new Error(faults.map(({ message }) => message).join("; "));
  return footprint;
}

/** One that says no more than what pods need the agent: a label of its own, no claims, and one workload. */
export function plainFootprint(
  name: string,
  workload: Pick<NeedingPods, "podSelector"> & Partial<NeedingPods>,
  init: Partial<Footprint> = {},
): Footprint {
  const needing: NeedingPods = {
    namespaceSelector: {},
    requests: [],
    csiDrivers: [],
    ignorePhases: new Set(["Succeeded", "Failed"]),
    terminating: "Hold",
    ...workload,
  };
  return {
    rule: `config/${name}`,
    name,
    workloads: [needing],
    grouping: { by: "None" },
    label: { key: `example.com/${name}`, value: "true" },
    foreign: "Reclaim",
    releaseDelayMs: 0,
    ...init,
  };
}
