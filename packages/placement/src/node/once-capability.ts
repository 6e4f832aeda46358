/** Reads the documents of a capability in a command, and offers what the command can do with the capability. */
import {
  assembleReadDocuments,
  type ClusterDocuments,
  type DocumentRules,
  type Documents,
  type Fault,
  listDocuments,
  type OneShotRun,
  readClusterDocuments,
  type Section,
} from "@berth/host";
import type { Node } from "@berth/kube";
import type { BoundCapability } from "./capability.ts";
import type { CleanAt, CleaningCapability } from "./clean-once.ts";
import type { Comparison } from "./explain/trace.ts";
import type {
  ExplainAt,
  ExplainingCapability,
  NodeFacts,
  NodeOnce,
  PlanAt,
  PlanningCapability,
  PodAt,
} from "./once.ts";

export interface ReadOptions {
  /** Documents of files. `hasConfig`: the user gave files, which may contain no document. */
  readonly files: { readonly settings: Documents; readonly hasConfig: boolean };
  /** Access to the cluster. Absent: Berth reads only files. */
  readonly session?: OneShotRun;
  /** Documents that replace those of the cluster with the same name, as if they were applied. */
  readonly tried?: Documents | undefined;
  /** For documents that need a confirmation. `act`: show their effect. `wait`: leave out those that wait. */
  readonly waiting: "act" | "wait";
}

/** One capability after its documents are read. */
export interface ReadCapability {
  /** True when its documents have a source. */
  readonly isGiven: boolean;
  /** Faults of single documents. The other documents are in force. */
  readonly faults: readonly Fault[];
  /** The faults that make a command fail, like files that cannot be used. */
  readonly refused: readonly Fault[];
  /** Documents that are in force now and would not be with the tried ones: `startupgate/network`. */
  readonly stops: readonly string[];
  /** Present when other capabilities wait for its marks. */
  readonly facts?: BoundCapability;
  plan?(at: PlanAt): Promise<PlanningCapability>;
  explain?(at: Omit<ExplainAt, "statusOf">): Promise<ExplainingCapability>;
  explainPod?(at: PodAt): Promise<Section | undefined>;
  placePod?(at: PodAt, on: Node): Promise<readonly Comparison[]>;
  clean?(at: CleanAt): Promise<CleaningCapability>;
}

/** `nodes`: plan and explain nodes. `pods`: explain pods. `facts`: marks that others wait for. `clean`: clean. */
export type Purpose = "nodes" | "pods" | "facts" | "clean";

export interface OnceCapability {
  readonly does: readonly Purpose[];
  read(options: ReadOptions): Promise<ReadCapability>;
}

/** A capability with documents of one kind. */
export function onceCapability<S, T>(rules: DocumentRules<S, T>, once: NodeOnce<T>): OnceCapability {
  const { kind } = rules;
  const { explainPod, placePod } = once;
  return {
    does: ["nodes", "clean", ...(explainPod === undefined ? [] : ["pods" as const])],
    async read({ files, session, tried }) {
      const objects = session && (await listDocuments(kind, session));
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
        stops: stopsOf(running.faults, faults, (fault) => isTried(fault, kind.kind, located)),
        refused: faults.filter((fault) => fault.line !== undefined || isTried(fault, kind.kind, located)),
        plan: (at) => once.plan(inForce, at),
        clean: (at) => once.clean(inForce, at),
        explain(at) {
          const statuses = new Map(objects?.map((it) => [`cluster/${it.metadata?.name}`, statusOf(it)]));
          return once.explain(inForce, { ...at, statusOf: (rule) => statuses.get(rule) });
        },
        ...(explainPod && { explainPod: (at) => explainPod(inForce, at) }),
        ...(placePod && { placePod: (at, on) => placePod(inForce, at, on) }),
      };
    },
  };
}

function statusOf(object: object): unknown {
  return "status" in object ? object.status : undefined;
}

type Named = { readonly name: string };

/**
 * The documents of the cluster with the tried ones in place: a changed one keeps its age, a new one is the youngest. If a
 * tried document puts a fault into one in force, a running Berth continues with the version in force.
 */
export function replaced<S>(
  tried: ClusterDocuments<S>["documents"],
  cluster: ClusterDocuments<S> | undefined,
): ClusterDocuments<S> {
  const { documents = [], unreadable = [], objects = new Map() } = cluster ?? {};
  const byName = new Map([...documents, ...tried].map((document) => [document.name, document]));
  const names = new Set([...objects.keys(), ...byName.keys()]);
  const isTriedToo = (name: string): boolean => tried.some((it) => it.name === name);
  return {
    source: "cluster",
    documents: [...names].flatMap((name) => byName.get(name) ?? []),
    unreadable: unreadable.filter(({ name }) => !isTriedToo(name)),
    objects,
  };
}

/** True for an error in a tried document. Its name has the form of cluster documents: `nodefootprint/agent`. */
export function isTried({ severity, file }: Fault, kind: string, tried: readonly Named[]): boolean {
  return severity === "error" && tried.some(({ name }) => file === `${kind.toLowerCase()}/${name}`);
}

/** Those that get an error, except tried ones: these are refused. */
export function stopsOf(
  before: readonly Fault[],
  after: readonly Fault[],
  isTriedToo: (fault: Fault) => boolean,
): readonly string[] {
  const errorsOf = (faults: readonly Fault[]): ReadonlySet<string> =>
    new Set(faults.filter(({ severity }) => severity === "error").map(({ file }) => file));
  return [...errorsOf(after.filter((fault) => !isTriedToo(fault))).difference(errorsOf(before))];
}

/** The capabilities among these whose marks others wait for. */
export function factsOf(read: readonly ReadCapability[]): readonly NodeFacts[] {
  return read.flatMap(({ facts, isGiven }) => (facts === undefined ? [] : [{ capability: facts, isGiven }]));
}
