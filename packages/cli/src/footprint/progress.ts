/** How far each footprint is, put together from all that is counted, watched and refused: for its conditions. */
import {
  type Footprint,
  type FootprintJudgement,
  type FootprintProgress,
  type FootprintWatches,
  SETTLING_MS,
} from "@berth/placement";
import type { AgentParts } from "./agent-parts.ts";
import type { NodeCounts } from "./counts.ts";
import type { HoldParts } from "./hold-parts.ts";

export interface FootprintProgressOptions {
  readonly inForce: () => readonly Footprint[];
  readonly counts: NodeCounts;
  readonly watches: Pick<FootprintWatches, "whyUnread">;
  readonly holds: Pick<HoldParts, "problem" | "progress">;
  /** Whether the API server asks about new pods that are to wait. */
  readonly admission: () => FootprintJudgement | undefined;
  readonly agents: Pick<AgentParts, "problem" | "progress">;
}

export interface FootprintProgresses {
  /** `undefined` while it is not in force. */
  of(rule: string): FootprintProgress | undefined;
  /** What else than counts has come to be said of a footprint: the same text, the same conditions. */
  hindrances(footprint: Footprint): string;
  /** Footprints in force that lack something, most of them a right. */
  readonly hindered: number;
}

export function createFootprintProgresses(options: FootprintProgressOptions): FootprintProgresses {
  const { inForce, counts, watches, holds, admission, agents } = options;
  const { tally } = counts;
  const problemsOf = (footprint: Footprint): readonly (string | undefined)[] => [
    watches.whyUnread(footprint),
    holds.problem(footprint),
    agents.problem(footprint),
  ];
  return {
    of(rule) {
      const footprint = inForce().find((it) => it.rule === rule);
      if (footprint === undefined) return undefined;
      return {
        footprint,
        counts: counts.of(rule),
        unknownMs: tally.unknownMs(rule),
        unread: watches.whyUnread(footprint),
        ...agents.progress(footprint),
        ...holds.progress(footprint),
        wait: footprint.wait && admission(),
      };
    },
    hindrances(footprint) {
      const isLong = tally.unknownMs(footprint.rule) >= SETTLING_MS;
      const { owners } = holds.progress(footprint);
      return JSON.stringify([...problemsOf(footprint).map((it) => it ?? ""), isLong, owners]);
    },
    get hindered() {
      return inForce().filter((it) => problemsOf(it).some((problem) => problem !== undefined)).length;
    },
  };
}
