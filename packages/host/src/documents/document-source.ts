import type { DocumentObject, ServedKind } from "./document-kind.ts";
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

/** The input of compiling the documents of one kind. */
export interface KnownDocuments<S, T> {
  /** The sources that were read. Files come first, and win over the cluster. */
  readonly sources: readonly SourceDocuments<Document<S>>[];
  readonly cluster: ClusterDocuments<S> | undefined;
  /** Set when documents may be missing. A missing document then counts as deleted only if it is known to be deleted. */
  readonly unsettled: Unsettled | undefined;
  /** The last result. */
  readonly before: T | undefined;
}

/** How the documents of one kind come into force. `S` is the spec of one, `T` the compiled form of all. */
export interface DocumentRules<S, T> {
  readonly kind: ServedKind<S>;
  /** Total: reports each document with a fault, and puts the others in force. */
  readonly compile: (known: KnownDocuments<S, T>) => T;
  readonly faultsOf: (inForce: T) => readonly DocumentFault[];
  /** The result of a document of the cluster without a fault; `undefined` while it is not known. */
  readonly resultOf: (document: Document<S>, inForce: T) => DocumentResult | undefined;
  /** Can something be in force without any document? Default: no. */
  readonly hasMore?: () => boolean;
  /** The message of a fault in a file. Default: the field and the message. */
  readonly describe?: (fault: DocumentFault) => string;
  /** Compiles documents of which one is not stored yet. Default: `compile`, if that remembers nothing. */
  readonly tryOut?: (known: KnownDocuments<S, T>) => T;
}

/** The documents of one kind by source. `undefined`: the source was not read, which differs from an empty source. */
export interface SourcesRead<S> {
  readonly config: readonly LocatedDocument<S>[] | undefined;
  readonly cluster: ClusterDocuments<S> | undefined;
  readonly unsettled?: Unsettled | undefined;
  /** True when the CRD is not served, so Berth continues without the cluster's documents. Default false. */
  readonly isAway?: boolean;
}

/** Compiles all documents. Returns `undefined` while no source has been read. */
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
 * Combines the documents of one kind from files and from the cluster, and keeps the result of each. A document that
 * is in no file counts as deleted only after the cluster was read, or after `settle`.
 */
export class DocumentSource<S, T> {
  readonly #rules: DocumentRules<S, T>;
  readonly #onChange: (inForce: T) => void;
  #read: SourcesRead<S> = { config: undefined, cluster: undefined, unsettled: "reading" };
  #inForce: T | undefined;

  /** @param onChange called when documents came into force or ceased to be. */
  constructor(rules: DocumentRules<S, T>, onChange: (inForce: T) => void) {
    this.#rules = rules;
    this.#onChange = onChange;
  }

  /** `undefined` until some source has been read. */
  get inForce(): T | undefined {
    return this.#inForce;
  }

  /** Have the documents of the cluster been read? */
  get clusterRead(): boolean {
    return this.#read.cluster !== undefined;
  }

  setConfig(config: readonly LocatedDocument<S>[] | undefined): void {
    this.#read = { ...this.#read, config };
    this.refresh();
  }

  /** @param read `undefined`: the CRD is not served, so the objects are not known. */
  setCluster(read: ClusterObjects | undefined): void {
    this.#read = {
      config: this.#read.config,
      cluster: read && readClusterDocuments(this.#rules.kind, read.objects),
      unsettled: read === undefined ? { deleted: new Set() } : read.unsettled,
      isAway: read === undefined,
    };
    this.refresh();
  }

  /** Berth stops waiting for the documents of the cluster, and continues with what it has read. */
  settle(): void {
    this.#read = { ...this.#read, unsettled: undefined };
    this.refresh();
  }

  /** Compiles the same documents again without `onChange`. For a change of other inputs of the compilation. */
  renew(): void {
    this.#inForce = compileDocuments(this.#rules, this.#read, this.#inForce);
  }

  refresh(): void {
    this.renew();
    if (this.#inForce !== undefined) this.#onChange(this.#inForce);
  }

  /** Names of the documents in files. */
  get files(): readonly string[] {
    return (this.#read.config ?? []).map(({ name }) => name);
  }

  /** The result of a document in a file; `undefined` before it was compiled, or when it does not exist. */
  resultOfFile(name: string): DocumentResult | undefined {
    const document = this.#read.config?.find((it) => it.name === name);
    return document && this.#resultOf("config", document);
  }

  /** The result of this version of a document of the cluster; `undefined` before it was compiled. */
  resultOf(name: string, { uid, generation }: DocumentVersion): DocumentResult | undefined {
    const { cluster } = this.#read;
    const { metadata } = cluster?.objects.get(name) ?? {};
    if (metadata === undefined || metadata.uid !== uid || metadata.generation !== generation)
      return undefined;
    return this.#resultOf("cluster", cluster?.documents.find((it) => it.name === name) ?? { name });
  }

  /** @param document only the name when the document does not fit the schema. That is a fault. */
  #resultOf(source: SourceName, document: Document<S> | Pick<Document, "name">): DocumentResult | undefined {
    const { name } = document;
    const fault = this.#faults().find((it) => it.source === source && it.name === name && isError(it));
    if (fault !== undefined) return { ready: false, reason: fault.reason, message: textOf(fault) };
    return this.#inForce && "spec" in document ? this.#rules.resultOf(document, this.#inForce) : undefined;
  }

  /** What there would be to say about an object, were it stored: sentences that begin with the reason. */
  remarksOn(object: DocumentObject): readonly string[] {
    const { kind, compile, tryOut = compile, describe = textOf, faultsOf, resultOf } = this.#rules;
    const { cluster = readClusterDocuments(kind, []), config, unsettled } = this.#read;
    const { name = "" } = object.metadata ?? {};
    const own = readClusterDocuments(kind, [object]);
    const at = cluster.documents.findIndex((it) => it.name === name);
    const tried: ClusterDocuments<S> = {
      source: "cluster",
      objects: new Map(cluster.objects).set(name, object),
      // In its place among the others: of two that cannot both be in force, the older one stays.
      documents: cluster.documents.toSpliced(
        at < 0 ? cluster.documents.length : at,
        at < 0 ? 0 : 1,
        ...own.documents,
      ),
      unreadable: [...cluster.unreadable.filter((it) => it.name !== name), ...own.unreadable],
    };
    const rules = { ...this.#rules, compile: tryOut };
    const inForce = compileDocuments(rules, { config, cluster: tried, unsettled }, this.#inForce);
    if (inForce === undefined) return [];
    const faults = faultsOf(inForce).filter((it) => it.source === "cluster" && it.name === name);
    const [document] = own.documents;
    const result = faults.some(isError) || document === undefined ? undefined : resultOf(document, inForce);
    return [
      ...faults.map((fault) => `${fault.reason}: ${describe(fault)}`),
      ...(result?.ready === false ? [`${result.reason}: ${result.message}`] : []),
    ];
  }

  /** Faults of documents in files, each with its place. */
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
