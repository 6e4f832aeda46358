/** What Berth knows of each footprint in force, from all that serves it. */
import type { AdmissionHandle } from "@berth/host";
import type { NodeCounts } from "../node/pass.ts";
import type { WiredAgents } from "./agent/wiring.ts";
import { type FootprintProgress, SETTLING_MS } from "./conditions.ts";
import type { Footprint } from "./footprint.ts";
import type { WiredHolds } from "./hold/wiring.ts";
import type { FootprintWatches } from "./observations.ts";
import type { FootprintCounts, FootprintTally } from "./tally.ts";

export interface ProgressSources {
  readonly tally: Pick<FootprintTally, "unknownMs">;
  readonly counts: Pick<NodeCounts<FootprintCounts>, "of">;
  readonly watches: Pick<FootprintWatches, "whyUnread">;
  readonly holds: WiredHolds;
  readonly agents: WiredAgents;
  readonly admission: Pick<AdmissionHandle, "state">;
}

export class FootprintProgresses {
  readonly #of: ProgressSources;

  constructor(sources: ProgressSources) {
    this.#of = sources;
  }

  /** What the footprint lacks, mostly a right. */
  problems(footprint: Footprint): readonly string[] {
    const { watches, holds, agents } = this.#of;
    const found = [watches.whyUnread(footprint), holds.problem(footprint), agents.problem(footprint)];
    return found.filter((problem) => problem !== undefined);
  }

  /** The parts of the status that change without an event. */
  hindrances(footprint: Footprint): string {
    const { tally, holds } = this.#of;
    const isUnknown = tally.unknownMs(footprint.rule) >= SETTLING_MS;
    return JSON.stringify([this.problems(footprint), isUnknown, holds.progress(footprint).owners]);
  }

  of(footprint: Footprint): FootprintProgress {
    const { tally, counts, watches, holds, agents, admission } = this.#of;
    return {
      footprint,
      counts: counts.of(footprint.rule),
      unknownMs: tally.unknownMs(footprint.rule),
      unread: watches.whyUnread(footprint),
      ...agents.progress(footprint),
      ...holds.progress(footprint),
      wait: footprint.wait && admission.state(),
    };
  }
}
