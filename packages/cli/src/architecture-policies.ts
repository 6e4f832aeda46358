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
import {
  type ClusterDocuments,
  clusterFaults,
  type DocumentFault,
  type DocumentJudgement,
  type DocumentVersion,
  fileFaults,
  judge,
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

export interface ArchitectureHubOptions {
  /** Policies came into force or ceased to be. */
  readonly onChange: (policies: ArchitecturePolicies) => void;
}

/**
 * Puts the policies of all sources together, and says of each document what became of it. Until those of the cluster have
 * been read, or `settle` says that they will not be, one that is in no file is not taken for deleted: it may be there.
 */
export class ArchitectureHub {
  readonly #options: ArchitectureHubOptions;
  #config: readonly LocatedArchitecturePolicy[] | undefined;
  #cluster: ClusterArchitecture | undefined;
  #policies: ArchitecturePolicies | undefined;
  #isSettled = false;
  /** What policies of this process have declared: the taint of one that is deleted has to come off. */
  readonly #declared = new Set<MarkId>();

  constructor(options: ArchitectureHubOptions) {
    this.#options = options;
  }

  /** `undefined` until some source has been read. */
  get policies(): ArchitecturePolicies | undefined {
    return this.#policies;
  }

  setConfig(policies: readonly LocatedArchitecturePolicy[] | undefined): void {
    this.#config = policies;
    this.#refresh();
  }

  setCluster(policies: ClusterArchitecture): void {
    this.#cluster = policies;
    this.#isSettled = true;
    this.#refresh();
  }

  /** It is gone on without those of the cluster. */
  settle(): void {
    this.#isSettled = true;
    this.#refresh();
  }

  /** What became of this version of a policy of the cluster; `undefined` until it was taken over. */
  judgementOf(name: string, version: DocumentVersion): DocumentJudgement | undefined {
    const faults = (this.#policies?.faults ?? []).map(toDocumentFault);
    return judge({ ...version, name }, this.#cluster, faults, () => ({
      ready: true,
      reason: reasons.ArchitecturePolicyInForce,
      message: "in force",
    }));
  }

  configFaults(): readonly Fault[] {
    return architectureFaults(this.#config ?? [], this.#policies?.faults ?? []);
  }

  #refresh(): void {
    this.#policies = assembleArchitecture(this.#config, this.#cluster, {
      before: this.#policies?.policies ?? [],
      declaredBefore: this.#declared,
      unsettled: !this.#isSettled,
    });
    if (this.#policies === undefined) return;
    for (const id of declaredArchitecturePlaces(this.#policies)) this.#declared.add(id);
    this.#options.onChange(this.#policies);
  }
}
