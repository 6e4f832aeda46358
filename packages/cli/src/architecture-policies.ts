import {
  type ArchitectureDocuments,
  type ArchitectureFault,
  type ArchitecturePolicies,
  type ArchitecturePolicy,
  type ArchitecturePolicySpec,
  architecturePolicySpec,
  type CompileArchitectureInput,
  compileArchitecture,
  declaredArchitecturePlaces,
  type MarkId,
  reasons,
} from "@berth/placement";
import type { Fault } from "./config/fault.ts";
import type { LocatedArchitecturePolicy } from "./config/settings.ts";
import { DocumentHub } from "./document-hub.ts";
import {
  type ClusterDocuments,
  clusterFaults,
  type DocumentFault,
  fileFaults,
  readClusterDocuments,
} from "./source-documents.ts";

/** The `ArchitecturePolicy` objects of a cluster, read. */
export type ClusterArchitecture = ClusterDocuments<ArchitecturePolicySpec>;

export function readClusterArchitecture(objects: Iterable<ArchitecturePolicy>): ClusterArchitecture {
  return readClusterDocuments(objects, architecturePolicySpec);
}

/** Policies of files and of the cluster; those of files come first. `undefined` while no source has been read. */
export function assembleArchitecture(
  config: readonly LocatedArchitecturePolicy[] | undefined,
  cluster: ArchitectureDocuments | undefined,
  more: Omit<CompileArchitectureInput, "sources"> = {},
): ArchitecturePolicies | undefined {
  const sources: ArchitectureDocuments[] = [];
  if (config !== undefined) sources.push({ source: "config", documents: config });
  if (cluster !== undefined) sources.push(cluster);
  return sources.length === 0 ? undefined : compileArchitecture({ ...more, sources });
}

/** What is wrong with the policies of files, where the file says it. */
export function architectureFaults(
  config: readonly LocatedArchitecturePolicy[],
  faults: readonly ArchitectureFault[],
): readonly Fault[] {
  return fileFaults(config, faults.map(toDocumentFault));
}

/** The same of the cluster, for a command that shows faults on the terminal. */
export function clusterArchitectureFaults(faults: readonly ArchitectureFault[]): readonly Fault[] {
  return clusterFaults("architecturepolicy", faults.map(toDocumentFault));
}

function toDocumentFault({ policy: name, ...fault }: ArchitectureFault): DocumentFault {
  return { ...fault, name };
}

/** @param onChange policies came into force or ceased to be. */
export function createArchitectureHub(
  onChange: (policies: ArchitecturePolicies) => void,
): DocumentHub<ArchitecturePolicySpec, ArchitecturePolicies> {
  /** What policies of this process have declared: the taint of one that is deleted has to come off. */
  const declared = new Set<MarkId>();
  return new DocumentHub({
    assemble({ config, cluster, unsettled, before }) {
      const policies = assembleArchitecture(config, cluster, {
        before: before?.policies ?? [],
        declaredBefore: declared,
        unsettled,
      });
      for (const id of policies === undefined ? [] : declaredArchitecturePlaces(policies)) declared.add(id);
      return policies;
    },
    faultsOf: ({ faults }) => faults.map(toDocumentFault),
    inForce: reasons.ArchitecturePolicyInForce,
    onChange,
  });
}
