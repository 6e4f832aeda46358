import type { ObjectMeta } from "@berth/kube";
import {
  type CompileInput,
  compileGates,
  declaredPlaces,
  type Gate,
  type GateDocuments,
  type GateFault,
  type GateJudgement,
  type Gates,
  type MarkId,
  reasons,
  type StartupGate,
  startupGateSpec,
} from "@berth/placement";
import type { Clock } from "@berth/runtime";
import type { Fault } from "./config/fault.ts";
import type { LocatedStartupGate } from "./config/settings.ts";

/** The `StartupGate` objects of a cluster, read. */
export interface ClusterGates extends GateDocuments {
  readonly source: "cluster";
  /** By name: which version of its spec was read. */
  readonly versions: ReadonlyMap<string, Pick<ObjectMeta, "uid" | "generation">>;
}

/** The server has its schema, ours may be of another release: nothing is taken on trust. Total. */
export function readClusterGates(objects: Iterable<StartupGate>): ClusterGates {
  const documents: { name: string; spec: GateDocuments["documents"][number]["spec"] }[] = [];
  const unreadable: { name: string; message: string }[] = [];
  const versions = new Map<string, Pick<ObjectMeta, "uid" | "generation">>();
  for (const { metadata, spec } of objects) {
    const { name = "" } = metadata ?? {};
    versions.set(name, metadata ?? {});
    const parsed = startupGateSpec.safeParse(spec);
    if (parsed.success) documents.push({ name, spec: parsed.data });
    else {
      const [issue] = parsed.error.issues;
      const where = ["spec", ...(issue?.path ?? [])].map(String).join(".");
      unreadable.push({ name, message: `${where}: ${issue?.message ?? "is not valid"}` });
    }
  }
  const byName = (a: { readonly name: string }, b: { readonly name: string }): number =>
    a.name < b.name ? -1 : 1;
  return { source: "cluster", documents: documents.sort(byName), unreadable, versions };
}

/** Gates of files and of the cluster; those of files come first. `undefined` while no source has been read. */
export function assembleGates(
  config: readonly LocatedStartupGate[] | undefined,
  cluster: GateDocuments | undefined,
  more: Omit<CompileInput, "sources"> = {},
): Gates | undefined {
  const sources: GateDocuments[] = [];
  if (config !== undefined) sources.push({ source: "config", documents: config });
  if (cluster !== undefined) sources.push(cluster);
  return sources.length === 0 ? undefined : compileGates({ ...more, sources });
}

/** What is wrong with the gates of files, where the file says it. */
export function gateFaults(
  config: readonly LocatedStartupGate[],
  faults: readonly GateFault[],
): readonly Fault[] {
  return faults
    .filter(({ source }) => source === "config")
    .map(({ gate, path, reason, message }): Fault => {
      const found = config.find(({ name }) => name === gate);
      const field = path.length === 0 ? "" : `${path.join(".")}: `;
      const fault: Fault = {
        file: found?.file ?? gate,
        severity: "error",
        reason,
        message: `${gate}: ${field}${message}`,
      };
      return found === undefined ? fault : Object.assign(fault, found.positionOf(path));
    });
}

/** The same of the cluster, for a command that shows faults on the terminal. */
export function clusterGateFaults(faults: readonly GateFault[]): readonly Fault[] {
  return faults
    .filter(({ source }) => source === "cluster")
    .map(({ gate, path, reason, message }) => ({
      file: `startupgate/${gate}`,
      severity: "error",
      reason,
      message: path.length === 0 ? message : `spec.${path.join(".")}: ${message}`,
    }));
}

export interface StartupGateHubOptions {
  readonly clock: Pick<Clock, "monotonic">;
  /** Gates came into force or ceased to be. */
  readonly onChange: (gates: Gates) => void;
}

/**
 * How long admission may go on with a gate that is gone: until its objects are deleted, and the API server has noticed,
 * which it does within a second or so. Milliseconds.
 */
export const GONE_MS = 60_000;

/**
 * Puts the gates of all sources together, and says of each document what became of it. Until those of the cluster have
 * been read, or `settle` says that they will not be, one that is in no file is not taken for deleted: it may be there.
 */
export class StartupGateHub {
  readonly #options: StartupGateHubOptions;
  #config: readonly LocatedStartupGate[] | undefined;
  #cluster: ClusterGates | undefined;
  #gates: Gates | undefined;
  #isSettled = false;
  /** What gates of this process have declared: the taint of one that is deleted has to come off. */
  readonly #declared = new Set<MarkId>();
  /** By rule: gates as they were last in force, those that have a fault now included. */
  readonly #last = new Map<string, Gate>();
  /** Gates that are not there any more, or have another taint, and until when that is remembered: monotonic ms. */
  #gone: readonly { readonly gate: Gate; readonly untilMs: number }[] = [];

  constructor(options: StartupGateHubOptions) {
    this.#options = options;
  }

  /** `undefined` until some source has been read. */
  get gates(): Gates | undefined {
    return this.#gates;
  }

  setConfig(gates: readonly LocatedStartupGate[] | undefined): void {
    this.#config = gates;
    this.#refresh();
  }

  setCluster(gates: ClusterGates | undefined): void {
    this.#cluster = gates;
    this.#isSettled ||= gates !== undefined;
    this.#refresh();
  }

  /** It is gone on without those of the cluster. */
  settle(): void {
    this.#isSettled = true;
    this.#refresh();
  }

  /** What was remembered for a while of gates that are gone is forgotten when it is over. Nobody has to look again. */
  forgetGone(): void {
    const nowMs = this.#options.clock.monotonic();
    const gone = this.#gone.filter(({ untilMs }) => nowMs < untilMs);
    if (gone.length === this.#gone.length) return;
    this.#gone = gone;
    this.#gates = this.#assemble();
  }

  /** What became of this version of a gate of the cluster; `undefined` until it was taken over. */
  judgementOf(name: string, { uid, generation }: ObjectMeta): GateJudgement | undefined {
    const read = this.#cluster?.versions.get(name);
    if (read === undefined || read.uid !== uid || read.generation !== generation) return undefined;
    const fault = this.#gates?.faults.find(({ source, gate }) => source === "cluster" && gate === name);
    if (fault === undefined) {
      const message = ["in force", ...unknownBefore(name, this.#gates)].join("; ");
      return { ready: true, reason: reasons.GateInForce, message };
    }
    const { path, reason, message } = fault;
    return {
      ready: false,
      reason,
      message: path.length === 0 ? message : `spec.${path.join(".")}: ${message}`,
    };
  }

  configFaults(): readonly Fault[] {
    return gateFaults(this.#config ?? [], this.#gates?.faults ?? []);
  }

  #refresh(): void {
    const assembled = this.#assemble();
    if (assembled !== undefined && this.#noteGone(assembled)) this.#gates = this.#assemble();
    else this.#gates = assembled;
    if (this.#gates === undefined) return;
    for (const id of declaredPlaces(this.#gates)) this.#declared.add(id);
    this.#options.onChange(this.#gates);
  }

  #assemble(): Gates | undefined {
    return assembleGates(this.#config, this.#cluster, {
      declaredBefore: this.#declared,
      gone: this.#gone.map(({ gate }) => gate),
      unsettled: !this.#isSettled,
    });
  }

  /** @returns whether there are more than before. */
  #noteGone({ gates, faults }: Gates): boolean {
    const inForce = new Map(gates.map((gate) => [gate.rule, gate]));
    const refused = new Set(faults.map(({ source, gate }) => `${source}/${gate}`));
    const untilMs = this.#options.clock.monotonic() + GONE_MS;
    for (const [rule, gate] of this.#last) {
      const now = inForce.get(rule);
      if (now?.taintId === gate.taintId || (now === undefined && refused.has(rule))) continue;
      this.#gone = [
        ...this.#gone.filter(({ gate: { taintId } }) => taintId !== gate.taintId),
        { gate, untilMs },
      ];
      this.#last.delete(rule);
    }
    for (const [rule, gate] of inForce) this.#last.set(rule, gate);
    return this.#gone.some((it) => it.untilMs === untilMs);
  }
}

/** A gate that is not there is not waited for; it may only be misspelt. */
function unknownBefore(name: string, gates: Gates | undefined): readonly string[] {
  const names = new Set(gates?.gates.map((gate) => gate.name));
  const gate = gates?.gates.find(({ rule }) => rule === `cluster/${name}`);
  const unknown = gate?.spec.after.filter((one) => !names.has(one)) ?? [];
  return unknown.length === 0 ? [] : [`not in force, and so not waited for: ${unknown.join(", ")}`];
}
