import type { ServedKind } from "./document-kind.ts";
import type { Fault } from "./fault.ts";
import type { ClusterObjects } from "./follow-cluster.ts";
import type { Document, LocatedDocument } from "./read-documents.ts";
import {
  type ClusterDocuments,
  type DocumentFault,
  type DocumentResult,
  type DocumentVersion,
  fileFaults,
  readClusterDocuments,
  type SourceDocuments,
  type SourceName,
  textOf,
  type Unsettled,
} from "./sources.ts";

/** What is known of the documents of one kind. */
export interface KnownDocuments<S, T> {
  /** Those that were read. Files come first and win over the cluster. */
  readonly sources: readonly SourceDocuments<Document<S>>[];
  readonly cluster: ClusterDocuments<S> | undefined;
  /** Documents may be missing: those that are not known to be deleted are not taken for deleted. */
  readonly unsettled: Unsettled | undefined;
  /** What was in force until now. */
  readonly before: T | undefined;
}

/** How the documents of one kind come into force. `S` is the spec of one, `T` what all of them make. */
export interface DocumentRules<S, T> {
  readonly kind: ServedKind<S>;
  /** Total: a document with a fault is reported, and the others are in force. */
  readonly compile: (known: KnownDocuments<S, T>) => T;
  readonly faultsOf: (inForce: T) => readonly DocumentFault[];
  /** What became of a document of the cluster without a fault; `undefined` while it is not known. */
  readonly resultOf: (document: Document<S>, inForce: T) => DocumentResult | undefined;
  /** There is something in force without any document. Default: there is not. */
  readonly hasMore?: () => boolean;
  /** The text of a fault in a file. Default: with the field. */
  readonly describe?: (fault: DocumentFault) => string;
}

/** The documents of one kind by source; `undefined` is a source that has not been read, which is never an empty one. */
export interface SourcesRead<S> {
  readonly config: readonly LocatedDocument<S>[] | undefined;
  readonly cluster: ClusterDocuments<S> | undefined;
  readonly unsettled?: Unsettled | undefined;
  /** Those of the cluster are not known because their CRD is away: Berth goes on without. Default false. */
  readonly isAway?: boolean;
}

/** What all documents make. `undefined` while no source has been read. */
export function compileDocuments<S, T>(
  { compile, hasMore }: DocumentRules<S, T>,
  { config, cluster, unsettled, isAway = false }: SourcesRead<S>,
  before: T | undefined,
): T | undefined {
  const sources: SourceDocuments<Document<S>>[] = [];
  if (config !== undefined) sources.push({ source: "config", documents: config });
  if (cluster !== undefined) sources.push(cluster);
  const isRead = sources.length > 0 || isAway || hasMore?.() === true;
  return isRead ? compile({ sources, cluster, unsettled, before }) : undefined;
}

/**
 * Puts the documents of one kind of files and of the cluster together, and gives the result of each. Until those of the
 * cluster have been read, or `settle` says that they will not be, one that is in no file is not taken for deleted.
 */
export class DocumentSource<S, T> {
  readonly #rules: DocumentRules<S, T>;
  readonly #onChange: (inForce: T) => void;
  #read: SourcesRead<S> = { config: undefined, cluster: undefined, unsettled: "reading" };
  #inForce: T | undefined;

  /** @param onChange documents came into force or ceased to be. */
  constructor(rules: DocumentRules<S, T>, onChange: (inForce: T) => void) {
    this.#rules = rules;
    this.#onChange = onChange;
  }

  /** `undefined` until some source has been read. */
  get inForce(): T | undefined {
    return this.#inForce;
  }

  /** The documents of the cluster are known. */
  get clusterRead(): boolean {
    return this.#read.cluster !== undefined;
  }

  setConfig(config: readonly LocatedDocument<S>[] | undefined): void {
    this.#read = { ...this.#read, config };
    this.refresh();
  }

  /** `undefined`: their CRD is away, and it is not known which there should be. */
  setCluster(read: ClusterObjects | undefined): void {
    this.#read = {
      config: this.#read.config,
      cluster: read && readClusterDocuments(this.#rules.kind, read.objects),
      unsettled: read === undefined ? { deleted: new Set() } : read.unsettled,
      isAway: read === undefined,
    };
    this.refresh();
  }

  /** Berth goes on without those of the cluster, or with what was read of them. */
  settle(): void {
    this.#read = { ...this.#read, unsettled: undefined };
    this.refresh();
  }

  /** Compiles the same documents again without `onChange`: something else that they depend on has changed. */
  renew(): void {
    this.#inForce = compileDocuments(this.#rules, this.#read, this.#inForce);
  }

  refresh(): void {
    this.renew();
    if (this.#inForce !== undefined) this.#onChange(this.#inForce);
  }

  /** Names of the documents of files. */
  get files(): readonly string[] {
    return (this.#read.config ?? []).map(({ name }) => name);
  }

  /** What became of a document of files; `undefined` until it was compiled, and of one that is not there. */
  resultOfFile(name: string): DocumentResult | undefined {
    const document = this.#read.config?.find((it) => it.name === name);
    return document && this.#resultOf("config", document);
  }

  /** What became of this version of a document of the cluster; `undefined` until it was compiled. */
  resultOf(name: string, { uid, generation }: DocumentVersion): DocumentResult | undefined {
    const { cluster } = this.#read;
    const { metadata } = cluster?.objects.get(name) ?? {};
    if (metadata === undefined || metadata.uid !== uid || metadata.generation !== generation)
      return undefined;
    return this.#resultOf("cluster", cluster?.documents.find((it) => it.name === name) ?? { name });
  }

  /** @param document with its name alone when it does not fit the schema, which is a fault. */
  #resultOf(source: SourceName, document: Document<S> | Pick<Document, "name">): DocumentResult | undefined {
    const { name } = document;
    const fault = this.#faults().find((it) => it.source === source && it.name === name && isError(it));
    if (fault !== undefined) return { ready: false, reason: fault.reason, message: textOf(fault) };
    return this.#inForce && "spec" in document ? this.#rules.resultOf(document, this.#inForce) : undefined;
  }

  /** Faults of documents of files, each with its place. */
  configFaults(): readonly Fault[] {
    return fileFaults(this.#read.config ?? [], this.#faults(), this.#rules.describe);
  }

  #faults(): readonly DocumentFault[] {
    return this.#inForce === undefined ? [] : this.#rules.faultsOf(this.#inForce);
  }
}

function isError({ severity = "error" }: DocumentFault): boolean {
  return severity === "error";
}
