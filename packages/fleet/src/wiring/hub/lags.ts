/** Since when cells lag behind the hub, and when each deployment was pushed again. A restart begins anew. */
import type { Clock } from "@berth/runtime";
import { ECHO_MS } from "../../drivers/karmada/carried.ts";
import { Latest } from "./memory.ts";

interface Lag {
  readonly generation: string;
  /** Monotonic ms. */
  readonly sinceMs: number;
  readonly pushedMs?: number;
}

export class Lags {
  readonly #clock: Pick<Clock, "monotonic">;
  readonly #known = new Latest<Lag>();

  constructor(clock: Pick<Clock, "monotonic">) {
    this.#clock = clock;
  }

  /** For how long its cell has not taken this generation, ms. @param uid of the deployment on the hub. */
  forMs(uid: string, generation: string): number {
    const known = this.#known.get(uid);
    return known?.generation === generation ? this.#clock.monotonic() - known.sinceMs : 0;
  }

  /** Its cell lags behind. @returns how long until it is pushed again, ms: 0 means now, and is noted. */
  push(uid: string, generation: string): number {
    const nowMs = this.#clock.monotonic();
    const before = this.#known.get(uid);
    const known = before?.generation === generation ? before : { generation, sinceMs: nowMs };
    const waitMs = (known.pushedMs ?? known.sinceMs) + ECHO_MS - nowMs;
    this.#known.set(uid, waitMs > 0 ? known : { ...known, pushedMs: nowMs });
    return Math.max(waitMs, 0);
  }

  /** It does not lag behind. */
  end(uid: string): void {
    this.#known.delete(uid);
  }
}
