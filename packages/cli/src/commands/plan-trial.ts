/** `berth plan --try`: documents of files stand in for those of the cluster, as if they were applied. */
import {
  type ClusterDocuments,
  type DocumentKind,
  type DocumentRules,
  type Documents,
  type Fault,
} from "@berth/host";
import { type LabelRuleSpec, labelRuleKind } from "@berth/placement";
import { assembleReadDocuments, type ReadDocuments } from "../document-session.ts";
import { servedKinds } from "../kinds.ts";
import type { RuleFiles } from "../session.ts";

/** The rules of the cluster as they would be once these files were applied. */
export function tryRules(
  tried: Documents | undefined,
  cluster: ClusterDocuments<LabelRuleSpec> | undefined,
): ClusterDocuments<LabelRuleSpec> | undefined {
  return tried === undefined ? cluster : replaced(labelRuleKind, tried, cluster);
}

export interface Trial<S> {
  readonly files: RuleFiles;
  readonly tried: Documents | undefined;
  readonly cluster: ClusterDocuments<S> | undefined;
}

/**
 * Documents of one kind as they would be. Where one that is in force gets a fault by what is tried, a running Berth goes on
 * by it as it is, and so does this.
 */
export function readTried<S, T>(
  rules: DocumentRules<S, T>,
  { files, tried, cluster }: Trial<S>,
): ReadDocuments<T> {
  const running = assembleReadDocuments(rules, files, cluster);
  if (tried === undefined || tried.documentsOf(rules.kind).length === 0) return running;
  return assembleReadDocuments(rules, files, replaced(rules.kind, tried, cluster), running.inForce);
}

/** Is it a fault of a document that is tried? Faults of the cluster are about `nodefootprint/agent`. */
export function isTried({ severity, file }: Fault, tried: Documents | undefined): boolean {
  const isOf = (kind: DocumentKind): boolean =>
    tried?.documentsOf(kind).some(({ name }) => `${kind.kind.toLowerCase()}/${name}` === file) ?? false;
  return severity === "error" && servedKinds.some(isOf);
}

function replaced<S>(
  kind: DocumentKind<S>,
  tried: Documents,
  cluster: ClusterDocuments<S> | undefined,
): ClusterDocuments<S> {
  const { documents = [], unreadable = [], objects = new Map() } = cluster ?? {};
  const given = tried.documentsOf(kind);
  const names = new Set(given.map(({ name }) => name));
  const isLeft = ({ name }: { readonly name: string }): boolean => !names.has(name);
  return {
    source: "cluster",
    documents: [...documents.filter(isLeft), ...given],
    unreadable: unreadable.filter(isLeft),
    objects,
  };
}
