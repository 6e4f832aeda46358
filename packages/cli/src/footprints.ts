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

export interface FootprintHubOptions {
  /** Footprints came into force or ceased to be. */
  readonly onChange: (footprints: Footprints) => void;
}

/**
 * Puts the footprints of all sources together, and says of each document what became of it. Until those of the cluster
 * have been read, or `settle` says that they will not be, one that is in no file is not taken for deleted: it may be there.
 */
export class FootprintHub {
  readonly #options: FootprintHubOptions;
  #config: readonly LocatedNodeFootprint[] | undefined;
  #cluster: ClusterFootprints | undefined;
  #footprints: Footprints | undefined;
  #isSettled = false;
  /** What footprints of this process have declared: the marks of one that is deleted have to come off. */
  #declared: MarkSet | undefined;

  constructor(options: FootprintHubOptions) {
    this.#options = options;
  }

  /** `undefined` until some source has been read. */
  get footprints(): Footprints | undefined {
    return this.#footprints;
  }

  setConfig(footprints: readonly LocatedNodeFootprint[] | undefined): void {
    this.#config = footprints;
    this.#refresh();
  }

  setCluster(footprints: ClusterFootprints): void {
    this.#cluster = footprints;
    this.#isSettled = true;
    this.#refresh();
  }

  /** It is gone on without those of the cluster. */
  settle(): void {
    this.#isSettled = true;
    this.#refresh();
  }

  /** What became of this version of a footprint of the cluster; `undefined` until it was taken over. */
  judgementOf(name: string, version: DocumentVersion): DocumentJudgement | undefined {
    const faults = (this.#footprints?.faults ?? []).map(toDocumentFault);
    return judge({ ...version, name }, this.#cluster, faults, () => ({
      ready: true,
      reason: reasons.FootprintInForce,
      message: "in force",
    }));
  }

  configFaults(): readonly Fault[] {
    return footprintFaults(this.#config ?? [], this.#footprints?.faults ?? []);
  }

  #refresh(): void {
    const declared = this.#declared;
    this.#footprints = assembleFootprints(this.#config, this.#cluster, {
      before: this.#footprints?.footprints ?? [],
      ...(declared && { declaredBefore: [declared] }),
      unsettled: !this.#isSettled,
    });
    if (this.#footprints === undefined) return;
    this.#declared = declaredFootprintPlaces(this.#footprints);
    this.#options.onChange(this.#footprints);
  }
}
