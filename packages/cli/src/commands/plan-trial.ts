/** `berth plan --try`: documents of files stand in for those of the cluster, as if they were applied. */
import type { Fault } from "@berth/host";
import type { Settings } from "../config/settings.ts";
import type { DocumentKind } from "../document-kind.ts";
import { assembleReadDocuments, type ReadDocuments } from "../document-session.ts";
import type { ClusterRules } from "../label-rules.ts";
import type { RuleFiles } from "../session.ts";
import type { ClusterDocument, ClusterDocuments } from "../source-documents.ts";

/** The rules of the cluster as they would be once these files were applied. */
export function tryRules(
  tried: Settings | undefined,
  cluster: ClusterRules | undefined,
): ClusterRules | undefined {
  if (tried === undefined) return cluster;
  const base = cluster ?? {
    documents: [],
    unreadable: [],
    waiting: new Set(),
    inForce: new Set(),
    versions: new Map(),
  };
  return { ...base, ...replaced(tried.labelRules, base) };
}

export interface Trial<S> {
  readonly files: RuleFiles;
  readonly tried: Settings | undefined;
  readonly cluster: ClusterDocuments<S> | undefined;
}

/**
 * Documents of one kind as they would be. Where one that is in force gets a fault by what is tried, a running Berth goes on
 * by it as it is, and so does this.
 */
export function readTried<S, T>(
  kind: DocumentKind<S, T, object>,
  { files, tried, cluster }: Trial<S>,
): ReadDocuments<T> {
  const running = assembleReadDocuments(kind, files, cluster);
  const located = tried === undefined ? [] : kind.located(tried);
  if (located.length === 0) return running;
  const base: ClusterDocuments<S> = cluster ?? {
    source: "cluster",
    documents: [],
    unreadable: [],
    versions: new Map(),
  };
  const as = replaced<ClusterDocument<S>, Unreadable>(located, base);
  return assembleReadDocuments(kind, files, { ...base, ...as }, running.inForce);
}

/** Is it a fault of a document that is tried? */
export function isTried({ severity, file }: Fault, tried: Settings | undefined): boolean {
  return severity === "error" && tried !== undefined && namesOf(tried).has(file);
}

/** As faults of the cluster are called: `nodefootprint/agent`. */
function namesOf(tried: Settings): ReadonlySet<string> {
  const { labelRules, startupGates, architecturePolicies, nodeFootprints } = tried;
  const kinds = {
    labelrule: labelRules,
    startupgate: startupGates,
    architecturepolicy: architecturePolicies,
    nodefootprint: nodeFootprints,
  };
  return new Set(
    Object.entries(kinds).flatMap(([kind, documents]) => documents.map(({ name }) => `${kind}/${name}`)),
  );
}

type Named = { readonly name: string };
type Unreadable = Named & { readonly message: string };

function replaced<D extends Named, U extends Named>(
  tried: readonly D[],
  { documents, unreadable }: { readonly documents: readonly D[]; readonly unreadable: readonly U[] },
): { readonly documents: readonly D[]; readonly unreadable: readonly U[] } {
  const names = new Set(tried.map(({ name }) => name));
  const isLeft = ({ name }: Named): boolean => !names.has(name);
  return { documents: [...documents.filter(isLeft), ...tried], unreadable: unreadable.filter(isLeft) };
}
