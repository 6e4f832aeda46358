import {
  ApiError,
  type ApiFailure,
  type KubeObject,
  type Lease,
  type ObjectName,
  type Resource,
} from "@berth/kube";
import type { Clock } from "../clock.ts";
import type { LeaseClient } from "../leader-election.ts";

/** One compare-and-swap register, which is all that an election asks of the API server. */
export class LeaseRegister {
  /** The Lease after each write. */
  readonly writes: Lease[] = [];
  #forgotten = 0;
  readonly #onWrite: (before: Lease | undefined, after: Lease) => void;

  constructor(onWrite: (before: Lease | undefined, after: Lease) => void) {
    this.#onWrite = onWrite;
  }

  get current(): Lease | undefined {
    return this.#forgotten === this.writes.length ? undefined : this.writes.at(-1);
  }

  /** As when a user deletes the Lease. */
  forget(): void {
    this.#forgotten = this.writes.length;
  }

  /** @throws ApiError as the server would answer. */
  apply(verb: "get" | "create" | "replace", object?: Lease): Lease {
    const { current } = this;
    if (verb !== "create" && current === undefined) throw failed({ kind: "notFound" });
    if (verb === "create" && current !== undefined) throw failed({ kind: "alreadyExists" });
    const { uid = "uid-1", resourceVersion } = current?.metadata ?? {};
    if (verb === "replace" && object?.metadata?.resourceVersion !== resourceVersion)
      throw failed({ kind: "conflict", causes: [] });
    if (object !== undefined) {
      const metadata = { ...object.metadata, uid, resourceVersion: `${this.writes.length + 1}` };
      this.writes.push({ ...object, metadata });
      this.#onWrite(current, { ...object, metadata });
    }
    if (this.current === undefined) throw failed({ kind: "notFound" });
    return this.current;
  }
}

/** What one request meets: time until it reaches the register and until its answer arrives, and what goes wrong. */
export interface LeaseWeather {
  readonly thereMs: number;
  readonly backMs: number;
  /** `broken`: carried out, and answered with a failure. */
  readonly fault?: "request lost" | "answer lost" | "refused" | "broken";
}

export const CALM: LeaseWeather = { thereMs: 1, backMs: 1 };

/** A machine that an elector runs on. Its clock goes wrong in every way in which clocks do. */
export interface Machine {
  readonly clock: Clock;
  /** It does nothing more, ever; what it has sent is under way. */
  crash(): void;
  /** It does nothing for so long, in true time. Then it catches up. */
  stall(ms: number): void;
  /** Moves its wall clock. */
  jump(ms: number): void;
  readonly crashed: boolean;
  /** Also in the moment in which it wakes: nothing has run yet. */
  readonly stalled: boolean;
}

/** @param rate seconds of its monotonic clock for one true second. */
export function createMachine(truth: Clock, { rate, skewMs }: { rate: number; skewMs: number }): Machine {
  let crashed = false;
  let stalledUntil = Number.NEGATIVE_INFINITY;
  let wallMs = skewMs;
  const schedule = (trueMs: number, callback: () => void): Disposable => {
    let timer = truth.schedule(trueMs, () => {
      if (crashed) return;
      const leftMs = stalledUntil - truth.monotonic();
      if (leftMs <= 0) callback();
      else timer = schedule(leftMs, callback);
    });
    return { [Symbol.dispose]: () => timer[Symbol.dispose]() };
  };
  return {
    clock: {
      now: () => truth.now() + wallMs,
      monotonic: () => truth.monotonic() * rate + skewMs,
      schedule: (delayMs, callback) => schedule(delayMs / rate, callback),
    },
    crash: () => void (crashed = true),
    stall: (ms) => void (stalledUntil = Math.max(stalledUntil, truth.monotonic() + ms)),
    jump: (ms) => void (wallMs += ms),
    get crashed() {
      return crashed;
    },
    get stalled() {
      return truth.monotonic() <= stalledUntil;
    },
  };
}

/** A client on a machine. Requests travel in true time; the machine sees answers and timeouts in its own. */
export function leaseClientOf(
  register: LeaseRegister,
  { truth, machine, weather }: { truth: Clock; machine: Machine; weather: () => LeaseWeather },
): LeaseClient {
  type Options = { readonly signal?: AbortSignal; readonly timeoutMs?: number } | undefined;
  const send = (
    verb: "get" | "create" | "replace",
    options: Options,
    object?: KubeObject,
  ): Promise<KubeObject> =>
    new Promise((resolve, reject) => {
      const { thereMs, backMs, fault } = weather();
      const timeoutMs = options?.timeoutMs ?? 30_000;
      const stop = (): void => finish(() => reject(failed({ kind: "aborted" })));
      const timer = machine.clock.schedule(timeoutMs, () =>
        finish(() => reject(failed({ kind: "timeout", afterMs: timeoutMs }))),
      );
      const finish = (settle: () => void): void => {
        timer[Symbol.dispose]();
        options?.signal?.removeEventListener("abort", stop);
        settle();
      };
      if (options?.signal?.aborted) return stop();
      options?.signal?.addEventListener("abort", stop, { once: true });
      if (fault === "request lost") return;
      truth.schedule(thereMs, () => {
        const answer = settledBy(() => {
          if (fault === "refused") throw failed({ kind: "serverError", status: 500 });
          return register.apply(verb, object);
        });
        if (fault === "answer lost") return;
        const deliver = (): void => {
          if (fault === "broken") reject(failed({ kind: "unreachable" }));
          else if ("error" in answer) reject(answer.error);
          else resolve(answer.value);
        };
        // No request takes no time: work that fails at once would be begun again for ever, at one moment.
        truth.schedule(Math.max(1, backMs), () => machine.clock.schedule(0, () => finish(deliver)));
      });
    });
  return {
    get: async <T extends KubeObject>(_: Resource<T>, _of: ObjectName, options: Options) =>
      (await send("get", options)) as T,
    create: async <T extends KubeObject>(_: Resource<T>, object: T, options: Options) =>
      (await send("create", options, object)) as T,
    replace: async <T extends KubeObject>(_: Resource<T>, object: T, options: Options) =>
      (await send("replace", options, object)) as T,
  };
}

function failed(failure: ApiFailure): ApiError {
  return new ApiError(failure, { verb: "update", resource: "leases.coordination.k8s.io" });
}

function settledBy<T>(run: () => T): { readonly value: T } | { readonly error: Error } {
  try {
    return { value: run() };
  } catch (error) {
    if (!(error instanceof Error)) throw error;
    return { error };
  }
}
