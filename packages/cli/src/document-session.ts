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

/** Both, read now. Without the right to read those of the cluster it goes on without, and says so. */
export async function readDocuments<S, T>(
  kind: DocumentKind<S, T, object>,
  files: Pick<RuleFiles, "settings" | "hasConfig">,
  session: Session,
): Promise<ReadDocuments<T>> {
  const found = await listObjects({ resource: kind.resource }, session);
  return assembleReadDocuments(kind, files, found && readClusterDocuments(found, kind.schema));
}
