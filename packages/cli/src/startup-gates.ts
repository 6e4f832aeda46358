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
  type StartupGateSpec,
  startupGateSpec,
} from "@berth/placement";
import type { Clock } from "@berth/runtime";
import type { Fault } from "./config/fault.ts";
import type { LocatedStartupGate } from "./config/settings.ts";
import {
  type ClusterDocuments,
  clusterFaults,
  type DocumentFault,
  type DocumentVersion,
  fileFaults,
  judge,
  readClusterDocuments,
} from "./source-documents.ts";

/** The `StartupGate` objects of a cluster, read. */
export type ClusterGates = ClusterDocuments<StartupGateSpec>;

export function readClusterGates(objects: Iterable<StartupGate>): ClusterGates {
  return readClusterDocuments(objects, startupGateSpec);
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
  return fileFaults(config, faults.map(toDocumentFault));
}

/** The same of the cluster, for a command that shows faults on the terminal. */
export function clusterGateFaults(faults: readonly GateFault[]): readonly Fault[] {
  return clusterFaults("startupgate", faults.map(toDocumentFault));
}

function toDocumentFault({ gate: name, ...fault }: GateFault): DocumentFault {
  return { ...fault, name };
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
  judgementOf(name: string, version: DocumentVersion): GateJudgement | undefined {
    const faults = (this.#gates?.faults ?? []).map(toDocumentFault);
    return judge({ ...version, name }, this.#cluster, faults, () => ({
      ready: true,
      reason: reasons.GateInForce,
      message: ["in force", ...unknownBefore(name, this.#gates)].join("; "),
    }));
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
