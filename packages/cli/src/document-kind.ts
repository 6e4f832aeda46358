/** What a kind of document has of its own, and how its documents are put together from all sources. */
import type { Resource } from "@berth/kube";
import type * as z from "zod";
import type { LocatedSpec, Settings } from "./config/settings.ts";
import type { ClusterDocument, ClusterDocuments, DocumentFault, DocumentObject } from "./source-documents.ts";

/** The documents of one source that was read completely. */
export interface SourceDocuments<S> {
  readonly source: "config" | "cluster";
  readonly documents: readonly ClusterDocument<S>[];
  readonly unreadable?: ClusterDocuments<S>["unreadable"];
}

/** `S` is the spec of one document, `T` what all of them make, `M` what that depends on beside the documents. */
export interface DocumentKind<S, T, M> {
  readonly resource: Resource<DocumentObject>;
  readonly schema: z.ZodType<S>;
  /** Those of files. */
  readonly located: (settings: Settings) => readonly LocatedSpec<S>[];
  /** The first of the sources takes precedence. A document with a fault is reported, and the others are in force. */
  readonly compile: (input: M & { readonly sources: readonly SourceDocuments<S>[] }) => T;
  /** What has documents with a fault go on as they were. Absent: they do not. */
  readonly goOn?: (before: T) => M;
  readonly faultsOf: (inForce: T) => readonly DocumentFault[];
}

/** The documents of one kind by where they come from; `undefined` is a source that has not been read. */
export interface DocumentSources<S> {
  readonly config: readonly LocatedSpec<S>[] | undefined;
  readonly cluster: ClusterDocuments<S> | undefined;
  /** Those of the cluster are not known because their CRD is away: Berth goes on without. Default false. */
  readonly isAway?: boolean;
}

/** Documents of files and of the cluster; those of files come first. `undefined` while no source has been read. */
export function assembleDocuments<S, T, M>(
  { compile }: DocumentKind<S, T, M>,
  { config, cluster, isAway = false }: DocumentSources<S>,
  more: M,
): T | undefined {
  const sources: SourceDocuments<S>[] = [];
  if (config !== undefined) sources.push({ source: "config", documents: config });
  if (cluster !== undefined) sources.push(cluster);
  return sources.length === 0 && !isAway ? undefined : compile({ ...more, sources });
}
