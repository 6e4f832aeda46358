/** Documents of one kind as a command reads them, once. */

import type { Documents } from "../documents/config-files.ts";
import { compileDocuments, type DocumentRules } from "../documents/document-source.ts";
import { type Fault } from "../documents/fault.ts";
import {
  type ClusterDocuments,
  clusterFaults,
  fileFaults,
  readClusterDocuments,
} from "../documents/sources.ts";
import { listObjects } from "./listing.ts";
import type { OneShotRun } from "./run.ts";

/** What a command was given in files. */
export interface DocumentFiles {
  readonly settings: Documents;
  /** There are configuration files, which may hold no document of a kind. */
  readonly hasConfig: boolean;
}

/**
 * Those of the cluster; `undefined` when it does not have the CRD. Without the right to read them it goes on without, and
 * says so.
 */
async function fetchClusterDocuments<S, T>(
  { kind }: Pick<DocumentRules<S, T>, "kind">,
  session: OneShotRun,
): Promise<ClusterDocuments<S> | undefined> {
  const found = await listObjects({ resource: kind.resource }, session);
  return found && readClusterDocuments(kind, found);
}

/** What documents make, with what is wrong with single ones; the others are in force. */
export interface InForceOnce<T> {
  /** `undefined` when there is no source of such documents at all. */
  readonly inForce: T | undefined;
  readonly faults: readonly Fault[];
}

/** Documents of files and of the cluster together. @param before what was in force: one with a fault goes on by it. */
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

/** Both, read now. Without the right to read those of the cluster it goes on without, and says so. */
export async function readInForce<S, T>(
  rules: DocumentRules<S, T>,
  files: DocumentFiles,
  session: OneShotRun,
): Promise<InForceOnce<T>> {
  return assembleReadDocuments(rules, files, await fetchClusterDocuments(rules, session));
}
