import type { Clock } from "@berth/runtime";
import type { Output } from "./output.ts";

/** Commands report no progress for shorter work. */
const QUIET_MS = 2000;
/** Interval between two redraws on a terminal. Elsewhere a changed text is written less often. */
const REDRAW_MS = 200;
const REPEAT_MS = 10_000;

/**
 * Reports on standard error what a command waits for, after two seconds. On a terminal it redraws one line. Elsewhere
 * it writes a line now and then. Dispose to clear it.
 */
export class Progress implements Disposable {
  readonly #output: Output;
  readonly #clock: Clock;
  readonly #startedAt: number;
  #text: string;
  #drawn = false;
  #lastWritten: { readonly text: string; readonly at: number } | undefined;
  #timer: Disposable;

  constructor(output: Output, clock: Clock, text: string) {
    this.#output = output;
    this.#clock = clock;
    this.#startedAt = clock.monotonic();
    this.#text = text;
    this.#timer = clock.schedule(QUIET_MS, () => this.#draw());
  }

  /** @param text the current step, without the elapsed time. */
  update(text: string): void {
    this.#text = text;
  }

  get #clear(): string {
    return `\r${this.#output.sequence ?? "\x1b["}K`;
  }

  [Symbol.dispose](): void {
    this.#timer[Symbol.dispose]();
    if (this.#drawn) this.#output.write(this.#clear);
    this.#drawn = false;
  }

  #draw(): void {
    const now = this.#clock.monotonic();
    const line = `${this.#text} … ${formatSeconds(now - this.#startedAt)}`;
    if (this.#output.isTerminal) {
      this.#output.write(`${this.#clear}${line.slice(0, (this.#output.columns ?? 80) - 1)}`);
      this.#drawn = true;
    } else if (this.#isNews(now)) {
      this.#output.write(`${line}\n`);
      this.#lastWritten = { text: this.#text, at: now };
    }
    this.#timer = this.#clock.schedule(REDRAW_MS, () => this.#draw());
  }

  #isNews(now: number): boolean {
    return this.#lastWritten === undefined || now - this.#lastWritten.at >= REPEAT_MS;
  }
}

/** `4 s`, `2 min 05 s`. */
export function formatSeconds(ms: number): string {
  const seconds = Math.floor(ms / 1000);
  if (seconds < 60) return `${seconds} s`;
  return `${Math.floor(seconds / 60)} min ${String(seconds % 60).padStart(2, "0")} s`;
}
