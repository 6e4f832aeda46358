import type { Fault } from "@berth/host";
import type { Reason, Unsettled } from "@berth/placement";
import type { LocatedSpec } from "./config/settings.ts";
import type { ClusterObjects } from "./document-follower.ts";
import type { DocumentKind, DocumentSources } from "./document-kind.ts";
import {
  type ClusterDocuments,
  type DocumentFault,
  type DocumentJudgement,
  type DocumentObject,
  type DocumentVersion,
  fileFaults,
  judge,
  readClusterDocuments,
} from "./source-documents.ts";

/** What is known of the documents of one kind. */
export interface KnownDocuments<S, T> extends DocumentSources<S> {
  /** Documents may be missing: those that are not known to be deleted are not taken for deleted. */
  readonly unsettled: Unsettled | undefined;
  /** What this process had in force last. */
  readonly before: T | undefined;
}

export interface DocumentHubOptions<S, T> {
  readonly kind: Pick<DocumentKind<S, T, never>, "schema" | "faultsOf">;
  /** Puts the sources together. Called for each change of one of them; `undefined` while none has been read. */
  readonly assemble: (known: KnownDocuments<S, T>) => T | undefined;
  /** Said of a document of the cluster without a fault. */
  readonly reason: Reason;
  /** What is said of it beside. Default nothing. */
  readonly remarks?: (name: string, inForce: T) => readonly string[];
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
  #isAway = false;
  #unsettled: Unsettled | undefined = "reading";

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

  /** `undefined`: their CRD is away, and it is not known which there should be. */
  setCluster(read: ClusterObjects<DocumentObject> | undefined): void {
    this.#cluster = read && readClusterDocuments(read.objects, this.#options.kind.schema);
    this.#isAway = read === undefined;
    this.#unsettled = read === undefined ? { deleted: new Set() } : read.unsettled;
    this.#refresh();
  }

  /** It is gone on without those of the cluster, or with what was read of them. */
  settle(): void {
    this.#unsettled = undefined;
    this.#refresh();
  }

  /** The same documents are put together again, and nobody is told: what else they depend on is another. */
  renew(): void {
    this.#inForce = this.#options.assemble({
      config: this.#config,
      cluster: this.#cluster,
      isAway: this.#isAway,
      unsettled: this.#unsettled,
      before: this.#inForce,
    });
  }

  /** What became of this version of a document of the cluster; `undefined` until it was taken over. */
  judgementOf(name: string, version: DocumentVersion): DocumentJudgement | undefined {
    const { reason, remarks } = this.#options;
    const said = this.#inForce && remarks?.(name, this.#inForce);
    return judge({ ...version, name }, this.#cluster, this.#faults(), () => ({
      ready: true,
      reason,
      message: ["in force", ...(said ?? [])].join("; "),
    }));
  }

  /** What is wrong with those of files, where the file says it. */
  configFaults(): readonly Fault[] {
    return fileFaults(this.#config ?? [], this.#faults());
  }

  #faults(): readonly DocumentFault[] {
    return this.#inForce === undefined ? [] : this.#options.kind.faultsOf(this.#inForce);
  }

  #refresh(): void {
    this.renew();
    if (this.#inForce !== undefined) this.#options.onChange(this.#inForce);
  }
}
