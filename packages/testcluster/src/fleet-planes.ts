/** Which control planes a fleet has, and what runs in each. */
import type { OptionalComponent } from "./components.ts";

/** The control planes of a fleet. */
export interface FleetPlanes {
  /**
   * Names of the planes, the hub first. Each name is a DNS label. The hub has a controller manager and no Nodes; a cell has
   * a scheduler, kwok and two Ready Nodes as well.
   */
  readonly planes: readonly string[];
}

interface PlaneOptions {
  readonly with: readonly OptionalComponent[];
  readonly nodes: number;
}

const HUB: PlaneOptions = { with: ["controller-manager"], nodes: 0 };
const CELL: PlaneOptions = { with: ["controller-manager", "scheduler", "kwok"], nodes: 2 };
const LABEL = /^[a-z0-9]([-a-z0-9]{0,61}[a-z0-9])?$/;

/**
 * Starts all planes side by side.
 *
 * @throws Error for a name that no Cell could have, or that is given twice; the first failure, when all have settled.
 */
export async function startPlanes<T>(
  { planes }: FleetPlanes,
  start: (name: string, options: PlaneOptions) => Promise<T>,
): Promise<ReadonlyMap<string, T>> {
  for (const [at, name] of planes.entries()) {
    if (!LABEL.test(name)) throw new Error(`"${name}" is no name of a plane: it must be a DNS label`);
    if (planes.indexOf(name) !== at) throw new Error(`there are two planes "${name}"`);
  }
  const all = planes.map(async (name, at) => [name, await start(name, at === 0 ? HUB : CELL)] as const);
  await Promise.allSettled(all);
  return new Map(await Promise.all(all));
}
