import type { Direction } from "./tcp-lane.ts";

/** When a step acts, counted from the moment the step before it has acted. */
export type ScriptTrigger =
  /** Right after that many connections have been accepted; the last of them still under the old state. */
  | { readonly connections: number }
  /** After exactly that many bytes have arrived, in one direction or (absent) both together, over all connections. */
  | { readonly bytes: number; readonly direction?: Direction }
  /** Milliseconds. */
  | { readonly ms: number };

/** What happens to a link, and when. */
export interface StepOf<L> {
  readonly after: ScriptTrigger;
  /** Usually one call of a control: `(link) => link.serverToClient.stall()`. */
  readonly do: (link: L) => void;
}

/** A script that runs. Dispose to stop it; what it has already done stays done. */
export interface Playback extends Disposable {
  /** `true` once the last step has acted, `false` when stopped before. Rejects with what a step has thrown. */
  readonly done: Promise<boolean>;
}

/** Walks through the steps of one script. */
export class ScriptPlayer<L> implements Playback {
  readonly done: Promise<boolean>;
  readonly #link: L;
  readonly #steps: Iterator<StepOf<L>>;
  readonly #outcome: PromiseWithResolvers<boolean> = Promise.withResolvers<boolean>();
  #current: StepOf<L> | undefined;
  #left = 0;
  #timer: NodeJS.Timeout | undefined;

  constructor(link: L, steps: readonly StepOf<L>[]) {
    this.#link = link;
    this.#steps = steps[Symbol.iterator]();
    this.done = this.#outcome.promise;
    this.#advance();
  }

  get finished(): boolean {
    return this.#current === undefined;
  }

  /** Bytes of that direction that may pass before the current step acts. */
  allowance(direction: Direction): number {
    return this.#counts(direction) ? this.#left : Number.POSITIVE_INFINITY;
  }

  onBytes(direction: Direction, count: number): void {
    if (this.#counts(direction)) this.#countDown(count);
  }

  onConnection(): void {
    if (this.#current && "connections" in this.#current.after) this.#countDown(1);
  }

  [Symbol.dispose](): void {
    this.#finish(() => this.#outcome.resolve(false));
  }

  #counts(direction: Direction): boolean {
    const after = this.#current?.after;
    return after !== undefined && "bytes" in after && (after.direction ?? direction) === direction;
  }

  #countDown(by: number): void {
    this.#left -= by;
    if (this.#left <= 0) this.#act();
  }

  #act(): void {
    const step = this.#current;
    if (!step) return;
    try {
      step.do(this.#link);
    } catch (error) {
      return this.#finish(() => this.#outcome.reject(error));
    }
    // The step may have stopped the script, or closed the link.
    if (this.#current === step) this.#advance();
  }

  #advance(): void {
    const next = this.#steps.next();
    if (next.done) return this.#finish(() => this.#outcome.resolve(true));
    const { after } = next.value;
    this.#current = next.value;
    if ("ms" in after) this.#timer = setTimeout(() => this.#act(), after.ms);
    else this.#left = "bytes" in after ? after.bytes : after.connections;
    if (!("ms" in after) && this.#left <= 0) this.#act();
  }

  #finish(settle: () => void): void {
    clearTimeout(this.#timer);
    this.#current = undefined;
    settle();
  }
}
