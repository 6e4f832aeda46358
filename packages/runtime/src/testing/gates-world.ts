import { ApiError, type ApiFailure, type RequestInfo } from "@berth/kube";
import { createVirtualClock, sleep, type VirtualClock } from "../clock.ts";
import { type RefusedKind, RequestGates } from "../guard/request-gates.ts";
import { isShared } from "../shared-failure.ts";

export const PATCH: RequestInfo = { verb: "patch", resource: "nodes" };

/** A server that answers after a while, as its mood is when the request arrives. */
class Server {
  readonly sentAt: number[] = [];
  readonly #clock: VirtualClock;
  tookMs = 5;
  mood: (about: RequestInfo) => ApiFailure | undefined = () => undefined;
  inFlight = 0;

  constructor(clock: VirtualClock) {
    this.#clock = clock;
  }

  async answer(about: RequestInfo): Promise<void> {
    this.sentAt.push(this.#clock.monotonic());
    this.inFlight++;
    const failure = this.mood(about);
    await sleep(this.#clock, this.tookMs);
    this.inFlight--;
    if (failure !== undefined) throw new ApiError(failure, about);
  }
}

export interface GatesWorld {
  readonly clock: VirtualClock;
  readonly server: Server;
  readonly gates: RequestGates;
  readonly refused: readonly RefusedKind[];
  readonly taken: readonly RefusedKind[];
  /** When each object was written, monotonic ms. */
  readonly doneAt: ReadonlyMap<string, number>;
  /** Writes this object, as a controller does: again when it is told to. */
  readonly write: (name: string) => Promise<void>;
}

export function world(random: () => number = () => 0.5): GatesWorld {
  const clock = createVirtualClock();
  const server = new Server(clock);
  const [refused, taken]: [RefusedKind[], RefusedKind[]] = [[], []];
  const gates = new RequestGates({
    clock,
    random,
    onRefused: (kind) => refused.push(kind),
    onTaken: (kind) => taken.push(kind),
  });
  const doneAt = new Map<string, number>();
  return {
    clock,
    server,
    gates,
    refused,
    taken,
    doneAt,
    write: async (name: string): Promise<void> => {
      for (;;) {
        try {
          const about = { ...PATCH, name };
          await gates.run(about, () => server.answer(about));
          doneAt.set(name, clock.monotonic());
          return;
        } catch (error) {
          await sleep(clock, isShared(error) ? (error.retryAfterMs ?? 0) : 1_000);
        }
      }
    },
  };
}
