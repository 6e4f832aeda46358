/** Tells a person how far the first build of a binary is. */
import type { BuildProgress } from "@berth/testcluster";

/** Milliseconds. */
const TELL_EVERY_MS = 15_000;

/** For one build: prints a line now and then. */
export function tellBuild(what: string, packagesInAll: number): (progress: BuildProgress) => void {
  let toldAt = Number.NEGATIVE_INFINITY;
  return ({ elapsedMs, packages, current }) => {
    if (elapsedMs - toldAt < TELL_EVERY_MS) return;
    toldAt = elapsedMs;
    const seconds = Math.round(elapsedMs / 1000);
    console.log(
      `building the ${what}, once: ${seconds} s, ${packages} of about ${packagesInAll} packages, ${current}`,
    );
  };
}
