/** Reads the documents of one kind once, for a command. */

import type { Documents } from "../documents/config-files.ts";
import type { CustomKind, DocumentObject } from "../documents/document-kind.ts";
import { compileDocuments, type DocumentRules } from "../documents/document-source.ts";
import { type Fault } from "../documents/fault.ts";
import {
  type ClusterDocuments,
  clusterFaults,
  fileFaults,
  readClusterDocuments,
} from "../documents/sources.ts";
import { readObjects } from "./listing.ts";
import type { OneShotRun } from "./run.ts";

/** Documents that the user passed in files. */
export interface DocumentFiles {
  readonly settings: Documents;
  /** True when there are configuration files, even without a document of the kind. */
  readonly hasConfig: boolean;
}

/**
 * Documents of the cluster; `undefined` when it does not have the CRD. Without the permission to read them the command
 * continues, and reports it.
 */
async function fetchClusterDocuments<S, T>(
  { kind }: Pick<DocumentRules<S, T>, "kind">,
  session: OneShotRun,
): Promise<ClusterDocuments<S> | undefined> {
  const found = await listDocuments(kind, session);
  return found && readClusterDocuments(kind, found);
}

/** The objects of one kind; `undefined` where the server does not have the CRD, or forbids to read them. */
export function listDocuments(
  { resource }: Pick<CustomKind, "resource">,
  run: OneShotRun,
): Promise<readonly DocumentObject[] | undefined> {
  return readObjects<DocumentObject>({ name: "documents", resource, project: slimDocument }, run);
}

/** Without managed fields, and without the copy of the spec that kubectl keeps. */
function slimDocument({ metadata, ...rest }: DocumentObject): DocumentObject {
  const { managedFields: _, annotations, ...kept } = metadata ?? {};
  const { [LAST_APPLIED]: __, ...others } = annotations ?? {};
  return { ...rest, metadata: { ...kept, ...(annotations && { annotations: others }) } };
}

const LAST_APPLIED = "kubectl.kubernetes.io/last-applied-configuration";

/** The compiled documents, and the faults of single documents. Documents without an error are in force. */
export interface InForceOnce<T> {
  /** `undefined` when no source of these documents was read. */
  readonly inForce: T | undefined;
  readonly faults: readonly Fault[];
}

/** Compiles documents of files and of the cluster. @param before the last result, which documents with a fault keep. */
export function assembleReadDocuments<S, T>(
  rules: DocumentRules<S, T>,
  { settings, hasConfig }: DocumentFiles,
  cluster: ClusterDocuments<S> | undefined,
  before?: T,
): InForceOnce<T> {
  const { kind, faultsOf, describe } = rules;
  const ofFiles = settings.documentsOf(kind);
  const inForce = compileDocuments(rules, { config: hasConfig ? ofFiles : undefined, cluster }, before);
  const found = inForce === undefined ? [] : faultsOf(inForce);
  const faults = [...fileFaults(ofFiles, found, describe), ...clusterFaults(kind.kind.toLowerCase(), found)];
  return { inForce, faults };
}

/** Reads and compiles both. Without the permission to read the cluster's documents it continues, and reports it. */
export async function readInForce<S, T>(
  rules: DocumentRules<S, T>,
  files: DocumentFiles,
  session: OneShotRun,
): Promise<InForceOnce<T>> {
  return assembleReadDocuments(rules, files, await fetchClusterDocuments(rules, session));
}
