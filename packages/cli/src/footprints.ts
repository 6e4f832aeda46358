import {
  type CompileFootprintsInput,
  compileFootprints,
  declaredFootprintPlaces,
  type FootprintDocuments,
  type FootprintFault,
  type Footprints,
  type MarkSet,
  type NodeFootprint,
  type NodeFootprintSpec,
  nodeFootprintSpec,
  reasons,
} from "@berth/placement";
import type { Fault } from "./config/fault.ts";
import type { LocatedNodeFootprint } from "./config/settings.ts";
import { DocumentHub } from "./document-hub.ts";
import {
  type ClusterDocuments,
  clusterFaults,
  type DocumentFault,
  fileFaults,
  readClusterDocuments,
} from "./source-documents.ts";

/** The `NodeFootprint` objects of a cluster, read. */
export type ClusterFootprints = ClusterDocuments<NodeFootprintSpec>;

export function readClusterFootprints(objects: Iterable<NodeFootprint>): ClusterFootprints {
  return readClusterDocuments(objects, nodeFootprintSpec);
}

/** Footprints of files and of the cluster; those of files come first. `undefined` while no source has been read. */
export function assembleFootprints(
  config: readonly LocatedNodeFootprint[] | undefined,
  cluster: FootprintDocuments | undefined,
  more: Omit<CompileFootprintsInput, "sources"> = {},
): Footprints | undefined {
  const sources: FootprintDocuments[] = [];
  if (config !== undefined) sources.push({ source: "config", documents: config });
  if (cluster !== undefined) sources.push(cluster);
  return sources.length === 0 ? undefined : compileFootprints({ ...more, sources });
}

/** What is wrong with the footprints of files, where the file says it. */
export function footprintFaults(
  config: readonly LocatedNodeFootprint[],
  faults: readonly FootprintFault[],
): readonly Fault[] {
  return fileFaults(config, faults.map(toDocumentFault));
}

/** The same of the cluster, for a command that shows faults on the terminal. */
export function clusterFootprintFaults(faults: readonly FootprintFault[]): readonly Fault[] {
  return clusterFaults("nodefootprint", faults.map(toDocumentFault));
}

function toDocumentFault({ footprint: name, ...fault }: FootprintFault): DocumentFault {
  return { ...fault, name };
}

/** @param onChange footprints came into force or ceased to be. */
export function createFootprintHub(
  onChange: (footprints: Footprints) => void,
): DocumentHub<NodeFootprintSpec, Footprints> {
  /** What footprints of this process have declared: the marks of one that is deleted have to come off. */
  let declared: readonly MarkSet[] = [];
  return new DocumentHub({
    assemble({ config, cluster, unsettled, before }) {
      const footprints = assembleFootprints(config, cluster, {
        before: before?.footprints ?? [],
        declaredBefore: declared,
        unsettled,
      });
      if (footprints !== undefined) declared = [declaredFootprintPlaces(footprints)];
      return footprints;
    },
    faultsOf: ({ faults }) => faults.map(toDocumentFault),
    inForce: reasons.FootprintInForce,
    onChange,
  });
}
