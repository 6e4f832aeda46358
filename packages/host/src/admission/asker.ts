/** Asks the API server what reviews need to know: few questions at a time, and equal ones once. */
import { createHash } from "node:crypto";
import { type Clock, createRoom } from "@berth/runtime";

/** For whom a question is asked. Any client that reaches the port can claim any user and namespace. */
export interface Asking {
  readonly user: string;
  readonly namespace: string;
  /** The address of the client. Absent: an API server that has shown its certificate. */
  readonly peer: string | undefined;
}

export interface Asker {
  /**
   * The answer of `send`, or the one that an equal question got a moment ago. Rejects as `send` does, and only answers
   * are kept.
   *
   * @returns `undefined` when too many questions are open, or were sent of late. The caller must be told to ask again.
   */
  ask<T>(question: unknown, asking: Asking, send: () => Promise<T>): Promise<T> | undefined;
}

/** Open questions at once. A client for them needs as many connections, so that none waits behind those of others. */
export const MAX_QUESTIONS = 32;
/** `open` at once, and `perSecond` on average: a Workload takes up to 16. */
const OF_NAMESPACE = { open: 4, perSecond: 100 };
/** Of one user in a namespace. */
const OF_USER = { open: 2, perSecond: 50 };
/** A pause saves the questions of this time, ms. */
const BURST_MS = 2_000;
/** An answer counts this long, ms. */
const KEPT_MS = 3_000;
/** Answers that are remembered; namespaces and users as well. */
const MAX_KEPT = 1_000;

/** Creates an asker. Clients of one address leave half of the questions to all others. */
export function createAsker(clock: Clock): Asker {
  const room = createRoom(MAX_QUESTIONS);
  const open = new Map<string, number>();
  /** Until when each namespace and user has used its share. Monotonic, ms. */
  const usedUntil = new Map<string, number>();
  const known = new Map<string, { readonly answer: Promise<unknown>; untilMs: number }>();
  const take = ({ user, namespace, peer }: Asking): Disposable | undefined => {
    const bounds = [
      [digest([namespace]), OF_NAMESPACE],
      [digest([namespace, user]), OF_USER],
    ] as const;
    if (bounds.some(([of, most]) => (open.get(of) ?? 0) >= most.open)) return undefined;
    const now = clock.monotonic();
    const uses = bounds.map(([of, { perSecond }]) => {
      return [of, Math.max(usedUntil.get(of) ?? now, now) + 1000 / perSecond] as const;
    });
    if (uses.some(([, until]) => until - now > BURST_MS)) return undefined;
    const place = room.take(1, peer);
    if (place === undefined) return undefined;
    for (const [of, until] of uses) {
      remember(usedUntil, of, until);
      open.set(of, (open.get(of) ?? 0) + 1);
    }
    return {
      [Symbol.dispose]() {
        place[Symbol.dispose]();
        for (const [of] of bounds)
          if (open.get(of) === 1) open.delete(of);
          else open.set(of, (open.get(of) ?? 0) - 1);
      },
    };
  };
  const asked = async <T>(key: string, place: Disposable, send: () => Promise<T>): Promise<T> => {
    using _place = place;
    try {
      const answer = await send();
      const entry = known.get(key);
      if (entry !== undefined) entry.untilMs = clock.monotonic() + KEPT_MS;
      return answer;
    } catch (error) {
      known.delete(key);
      throw error;
    }
  };
  return {
    ask<T>(question: unknown, asking: Asking, send: () => Promise<T>): Promise<T> | undefined {
      const key = digest(question);
      const entry = known.get(key);
      if (entry !== undefined && clock.monotonic() < entry.untilMs) return entry.answer as Promise<T>;
      const place = take(asking);
      if (place === undefined) return undefined;
      const answer = asked(key, place, send);
      remember(known, key, { answer, untilMs: Number.POSITIVE_INFINITY });
      return answer;
    },
  };
}

/** As the youngest of the `MAX_KEPT` entries. */
function remember<V>(entries: Map<string, V>, key: string, value: V): void {
  entries.delete(key);
  entries.set(key, value);
  for (const oldest of entries.keys()) {
    if (entries.size <= MAX_KEPT) break;
    entries.delete(oldest);
  }
}

/** A question may be as long as a review. */
function digest(question: unknown): string {
  return createHash("sha256").update(JSON.stringify(question)).digest("base64");
}
