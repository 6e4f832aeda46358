/** One measured figure and the budget it is held against. */
export interface Figure {
  readonly what: string;
  readonly value: number;
  /** `x` for a ratio, `MB`, `s`, `requests`. */
  readonly unit: string;
  /** The most it may be; absent: printed for information. */
  readonly budget?: number;
  /** How it was measured, and the numbers behind it. */
  readonly detail?: string;
}

export function median(values: readonly number[]): number {
  const sorted = values.toSorted((a, b) => a - b);
  const middle = Math.floor(sorted.length / 2);
  const high = sorted[middle] ?? Number.NaN;
  return sorted.length % 2 === 1 ? high : ((sorted[middle - 1] ?? Number.NaN) + high) / 2;
}

/** Prints the figures aligned and returns those over budget. */
export function report(figures: readonly Figure[]): readonly Figure[] {
  const width = Math.max(...figures.map(({ what }) => what.length));
  const missed = figures.filter(({ value, budget }) => budget !== undefined && !(value <= budget));
  for (const figure of figures) {
    const value = `${figure.value.toFixed(figure.unit === "x" ? 2 : figure.unit === "requests" ? 0 : 1)} ${figure.unit}`;
    const verdict =
      figure.budget === undefined
        ? ""
        : missed.includes(figure)
          ? `MISSED, budget ${figure.budget}`
          : `ok, budget ${figure.budget}`;
    console.log(
      `  ${figure.what.padEnd(width)}  ${value.padStart(14)}  ${verdict.padEnd(20)}${figure.detail ?? ""}`,
    );
  }
  for (const { what, value, unit, budget } of missed) {
    console.log(`missed budget: ${what}: ${value.toFixed(2)} ${unit}, budget ${budget} ${unit}`);
  }
  return missed;
}
