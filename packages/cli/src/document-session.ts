/** Documents of one kind as a command sees them, which looks once and does not watch. */
import { type Fault, listObjects } from "@berth/host";
import { assembleDocuments, type DocumentKind } from "./document-kind.ts";
import type { RuleFiles, Session } from "./session.ts";
import {
  type ClusterDocuments,
  clusterFaults,
  fileFaults,
  readClusterDocuments,
} from "./source-documents.ts";

/**
 * Those of the cluster; `undefined` when it does not have the CRD. Without the right to read them it goes on without, and
 * says so.
 */
export async function fetchClusterDocuments<S, T, M>(
  { resource, schema }: DocumentKind<S, T, M>,
  session: Session,
): Promise<ClusterDocuments<S> | undefined> {
  const found = await listObjects({ resource }, session);
  return found && readClusterDocuments(found, schema);
}

/** What documents make, with what is wrong with single ones; the others are in force. */
export interface ReadDocuments<T> {
  /** `undefined` when there is no source of such documents at all. */
  readonly inForce: T | undefined;
  readonly faults: readonly Fault[];
}

/** Documents of files and of the cluster together. @param before what was in force: one with a fault goes on by it. */
export function assembleReadDocuments<S, T>(
  kind: DocumentKind<S, T, object>,
  { settings, hasConfig }: Pick<RuleFiles, "settings" | "hasConfig">,
  cluster: ClusterDocuments<S> | undefined,
  before?: T,
): ReadDocuments<T> {
  const { resource, located, faultsOf, goOn } = kind;
  const ofFiles = located(settings);
  const sources = { config: hasConfig ? ofFiles : undefined, cluster };
  const inForce = assembleDocuments(kind, sources, (before && goOn?.(before)) ?? {});
  const found = inForce === undefined ? [] : faultsOf(inForce);
  const faults = [...fileFaults(ofFiles, found), ...clusterFaults(resource.kind.toLowerCase(), found)];
  return { inForce, faults };
}

/** Both, read now. */
export async function readDocuments<S, T>(
  kind: DocumentKind<S, T, object>,
  files: Pick<RuleFiles, "settings" | "hasConfig">,
  session: Session,
): Promise<ReadDocuments<T>> {
  return assembleReadDocuments(kind, files, await fetchClusterDocuments(kind, session));
}
