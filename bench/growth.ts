/** How cost grows with the number of nodes: linear or not, computed from the figures of the single sizes. */
import type { Figure } from "./report.ts";
import { COALESCED_MS } from "./steady.ts";

/** Above 1 by no more than what two runs of one size differ by on a shared machine. */
const LINEAR = 1.25;
const FLAT = 1.25;

/**
 * Time and memory: what a further node costs between the two largest sizes over what it costs between the two smallest.
 * 1 is linear, below is better; a fixed share, such as Node's own start, does not count. One change: its cost at the
 * largest size over that at the smallest. Needs three sizes, and two for the latter; gives nothing for fewer.
 */
export function growthFigures(figures: readonly Figure[], sizes: readonly number[]): readonly Figure[] {
  const ascending = sizes.toSorted((a, b) => a - b);
  const value = (id: string): number => figures.find((figure) => figure.id === id)?.value ?? Number.NaN;
  const measured = ({ of }: Cost): boolean => ascending.every((size) => !Number.isNaN(value(of(size))));
  const grown: Figure[] = [];
  const [small, middle, large] = [ascending.at(0), ascending.at(-2), ascending.at(-1)];
  if (small === undefined || middle === undefined || large === undefined || small === large) return [];
  if (middle !== small) {
    for (const { id, what, of } of LINEAR_COSTS.filter(measured)) {
      const at = (size: number): number => value(of(size));
      const lower = (at(middle) - at(small)) / (middle - small);
      const upper = (at(large) - at(middle)) / (large - middle);
      grown.push({
        id,
        what: `growth of ${what}: a further node beyond ${middle} / below`,
        // More nodes that cost less are noise, of which no ratio tells anything: not met, and to be measured again.
        value: lower > 0 ? upper / lower : Number.NaN,
        unit: "x",
        budget: LINEAR,
        detail: ascending.map((size) => `${size}: ${at(size).toFixed(2)}`).join(", "),
      });
    }
  }
  for (const { id, what, of, fixed = 0 } of FLAT_COSTS.filter(measured)) {
    grown.push({
      id,
      what: `growth of ${what}: at ${large} nodes / at ${small}`,
      value: (value(of(large)) - fixed) / (value(of(small)) - fixed),
      unit: "x",
      budget: FLAT,
      detail: ascending.map((size) => `${size}: ${value(of(size)).toFixed(1)} ms`).join(", "),
    });
  }
  return grown;
}

interface Cost {
  readonly id: string;
  readonly what: string;
  readonly of: (size: number) => string;
  /** A part of it that is the same by design, and would hide what grows. */
  readonly fixed?: number;
}

const LINEAR_COSTS: readonly Cost[] = [
  { id: "growth-labels", what: "time to the last label", of: (size) => `labels-${size}-seconds` },
  { id: "growth-labels-cpu", what: "CPU to the last label", of: (size) => `labels-${size}-cpu` },
  { id: "growth-memory", what: "resident memory", of: (size) => `memory-${size}-nodes` },
];

const FLAT_COSTS: readonly Cost[] = [
  {
    id: "growth-change",
    what: `one change to its patch, p50 beyond the ${COALESCED_MS} ms of waiting`,
    of: (size) => `change-${size}-p50`,
    fixed: COALESCED_MS,
  },
  { id: "growth-change-cpu", what: "CPU for one change", of: (size) => `change-${size}-cpu` },
];
