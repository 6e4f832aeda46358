import type { VirtualClock } from "../clock.ts";
import { type Component, whenAborted } from "../component.ts";
import type { LeaderElection } from "../manager.ts";

/** A component that writes down what happens to it, and does what `behaviour` says. */
export function aComponent(
  name: string,
  story: string[],
  behaviour: Partial<Component> & { endsAfter?: Promise<void>; drain?: () => Promise<void> } = {},
): Component {
  return {
    name,
    start: (signal) => {
      story.push(`${name} starts`);
      const stopped = whenAborted(signal).then(() => story.push(`${name} stops`));
      const ended = (behaviour.endsAfter ?? stopped).then(() => undefined);
      const { drain } = behaviour;
      return Promise.resolve({ ended, ...(drain && { drain }) });
    },
    ...behaviour,
  };
}

/** An election whose outcome the test decides; it behaves as the contract of `LeaderElection` says. */
export class Election implements LeaderElection {
  readonly #story: string[];
  readonly #won = Promise.withResolvers<void>();
  readonly #lead = new AbortController();
  constructor(story: string[]) {
    this.#story = story;
  }
  win(): void {
    this.#won.resolve();
  }
  lose(): void {
    this.#story.push("lead lost");
    this.#lead.abort();
  }
  async run(signal: AbortSignal, callbacks: Parameters<LeaderElection["run"]>[1]): Promise<void> {
    await Promise.race([this.#won.promise, whenAborted(signal)]);
    if (signal.aborted) return;
    const lead = AbortSignal.any([signal, this.#lead.signal]);
    await callbacks.onStartedLeading(lead);
    await whenAborted(lead);
    if (signal.aborted) this.#story.push("lease released");
  }
}

/** Stops, and tells how long that took on the virtual clock. */
export async function stopAndMeasure(
  clock: VirtualClock,
  stop: () => void,
  ended: Promise<unknown>,
): Promise<number> {
  const startedAt = clock.monotonic();
  const times: number[] = [];
  void ended.then(() => times.push(clock.monotonic() - startedAt));
  stop();
  for (let i = 0; i < 1_000 && times.length === 0; i++) await clock.advance(10);
  return times[0] ?? Number.POSITIVE_INFINITY;
}
