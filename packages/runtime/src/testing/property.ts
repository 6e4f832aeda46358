import { type Arbitrary, constantFrom, record, tuple } from "fast-check";

/** The environment of the tests: `BERTH_SEED` repeats a run, `BERTH_RUNS_FACTOR` takes that many times as many cases. */
export type TestEnvironment = Readonly<Record<string, string | undefined>>;

/** One run of random cases that the seed alone repeats. */
export interface SeededRun {
  /** For `fc.assert`. The limit is there so that what was found is told, however long it takes to make it smaller. */
  readonly parameters: {
    readonly seed: number;
    readonly numRuns: number;
    readonly interruptAfterTimeLimit: number;
    readonly markInterruptAsFailure: true;
  };
  /** For `it`: enough for a run that takes longer, or has to shrink what it found. */
  readonly options: { readonly timeout: number };
  /** `seed 123`, for the title of the test: so the seed is seen whether it passes or fails. */
  readonly name: string;
}

/**
 * A run of so many random cases, with a new seed each time unless `BERTH_SEED` names one. It can be repeated as long
 * as everything random comes from the arbitraries of the property, and every wait from a virtual clock.
 *
 * @throws RangeError when a variable is no number, as the run would not be the one asked for.
 */
export function seededRun(cases: number, env: TestEnvironment): SeededRun {
  // The seeds of fast-check are 32 bits wide.
  const seed = numberIn(env, "BERTH_SEED") ?? Math.floor(Math.random() * 2 ** 31);
  const factor = numberIn(env, "BERTH_RUNS_FACTOR") ?? 1;
  const limitMs = 60_000 * Math.max(1, factor);
  return {
    parameters: {
      seed,
      numRuns: Math.max(1, Math.ceil(cases * factor)),
      interruptAfterTimeLimit: limitMs,
      markInterruptAsFailure: true,
    },
    options: { timeout: 2 * limitMs },
    name: `seed ${seed}`,
  };
}

function numberIn(env: TestEnvironment, name: string): number | undefined {
  const text = env[name];
  if (text === undefined || text === "") return undefined;
  const number = Number(text);
  if (!Number.isFinite(number)) throw new RangeError(`${name} must be a number, got ${JSON.stringify(text)}`);
  return number;
}

/** A step of a random history, and how often it is drawn among the others. */
export interface WeightedStep<T> {
  readonly weight: number;
  readonly arbitrary: Arbitrary<T>;
}

/** One of these actions, as `do`, with these fields. An action that stands twice is drawn twice as often. */
export function steps<const D extends string, F extends object>(
  weight: number,
  actions: readonly D[],
  fields: { readonly [K in keyof F]: Arbitrary<F[K]> },
): WeightedStep<{ readonly do: D } & F> {
  const action = constantFrom(...actions);
  return {
    weight,
    arbitrary: tuple(action, record<F>(fields)).map(([does, rest]) => Object.assign({ do: does }, rest)),
  };
}

/** Numbers from 0 to 1 that repeat for a seed (a linear congruential generator; its quality does not matter here). */
export function randomFrom(seed: number): () => number {
  let state = seed;
  return () => {
    state = (state * 1_103_515_245 + 12_345) % 2 ** 31;
    return state / 2 ** 31;
  };
}
