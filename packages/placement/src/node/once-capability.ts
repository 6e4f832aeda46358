/** How a command comes by the documents of a capability, and by what the capability says of them. */
import {
  assembleReadDocuments,
  type ClusterDocuments,
  type DocumentRules,
  type Documents,
  type Fault,
  listObjects,
  type OneShotRun,
  readClusterDocuments,
  type Section,
} from "@berth/host";
import type { BoundCapability } from "./capability.ts";
import type { CleanAt, CleaningCapability } from "./clean-once.ts";
import type {
  ExplainAt,
  ExplainingCapability,
  LookAt,
  NodeFacts,
  NodeOnce,
  PlanningCapability,
  PodAt,
} from "./once.ts";

export interface ReadOptions {
  /** Documents of files, and whether there are files, which may hold none. */
  readonly files: { readonly settings: Documents; readonly hasConfig: boolean };
  /** Absent: only files are read. */
  readonly session?: OneShotRun;
  /** Documents that stand in for those of the cluster, as if they were applied. */
  readonly tried?: Documents | undefined;
  /** What to do with documents that ask before they act: show what they would do, or leave out those that wait. */
  readonly waiting: "act" | "wait";
}

/** One capability, its documents read. */
export interface ReadCapability {
  /** There is a source of its documents. */
  readonly isGiven: boolean;
  /** What is wrong with single documents; the others are in force. */
  readonly faults: readonly Fault[];
  /** Those of them with which a command ends as with files that cannot be used. */
  readonly refused: readonly Fault[];
  /** Others wait for its marks. */
  readonly facts?: BoundCapability;
  plan?(at: LookAt): Promise<PlanningCapability>;
  explain?(at: Omit<ExplainAt, "statusOf">): Promise<ExplainingCapability>;
  explainPod?(at: PodAt): Promise<Section | undefined>;
  clean?(at: CleanAt): Promise<CleaningCapability>;
}

/** To plan and explain nodes, to explain pods, to have marks that others wait for, to be cleaned. */
export type Purpose = "nodes" | "pods" | "facts" | "clean";

export interface OnceCapability {
  readonly does: readonly Purpose[];
  read(options: ReadOptions): Promise<ReadCapability>;
}

/** A capability with documents of one kind. */
export function onceCapability<S, T>(rules: DocumentRules<S, T>, once: NodeOnce<T>): OnceCapability {
  const { kind } = rules;
  const { explainPod } = once;
  return {
    does: ["nodes", "clean", ...(explainPod === undefined ? [] : ["pods" as const])],
    async read({ files, session, tried }) {
      const objects = session && (await listObjects({ resource: kind.resource }, session));
      const cluster = objects && readClusterDocuments(kind, objects);
      const running = assembleReadDocuments(rules, files, cluster);
      const located = tried?.documentsOf(kind) ?? [];
      const { inForce, faults } =
        located.length === 0
          ? running
          : assembleReadDocuments(rules, files, replaced(located, cluster), running.inForce);
      return {
        isGiven: inForce !== undefined,
        faults,
        refused: faults.filter((fault) => fault.line !== undefined || isTried(fault, kind.kind, located)),
        plan: (at) => once.plan(inForce, at),
        clean: (at) => once.clean(inForce, at),
        explain(at) {
          const statuses = new Map(objects?.map((it) => [`cluster/${it.metadata?.name}`, statusOf(it)]));
          return once.explain(inForce, { ...at, statusOf: (rule) => statuses.get(rule) });
        },
        ...(explainPod && { explainPod: (at) => explainPod(inForce, at) }),
      };
    },
  };
}

function statusOf(object: object): unknown {
  return "status" in object ? object.status : undefined;
}

type Named = { readonly name: string };

/**
 * Documents of the cluster as they would be. Where one that is in force gets a fault by what is tried, a running Berth goes
 * on by it as it is.
 */
export function replaced<S>(
  tried: ClusterDocuments<S>["documents"],
  cluster: ClusterDocuments<S> | undefined,
): ClusterDocuments<S> {
  const { documents = [], unreadable = [], objects = new Map() } = cluster ?? {};
  const names = new Set(tried.map(({ name }) => name));
  const isLeft = ({ name }: Named): boolean => !names.has(name);
  return {
    source: "cluster",
    documents: [...documents.filter(isLeft), ...tried],
    unreadable: unreadable.filter(isLeft),
    objects,
  };
}

/** Is it a fault of a document that is tried? It is called as faults of the cluster are: `nodefootprint/agent`. */
export function isTried({ severity, file }: Fault, kind: string, tried: readonly Named[]): boolean {
  return severity === "error" && tried.some(({ name }) => file === `${kind.toLowerCase()}/${name}`);
}

/** The capabilities that others wait for, as far as they have been read. */
export function factsOf(read: readonly ReadCapability[]): readonly NodeFacts[] {
  return read.flatMap(({ facts, isGiven }) => (facts === undefined ? [] : [{ capability: facts, isGiven }]));
}
