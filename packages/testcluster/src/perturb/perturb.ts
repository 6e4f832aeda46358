/** Replays a story with every perturbation there is, one after the other, on one cluster. */
import type { KeyPair } from "../certificates.ts";
import type { TestCluster } from "../cluster.ts";
import { describeHistory } from "./forbidden.ts";
import { recordVersions, type VersionLog } from "./history.ts";
import { formatPoint, type Pattern, type Point, patterns } from "./point.ts";
import type { PerturbationStory } from "./story.ts";
import { type Telling, tell } from "./telling.ts";

/** Where it runs, and which perturbations. */
export interface PerturbOptions {
  /** It has the objects of the story's kinds to itself while this runs. */
  readonly cluster: TestCluster;
  /** At least `PerturbationStory.others` of them. Default none. */
  readonly others?: readonly TestCluster[];
  /** Only the perturbations with this name, as `formatPoint` writes it. Default all. */
  readonly point?: string;
  /** Which of all perturbations of the story, for a shorter run. Default all. */
  readonly choose?: (points: readonly Point[]) => readonly Point[];
  /** Older views are at most so many steps old. Default what the story says. */
  readonly oldestView?: number;
  /** For each single wait. Milliseconds, default 20,000: nothing here takes a tenth of it on a machine in use. */
  readonly timeoutMs?: number;
  /** Perturbations with violations after which it gives up, because each may cost a whole wait. Default 10. */
  readonly mostViolations?: number;
  /** Told as each replay begins. */
  readonly onProgress?: (progress: PerturbProgress) => void;
}

/** How far it has come. */
export interface PerturbProgress {
  readonly done: number;
  readonly of: number;
  readonly point: string;
}

/** A replay that did not end as it should. */
export interface Violation {
  /** `undisturbed` or the name of the perturbation. */
  readonly point: string;
  readonly problems: readonly string[];
  /** The versions that show it, a line each. */
  readonly history: readonly string[];
}

/** What came of all replays. */
export interface PerturbResult {
  readonly story: string;
  readonly replays: Readonly<Record<Pattern, number>>;
  readonly violations: readonly Violation[];
  /** Perturbations whose request, event or version did not come in their replay: nothing was tested. */
  readonly notReached: readonly string[];
  /** There were so many violations that the rest was not replayed. */
  readonly gaveUp: boolean;
  readonly tookMs: number;
}

/**
 * Tells the story undisturbed, twice; counts the controller's requests and watch events and the versions of objects; and
 * then replays it once for each of them and each pattern. Takes about a third of a second a replay.
 *
 * @throws (rejects) what a story's own set-up throws; RangeError when `point` names no perturbation of the story, and
 * when there are fewer `others` than it needs.
 */
export async function perturb(story: PerturbationStory, options: PerturbOptions): Promise<PerturbResult> {
  const startedAt = performance.now();
  const {
    cluster,
    others = [],
    timeoutMs = 20_000,
    mostViolations = 10,
    onProgress,
    choose = (all) => all,
  } = options;
  if (others.length < (story.others ?? 0))
    throw new RangeError(`the story ${story.name} needs ${story.others} other clusters`);
  await using log = await recordVersions(cluster.client, story.resources);
  const certificate = await cluster.authority.issueServing(["127.0.0.1"]);
  const told = createTeller({ story, cluster, others, certificate, log, timeoutMs });
  const first = await told();
  // Once more, no slower than the replays, so that what a timer does in the first one alone is not looked for in them.
  const rehearsal = first.violations.length > 0 ? first : await told(first.states);
  const violations: Violation[] = toViolation("undisturbed", rehearsal);
  const notReached: string[] = [];
  const replays = { "kill-before": 0, "kill-after": 0, stale: 0, paused: 0 };
  const { footprint } = rehearsal;
  // One that is asked for by name may be as old as it likes.
  const oldest = options.point === undefined ? (options.oldestView ?? story.oldestView) : undefined;
  const versions = withoutOlder(first.versions, oldest ?? Number.POSITIVE_INFINITY);
  const all = pointsOf({ footprint, versions }, options.point);
  // An undisturbed telling that goes wrong says all there is to say.
  const points = violations.length > 0 ? [] : choose(all);
  for (const [index, point] of points.entries()) {
    const name = formatPoint(point);
    onProgress?.({ done: index, of: points.length, point: name });
    const telling = await told(first.states, point);
    replays[point.pattern] += 1;
    violations.push(...toViolation(name, telling));
    if (!telling.reached) notReached.push(name);
    if (violations.length >= mostViolations) break;
  }
  const gaveUp = violations.length >= mostViolations;
  return {
    story: story.name,
    replays,
    violations,
    notReached,
    gaveUp,
    tookMs: performance.now() - startedAt,
  };
}

/** Of the versions before each step those of the last steps only. */
function withoutOlder(versions: Telling["versions"], steps: number): Telling["versions"] {
  return versions.map(({ step, names }, index) => {
    const before = versions[index - steps]?.names.length ?? 0;
    return { step, names: names.slice(before) };
  });
}

/** The perturbations of a story. */
export function pointsOf(
  { footprint, versions }: Pick<Telling, "footprint" | "versions">,
  only?: string,
): readonly Point[] {
  const all: readonly Point[] = [
    ...footprint.requests.map((request): Point => ({ pattern: "kill-before", request })),
    ...footprint.requests.map((request): Point => ({ pattern: "kill-after", request })),
    ...versions.flatMap(({ step, names }) =>
      names.map((version): Point => ({ pattern: "stale", step, version })),
    ),
    ...footprint.events.map((event): Point => ({ pattern: "paused", event })),
  ];
  const chosen = only === undefined ? all : all.filter((point) => formatPoint(point) === only);
  if (only !== undefined && chosen.length === 0) {
    const names = all.map((point) => `  ${formatPoint(point)}`).join("\n");
    throw new RangeError(`the story has no point "${only}"; it has\n${names}`);
  }
  return chosen;
}

/** `perturb: labels/folder: 214 replays (61 kill-before, …), 0 violations, 0 not reached, 41 s`. */
export function describeResult({
  story,
  replays,
  violations,
  notReached,
  gaveUp,
  tookMs,
}: PerturbResult): string {
  const total = patterns.reduce((sum, pattern) => sum + replays[pattern], 0);
  const each = patterns.map((pattern) => `${replays[pattern]} ${pattern}`).join(", ");
  const end = gaveUp ? ", gave up" : "";
  return (
    `perturb: ${story}: ${total} replays (${each}), ${violations.length} violations, ` +
    `${notReached.length} not reached, ${Math.round(tookMs / 1000)} s${end}`
  );
}

/** Point, problems and history. With this point, `perturb` replays just this one. */
export function describeViolation(story: string, { point, problems, history }: Violation): string {
  return [
    `perturb: ${story}: ${point}`,
    ...problems.map((problem) => `  ${problem}`),
    "  history:",
    ...history.map((line) => `    ${line}`),
  ].join("\n");
}

interface TellerOptions {
  readonly story: PerturbationStory;
  readonly cluster: TestCluster;
  readonly others: readonly TestCluster[];
  readonly certificate: KeyPair;
  readonly log: VersionLog;
  readonly timeoutMs: number;
}

/** Tells the story again and again, each time with other names. */
function createTeller(
  options: TellerOptions,
): (states?: readonly unknown[], point?: Point) => Promise<Telling> {
  const head = options.story.name.toLowerCase().replaceAll(/[^a-z0-9]+/g, "-");
  let count = 0;
  return (states, point) => {
    count += 1;
    return tell({
      ...options,
      prefix: `${head}-${count}-`,
      ...(states && { states }),
      ...(point && { point }),
    });
  };
}

function toViolation(point: string, { violations, history }: Telling): Violation[] {
  if (violations.length === 0) return [];
  return [{ point, problems: violations, history: describeHistory(history) }];
}
