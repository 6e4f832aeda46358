/** Where a deployment is: the annotation `berth.dev/placement` of the hub's deployment. */
import * as z from "zod";

/** The most Instances of a deployment, and so the distance between two starts. */
export const SLOTS = 1000;
const STARTS = 10;

const target = {
  /** The name of the cell, for people. */
  cell: z.string().min(1),
  /** Of the cell. A Cell object of that name with another uid is another cell. */
  uid: z.string().min(1),
  /** Counts placements of the deployment. The hub never uses one twice. */
  epoch: z.int().min(1),
  /** The first ordinal. */
  start: z.int().min(0),
};

const schema = z.object({
  v: z.literal(1),
  ...target,
  /** The highest epoch that was ever used. */
  last: z.int().min(1),
  /** Where it moves to: it becomes ready there, and leaves its cell afterwards. */
  next: z.object(target).optional(),
  /** From where Berth deletes it: it has moved, or its move was given up. Never beside `next`. */
  leaving: z.object(target).optional(),
  /** Starts that Instances in a forgotten cell may still use. */
  lost: z.array(z.int().min(0)).optional(),
});

/** A cell that has the deployment, or gets it. */
export interface Target {
  readonly cell: string;
  readonly uid: string;
  readonly epoch: number;
  readonly start: number;
}

export interface CellPlacement extends Target {
  readonly last: number;
  readonly next?: Target | undefined;
  readonly leaving?: Target | undefined;
  readonly lost?: readonly number[] | undefined;
}

/** Texts of which the placement is remembered: most deployments of a cell have the same one, and each look reads it. */
const MOST = 10_000;
const LONGEST = 1_000;
const known = new Map<string, CellPlacement | undefined>();

/** `undefined`: the text is no placement of this version. */
export function parsePlacement(text: string | undefined): CellPlacement | undefined {
  if (text === undefined) return undefined;
  if (text.length > LONGEST) return parse(text);
  if (!known.has(text)) {
    if (known.size >= MOST) known.clear();
    known.set(text, parse(text));
  }
  return known.get(text);
}

function parse(text: string): CellPlacement | undefined {
  let value: unknown;
  try {
    value = JSON.parse(text);
  } catch {
    return undefined;
  }
  const { success, data } = schema.safeParse(value);
  if (!success || (data.next !== undefined && data.leaving !== undefined)) return undefined;
  return targetsOf(data).every((it) => it.epoch <= data.last) ? data : undefined;
}

export function formatPlacement(placement: CellPlacement): string {
  const { cell, uid, epoch, start, last, next, leaving, lost } = placement;
  return JSON.stringify({ v: 1, cell, uid, epoch, start, last, next, leaving, lost });
}

/** The current cell, and the other one during a move. */
export function targetsOf(placement: CellPlacement | undefined): readonly Target[] {
  if (placement === undefined) return [];
  return [placement, placement.next, placement.leaving].filter((it) => it !== undefined);
}

export function isSameTarget(a: Target, b: Target): boolean {
  return a.uid === b.uid && a.epoch === b.epoch;
}

export function hasSlot({ start }: Pick<Target, "start">, ordinal: number): boolean {
  return ordinal >= start && ordinal < start + SLOTS;
}

/** The lowest start that nothing holds: two cells never share the name of an Instance. `undefined`: all are held. */
export function freeStart(held: Iterable<number>): number | undefined {
  const taken = new Set(Array.from(held, (start) => Math.floor(start / SLOTS)));
  const free = Array.from({ length: STARTS }, (_, at) => at).find((at) => !taken.has(at));
  return free === undefined ? undefined : free * SLOTS;
}
