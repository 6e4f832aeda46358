/** Documents of one kind as a command reads them, once. */
import {
  type ClusterDocuments,
  clusterFaults,
  compileDocuments,
  type DocumentRules,
  type Fault,
  fileFaults,
  readClusterDocuments,
} from "@berth/host";
import {
  type BoundCapability,
  bindCapability,
  createLabelRules,
  type LabelRuleSpec,
  labelRuleKind,
  labels,
} from "@berth/placement";
import { listObjects } from "./listing.ts";
import type { RuleFiles, Session } from "./session.ts";
import type { Surroundings } from "./surroundings.ts";

/**
 * Those of the cluster; `undefined` when it does not have the CRD. Without the right to read them it goes on without, and
 * says so.
 */
export async function fetchClusterDocuments<S, T>(
  { kind }: Pick<DocumentRules<S, T>, "kind">,
  session: Session,
  surroundings: Pick<Surroundings, "stderr" | "signal">,
): Promise<ClusterDocuments<S> | undefined> {
  const found = await listObjects({ resource: kind.resource }, { session, surroundings });
  return found && readClusterDocuments(kind, found);
}

/** What documents make, with what is wrong with single ones; the others are in force. */
export interface ReadDocuments<T> {
  /** `undefined` when there is no source of such documents at all. */
  readonly inForce: T | undefined;
  readonly faults: readonly Fault[];
}

/** Documents of files and of the cluster together. @param before what was in force: one with a fault goes on by it. */
export function assembleReadDocuments<S, T>(
  rules: DocumentRules<S, T>,
  { settings, hasConfig }: Pick<RuleFiles, "settings" | "hasConfig">,
  cluster: ClusterDocuments<S> | undefined,
  before?: T,
): ReadDocuments<T> {
  const { kind, faultsOf, describe } = rules;
  const ofFiles = settings.documentsOf(kind);
  const inForce = compileDocuments(rules, { config: hasConfig ? ofFiles : undefined, cluster }, before);
  const found = inForce === undefined ? [] : faultsOf(inForce);
  const faults = [...fileFaults(ofFiles, found, describe), ...clusterFaults(kind.kind.toLowerCase(), found)];
  return { inForce, faults };
}

/** Both, read now. */
export async function readDocuments<S, T>(
  rules: DocumentRules<S, T>,
  files: Pick<RuleFiles, "settings" | "hasConfig">,
  { session, surroundings }: { readonly session: Session; readonly surroundings: Surroundings },
): Promise<ReadDocuments<T>> {
  return assembleReadDocuments(rules, files, await fetchClusterDocuments(rules, session, surroundings));
}

/** The capabilities with their configuration as a command reads it, once. */
export interface ReadRules {
  /** The derived labels. */
  readonly capabilities: readonly [BoundCapability];
  /** What is wrong with single rules; the others are in force. */
  readonly faults: readonly Fault[];
  /** There is a source of rules. */
  readonly given: boolean;
}

/**
 * Rules of files and of the cluster together.
 *
 * @param waiting what to do with rules that ask before they act: `act` to see what they would do, `wait` to leave out
 *   those that are known to wait.
 */
export function assembleReadRules(
  files: RuleFiles,
  cluster: ClusterDocuments<LabelRuleSpec> | undefined,
  waiting: "act" | "wait",
): ReadRules {
  const { options, folder } = files;
  const rules = createLabelRules({
    options,
    folder: () => folder,
    nodes: () => [],
    waitsByStatus: waiting === "wait",
  });
  const { inForce, faults } = assembleReadDocuments(rules, files, cluster);
  const config = () => inForce?.rules;
  return {
    capabilities: [bindCapability(labels, { config, observe: (view) => view })],
    faults: [...files.faults, ...faults],
    given: inForce !== undefined,
  };
}

/**
 * The `LabelRule` objects of the cluster; `undefined` when it does not have the CRD, or they may not be read, which the
 * session notes.
 */
export function fetchClusterRules(
  session: Session,
  surroundings: Pick<Surroundings, "stderr" | "signal">,
): Promise<ClusterDocuments<LabelRuleSpec> | undefined> {
  return fetchClusterDocuments({ kind: labelRuleKind }, session, surroundings);
}
