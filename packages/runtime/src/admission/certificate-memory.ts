import { type Clock, sleep, systemClock } from "../clock.ts";
import { type Component, createLoopComponent } from "../component.ts";
import type { Logger } from "../log.ts";
import {
  lifetimesOf,
  makeContent,
  NO_CONTENT,
  planCertificates,
  type StandingContent,
  takeOver,
} from "./certificate-content.ts";
import type { CertificateSource } from "./certificate-source.ts";

/** The names, and the callback. */
export interface CertificateMemoryOptions {
  /** DNS names and IP addresses that clients call the server by; at least one. */
  readonly hosts: readonly string[];
  /** Names the component; default `certificates`. */
  readonly name?: string;
  readonly log: Logger;
  /** Default: the machine's. */
  readonly clock?: Clock;
  /** Called after `current` or `caBundle` changed. Must not throw. */
  readonly onChange?: () => void;
}

/** Timers use monotonic time and certificates wall time; the two diverge while a machine sleeps. */
const LOOK_AGAIN_MS = 60 * 60 * 1000;

/**
 * Makes an authority and serving certificates when it starts, and renews them as `CertificateKeeper` does. It stores
 * nothing. So each process has an authority of its own, and only one process can serve under the same URL.
 */
export function createCertificateMemory(options: CertificateMemoryOptions): CertificateSource & Component {
  const { hosts, log, clock = systemClock, onChange } = options;
  const lifetimes = lifetimesOf();
  let good: StandingContent | undefined;
  const problem = (): string | undefined =>
    good === undefined ? "there is no certificate yet" : good.faultAt(clock.now());
  const loop = createLoopComponent({
    name: options.name ?? "certificates",
    async run(signal) {
      while (!signal.aborted) {
        const content = good?.content ?? NO_CONTENT;
        const nowMs = clock.now();
        const plan = planCertificates({ content, ours: true, hosts, lifetimes, nowMs });
        if (plan.step === "wait" || plan.step === "leave") {
          await sleep(clock, LOOK_AGAIN_MS, signal);
          continue;
        }
        good = takeOver(await makeContent(plan, { content, hosts, lifetimes, nowMs }), good);
        log.info("renewed certificates", { step: plan.step, why: plan.why });
        onChange?.();
      }
    },
    problem,
  });
  return {
    name: loop.name,
    start: (signal) => loop.start(signal),
    problem,
    current: () => good?.pair,
    caBundle: () => good?.bundle,
  };
}
