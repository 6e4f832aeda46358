import type { Reason } from "@berth/placement";
import type { Fault } from "./config/fault.ts";
import type { LocatedSpec } from "./config/settings.ts";
import {
  type ClusterDocuments,
  type DocumentFault,
  type DocumentJudgement,
  type DocumentVersion,
  fileFaults,
  judge,
} from "./source-documents.ts";

/** What is known of the documents of one kind. */
export interface DocumentSources<S, T> {
  /** `undefined` until they have been read. */
  readonly config: readonly LocatedSpec<S>[] | undefined;
  readonly cluster: ClusterDocuments<S> | undefined;
  /** Those of the cluster may be there and have not been read: none is taken for deleted. */
  readonly unsettled: boolean;
  /** What this process had in force last. */
  readonly before: T | undefined;
}

export interface DocumentHubOptions<S, T> {
  /** Puts the sources together. Called for each change of one of them; `undefined` while none has been read. */
  readonly assemble: (sources: DocumentSources<S, T>) => T | undefined;
  readonly faultsOf: (inForce: T) => readonly DocumentFault[];
  /** Said of a document without a fault. */
  readonly inForce: Reason;
  /** Documents came into force or ceased to be. */
  readonly onChange: (inForce: T) => void;
}

/**
 * Puts the documents of one kind of all sources together, and says of each what became of it. Until those of the cluster
 * have been read, or `settle` says that they will not be, one that is in no file is not taken for deleted: it may be there.
 */
export class DocumentHub<S, T> {
  readonly #options: DocumentHubOptions<S, T>;
  #config: readonly LocatedSpec<S>[] | undefined;
  #cluster: ClusterDocuments<S> | undefined;
  #inForce: T | undefined;
  #isSettled = false;

  constructor(options: DocumentHubOptions<S, T>) {
    this.#options = options;
  }

  /** `undefined` until some source has been read. */
  get inForce(): T | undefined {
    return this.#inForce;
  }

  setConfig(documents: readonly LocatedSpec<S>[] | undefined): void {
    this.#config = documents;
    this.#refresh();
  }

  setCluster(documents: ClusterDocuments<S>): void {
    this.#cluster = documents;
    this.settle();
  }

  /** It is gone on without those of the cluster, or with what was read of them. */
  settle(): void {
    this.#isSettled = true;
    this.#refresh();
  }

  /** What became of this version of a document of the cluster; `undefined` until it was taken over. */
  judgementOf(name: string, version: DocumentVersion): DocumentJudgement | undefined {
    const { inForce: reason } = this.#options;
    return judge({ ...version, name }, this.#cluster, this.#faults(), () => ({
      ready: true,
      reason,
      message: "in force",
    }));
  }

  /** What is wrong with those of files, where the file says it. */
  configFaults(): readonly Fault[] {
    return fileFaults(this.#config ?? [], this.#faults());
  }

  #faults(): readonly DocumentFault[] {
    return this.#inForce === undefined ? [] : this.#options.faultsOf(this.#inForce);
  }

  #refresh(): void {
    this.#inForce = this.#options.assemble({
      config: this.#config,
      cluster: this.#cluster,
      unsettled: !this.#isSettled,
      before: this.#inForce,
    });
    if (this.#inForce !== undefined) this.#options.onChange(this.#inForce);
  }
}
