/** One measured figure and the budget it is held against. */
export interface Figure {
  /** Stays the same from run to run, so that two results can be compared: `labels-5000-vs-raw`. */
  readonly id: string;
  readonly what: string;
  readonly value: number;
  readonly unit: Unit;
  /** The most it may be; absent: printed for information. */
  readonly budget?: number | undefined;
  /** What we would like it to be. */
  readonly aim?: number;
  /** How it was measured, and the numbers behind it. */
  readonly detail?: string;
  /** The single measurements that `value` is the median of. */
  readonly samples?: readonly number[];
}

/** `x` is a ratio, `us` are microseconds, `B` bytes. */
export type Unit = "x" | "MB" | "s" | "ms" | "us" | "B" | "requests" | "sockets";

export function median(values: readonly number[]): number {
  const sorted = values.toSorted((a, b) => a - b);
  const middle = Math.floor(sorted.length / 2);
  const high = sorted[middle] ?? Number.NaN;
  return sorted.length % 2 === 1 ? high : ((sorted[middle - 1] ?? Number.NaN) + high) / 2;
}

/** The value below which `share` of them lie. */
export function quantile(values: readonly number[], share: number): number {
  const sorted = values.toSorted((a, b) => a - b);
  return sorted[Math.min(sorted.length - 1, Math.floor(sorted.length * share))] ?? Number.NaN;
}

/** `undefined` when there is no budget. A figure that could not be measured (NaN) meets none. */
export function isMet({ value, budget }: Figure): boolean | undefined {
  return budget === undefined ? undefined : value <= budget;
}

/** Prints the figures aligned, with the budgets they miss last, and returns those that miss one. */
export function report(figures: readonly Figure[]): readonly Figure[] {
  const missed = figures.filter((figure) => isMet(figure) === false);
  const rows = figures.map((figure) => ({
    what: figure.what,
    value: withUnit(figure.value, figure),
    verdict: verdictOf(figure),
    detail: figure.detail ?? "",
  }));
  const width = (field: "what" | "value" | "verdict"): number =>
    Math.max(0, ...rows.map((row) => row[field].length));
  const [whatWidth, valueWidth, verdictWidth] = [width("what"), width("value"), width("verdict")];
  for (const { what, value, verdict, detail } of rows) {
    console.log(
      `  ${what.padEnd(whatWidth)}  ${value.padStart(valueWidth)}  ${verdict.padEnd(verdictWidth)}  ${detail}`.trimEnd(),
    );
  }
  for (const figure of missed) {
    const { what, value, budget } = figure;
    console.log(`missed budget: ${what}: ${withUnit(value, figure)}, budget ${budget} ${figure.unit}`);
  }
  return missed;
}

export function withUnit(value: number, { unit }: Pick<Figure, "unit">): string {
  return `${value.toFixed(DIGITS[unit])} ${unit}`;
}

const DIGITS: Readonly<Record<Unit, number>> = {
  x: 2,
  MB: 0,
  s: 2,
  ms: 1,
  us: 0,
  B: 0,
  requests: 0,
  sockets: 0,
};

function verdictOf(figure: Figure): string {
  const { budget, aim, value } = figure;
  if (budget === undefined) return "";
  if (!isMet(figure)) return `MISSED, budget ${budget}`;
  return aim !== undefined && value > aim ? `ok, budget ${budget}, aim ${aim}` : `ok, budget ${budget}`;
}
