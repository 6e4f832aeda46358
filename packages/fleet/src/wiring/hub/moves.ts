/** What the process that leads knows of moves, and which may begin. Another one begins with none of it: a move has more time then. */
import { durationMs } from "@berth/host";
import { type Clock, findCondition, type ObjectKey, toKeyText } from "@berth/runtime";
import type { CellPlacement } from "../../api/placement.ts";
import type { WorkloadDeployment } from "../../api/workload.ts";
import type { FleetSpec } from "../../fleet/document.ts";
import { type CellSeen, cellWith, isDraining } from "../../hub/cells/seen.ts";
import type { Choice } from "../../hub/placement/choose.ts";
import type { MoveFacts } from "../../hub/placement/move.ts";
import type { Knowledge, Place } from "./knowledge.ts";
import { Latest } from "./memory.ts";

/** After a move that took too long, until the next one, ms. */
const REST_MS = 3_600_000;
/** How long an uncached read counts, ms. */
const CONFIRMED_MS = 10_000;

export interface MovesOptions {
  readonly clock: Pick<Clock, "monotonic">;
  readonly know: Pick<Knowledge, "movingTo" | "hubKey" | "cells">;
  readonly limits: () => FleetSpec["moves"];
}

interface Rest {
  readonly untilMs: number;
  /** The drain that began the move. */
  readonly drain: string;
}

/** All keys are deployments of the hub. */
export class Moves {
  readonly #options: MovesOptions;
  /** When a move was seen first. By the uid of the deployment and the epoch. */
  readonly #sinceMs = new Latest<number>();
  /** Which generation was read ready, and when. The same. */
  readonly #confirmed = new Latest<{ readonly generation: string; readonly atMs: number }>();
  /** By the uid of the deployment. */
  readonly #rests = new Latest<Rest>();
  /** Their beginning was written, and is not seen yet. */
  readonly #begun = new Set<string>();
  /** Drains that may come from a backup. */
  readonly #unconfirmed = new Latest<true>();
  /** In the order in which they asked. */
  readonly #waiting = new Map<string, ObjectKey>();

  constructor(options: MovesOptions) {
    this.#options = options;
  }

  facts(
    deployment: WorkloadDeployment,
    placement: CellPlacement | undefined,
    {
      place,
      cells,
      choose,
    }: {
      readonly place: Place;
      readonly cells: readonly CellSeen[];
      readonly choose: (placement: CellPlacement) => Choice;
    },
  ): MoveFacts {
    const { clock, limits, know } = this.#options;
    const nowMs = clock.monotonic();
    const { uid = "" } = deployment.metadata ?? {};
    const id = moveOf(deployment, placement);
    if (placement?.next !== undefined && !this.#sinceMs.has(id)) this.#sinceMs.set(id, nowMs);
    const confirmed = this.#confirmed.get(id);
    const rest = this.#rests.get(uid);
    const drain = drainOf(cellWith(cells, placement?.uid ?? ""));
    const isSameDrain = rest?.drain === drain;
    return {
      choose,
      mayBegin: () => this.#mayBegin(know.hubKey(place)),
      isConfirmed:
        confirmed !== undefined &&
        confirmed.generation === generationOf(deployment) &&
        nowMs - confirmed.atMs < CONFIRMED_MS,
      forMs: nowMs - (this.#sinceMs.get(id) ?? nowMs),
      timeoutMs: durationMs(limits().timeout),
      restsForMs: rest !== undefined && isSameDrain ? Math.max(rest.untilMs - nowMs, 0) : 0,
      // What an earlier process has found out is on the hub.
      isUnconfirmed:
        this.#unconfirmed.has(drain) ||
        findCondition(deployment.status?.conditions, "Moving")?.reason === "DrainUnconfirmed",
    };
  }

  /** The hub was restored, as it is behind a cell: what it says of drains may be old. */
  suspect(): void {
    for (const seen of this.#options.know.cells)
      if (isDraining(seen)) this.#unconfirmed.set(drainOf(seen), true);
  }

  /** An uncached read has shown that all of it is ready in its next cell. */
  confirmed(deployment: WorkloadDeployment, placement: CellPlacement): void {
    const atMs = this.#options.clock.monotonic();
    this.#confirmed.set(moveOf(deployment, placement), { generation: generationOf(deployment), atMs });
  }

  /** Its move took too long. @param from its cell. */
  rests({ metadata }: WorkloadDeployment, from: CellSeen | undefined): void {
    const untilMs = this.#options.clock.monotonic() + REST_MS;
    this.#rests.set(metadata?.uid ?? "", { untilMs, drain: drainOf(from) });
  }

  /** Its beginning is written now. */
  begins(key: ObjectKey): void {
    this.#waiting.delete(toKeyText(key));
    this.#begun.add(toKeyText(key));
  }

  /** It was looked at, and its move does not begin now. @param isQueued it waits for others. */
  looked(key: ObjectKey, isQueued: boolean): void {
    this.#begun.delete(toKeyText(key));
    if (!isQueued) this.#waiting.delete(toKeyText(key));
  }

  /** Those that may begin now. */
  due(): readonly ObjectKey[] {
    return this.#waiting.size === 0 ? [] : [...this.#waiting.values()].slice(0, Math.max(this.#room(), 0));
  }

  #mayBegin(key: ObjectKey): boolean {
    const text = toKeyText(key);
    if (!this.#waiting.has(text)) this.#waiting.set(text, key);
    return this.due().some((it) => toKeyText(it) === text);
  }

  #room(): number {
    const { know, limits } = this.#options;
    return limits().atOnce - know.movingTo().union(this.#begun).size;
  }
}

function moveOf({ metadata }: WorkloadDeployment, placement: CellPlacement | undefined): string {
  return `${metadata?.uid}/${placement?.next?.epoch}`;
}

function generationOf({ metadata }: WorkloadDeployment): string {
  return `${metadata?.generation}`;
}

/** Another one where the Cell was changed since. */
function drainOf(seen: CellSeen | undefined): string {
  const { uid, generation } = seen?.cell.metadata ?? {};
  return `${uid}/${generation}`;
}
