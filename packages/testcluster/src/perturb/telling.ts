/** Tells a story once, from the beginning, with or without a perturbation. */
import { isDeepStrictEqual } from "node:util";
import type { Resource } from "@berth/kube";
import type { KeyPair } from "../certificates.ts";
import type { TestCluster } from "../cluster.ts";
import type { Interceptor } from "../fault/interceptor.ts";
import { type HistoryEntry, isStatusOnly, type Version, type VersionLog } from "./history.ts";
import { Incarnation } from "./incarnation.ts";
import { createOlderView } from "./older-view.ts";
import { createPerturbation, type Footprint, type Perturbation } from "./perturbation.ts";
import { NOTHING, nameOfVersion, Occurrences, type Point } from "./point.ts";
import { NotedStage } from "./stage.ts";
import type { PerturbationStory, Scene, Step } from "./story.ts";

export interface TellingOptions {
  readonly cluster: TestCluster;
  readonly others: readonly TestCluster[];
  readonly certificate: KeyPair;
  readonly log: VersionLog;
  readonly story: PerturbationStory;
  /** Begins the names of its objects. */
  readonly prefix: string;
  /** For each single wait. Milliseconds. */
  readonly timeoutMs: number;
  /** What goes wrong. Default nothing. */
  readonly point?: Point;
  /** The state after the start, and after each step, as found by the first telling, which has none. */
  readonly states?: readonly unknown[];
}

export interface Telling {
  readonly reached: boolean;
  readonly violations: readonly string[];
  readonly history: readonly HistoryEntry[];
  readonly states: readonly unknown[];
  readonly footprint: Footprint;
  /** After the start and after each step: the versions so far that an older view can end with. */
  readonly versions: readonly { readonly step: string; readonly names: readonly string[] }[];
}

/** @throws (rejects) what the story's own set-up throws, and a mistake of the harness. A failing controller is a violation. */
export async function tell(options: TellingOptions): Promise<Telling> {
  const { cluster, others, log, story, prefix, timeoutMs } = options;
  log.begin();
  const stage = new NotedStage(cluster, log, prefix, others);
  await using owned = new AsyncDisposableStack();
  owned.defer(() => stage.clear(story.resources, timeoutMs));
  const scene = owned.use(await story.setUp(stage));
  const run = owned.use(new Run(options, stage, scene));
  return await run.tell();
}

const START = "start";

/** A violation that ends the telling: nothing after it would say more. */
class Violation extends Error {
  override readonly name = "Violation";
}

class Run implements AsyncDisposable {
  readonly #options: TellingOptions;
  readonly #stage: NotedStage;
  readonly #scene: Scene;
  readonly #lives: Incarnation[] = [];
  readonly #burials: Promise<void>[] = [];
  readonly #states: unknown[] = [];
  readonly #versions: { readonly step: string; readonly names: readonly string[] }[] = [];
  readonly #perturbation: Perturbation;
  #staleReached = false;
  #births = 0;
  /** The controller has answered a change of the sentinel. */
  #hasAnswered = false;
  #restart: Promise<void> = Promise.resolve();
  #mistake: unknown;

  constructor(options: TellingOptions, stage: NotedStage, scene: Scene) {
    this.#options = options;
    this.#stage = stage;
    this.#scene = scene;
    const { point, story, log } = options;
    this.#perturbation = createPerturbation({
      ...(point && { point }),
      resources: story.resources,
      toLocal: stage.toLocal,
      ownStatusOf: story.ownStatusOf ?? [],
      unperturbed: story.unperturbed ?? [],
      sentinelResource: scene.fence.resource,
      isSentinel: (resource, name) => this.#isSentinel(resource, name),
      changesOf: (resource, name) => stage.changesOf(resource, name),
      kill: () => this.#killAndRestart(),
      onChange: () => log.conditions.changed(),
    });
  }

  async tell(): Promise<Telling> {
    const violations: string[] = [];
    try {
      await this.#tellAll();
    } catch (error) {
      if (!(error instanceof Violation)) throw error;
      violations.push(error.message);
    }
    const history = this.#stage.history();
    violations.push(...this.#scene.forbidden(history));
    return {
      reached: this.#perturbation.reached || this.#staleReached,
      violations,
      history,
      states: this.#states,
      footprint: this.#perturbation.footprint,
      versions: this.#versions,
    };
  }

  async [Symbol.asyncDispose](): Promise<void> {
    this.#perturbation.pause?.end();
    await this.#restart;
    for (const life of this.#lives) this.#bury(life);
    await Promise.all(this.#burials);
    if (this.#mistake !== undefined) throw this.#mistake;
  }

  async #tellAll(): Promise<void> {
    const { log } = this.#options;
    await this.#begin();
    // Steps before it has listed would be listed, and their events never come.
    await this.#passFence(() => this.#mayOvertake(0) && this.#perturbation.pause !== undefined);
    await this.#endOfStep(0, { name: START });
    for (const [index, step] of this.#scene.steps.entries()) {
      // The state does not show that this life of the controller has seen it, when one before has made it so.
      if (step.needsSettled === true && this.#births > 1) await this.#passFence();
      log.step = step.name;
      await this.#take(step);
      await this.#endOfStep(index + 1, step);
    }
    await this.#endPause();
    await this.#comeToRest();
    await this.#reach(this.#scene.steps.length, "the end");
  }

  async #take(step: Step): Promise<void> {
    try {
      await step.run();
    } catch (error) {
      throw new Violation(`the step "${step.name}" could not be taken: ${String(error)}`, { cause: error });
    }
  }

  /** Waits until the step is over, and does what is due there. */
  async #endOfStep(index: number, step: Pick<Step, "name" | "over">): Promise<void> {
    const { states, point } = this.#options;
    const { name } = step;
    if (states === undefined) {
      const untilOver = async (): Promise<void> => {
        if (!(await this.#until(() => step.over?.() ?? true)))
          throw new Violation(`the step "${name}" is never over`);
      };
      await untilOver();
      // Twice: all other tellings are measured by what is noted here.
      await this.#comeToRest();
      await this.#comeToRest();
      // What a controller says of a moment before may have been written since.
      await untilOver();
      this.#states.push(this.#scene.state());
      this.#versions.push({ step: name, names: this.#olderVersions().map(({ name }) => name) });
      return;
    }
    const mayOvertake = this.#mayOvertake(index);
    // The watch stands still: the next step comes before the reaction to this one, if it may; but one step only.
    const mayStayPaused = (): boolean => mayOvertake && this.#isPausedAt(name);
    if (!mayStayPaused()) await this.#endPause();
    await this.#reach(index, `the step "${name}"`, mayStayPaused);
    if (point?.pattern === "stale" && point.step === name)
      await this.#restartOnOlderView(point.version, index);
  }

  /** A watch stands still before an event of this step, and not of the one before. */
  #isPausedAt(step: string): boolean {
    const { pause } = this.#perturbation;
    if (pause === undefined) return false;
    const { versions } = this.#options.log;
    const isIt = ({ resource, object }: Version): boolean =>
      resource === pause.resource && object.metadata?.resourceVersion === pause.resourceVersion;
    // What our own watch has not told yet can only be of now.
    return (versions.findLast(isIt)?.step ?? step) === step;
  }

  /** @param orElse what ends the wait as well. */
  async #reach(index: number, where: string, orElse?: () => boolean): Promise<void> {
    const { states } = this.#options;
    const wanted = states === undefined ? this.#states[index] : states[index];
    const asWanted = (): boolean => isDeepStrictEqual(this.#scene.state(), wanted);
    if (await this.#until(asWanted, orElse)) return;
    const is = JSON.stringify(this.#scene.state());
    throw new Violation(
      `${where} does not end as undisturbed:\n  is     ${is}\n  wanted ${JSON.stringify(wanted)}`,
    );
  }

  /**
   * Waits for what only the controller can bring about. A watch that stands still meanwhile, and that `orElse` does not
   * want so, goes on. @returns whether it came.
   */
  async #until(holds: () => boolean, orElse: () => boolean = () => false): Promise<boolean> {
    const { log, timeoutMs } = this.#options;
    const failure = (): unknown => this.#lives.at(-1)?.failure;
    let endingPause: Promise<void> | undefined;
    const done = await log.until(() => {
      if (holds() || orElse() || failure() !== undefined) return true;
      if (this.#perturbation.pause !== undefined && endingPause === undefined) {
        endingPause = this.#endPause();
        endingPause.catch(() => undefined); // it is awaited below, which may be later
      }
      return false;
    }, timeoutMs);
    await endingPause;
    if (failure() !== undefined) throw new Violation(`the controller does not start: ${String(failure())}`);
    return done;
  }

  /** The object changes again if it has not, and the controller has to list anew. */
  async #endPause(): Promise<void> {
    const { pause } = this.#perturbation;
    if (pause === undefined) return;
    const { resource, name, namespace, changesBefore } = pause;
    // A deleted object changes again only when the story makes it again.
    const changed = this.#stage.changesOf(resource, name) > changesBefore;
    if (!changed) await this.#stage.nudge(resource, name, namespace);
    await this.#passGuides(resource);
    pause.end();
    await this.#options.log.until(() => this.#perturbation.pause !== pause, this.#options.timeoutMs);
  }

  /**
   * The sentinel answers, nothing is in flight, and it answers again: everything before was seen and dealt with. One
   * answer is not enough, because it may overtake an earlier write whose connection is still being made.
   *
   * @param orElse what ends the wait as well.
   */
  async #comeToRest(orElse?: () => boolean): Promise<void> {
    const { log, timeoutMs } = this.#options;
    await this.#passFence(orElse);
    if (orElse?.() === true) return;
    await log.until(() => (this.#lives.at(-1)?.inFlight ?? 0) === 0, timeoutMs);
    await this.#passFence(orElse);
  }

  /** May the step at this place begin before the reaction to what was before it? */
  #mayOvertake(index: number): boolean {
    const next = this.#scene.steps[index];
    return next !== undefined && next.needsSettled !== true;
  }

  /** @param orElse what ends the wait as well. */
  async #passFence(orElse?: () => boolean): Promise<void> {
    const { fence } = this.#scene;
    await fence.change();
    if (!(await this.#until(() => fence.answered(), orElse)))
      throw new Violation("the controller does not answer a change of the sentinel any more");
    this.#hasAnswered ||= fence.answered();
  }

  /**
   * What this watch has missed is not to be judged by guides that are older still: no condition of a write could tell.
   * Before its first answer the controller may be waiting for this very watch, and has only just listed the guides.
   */
  async #passGuides(paused: Resource): Promise<void> {
    const { log, story, timeoutMs } = this.#options;
    const { guides } = this.#scene.fence;
    if (guides === undefined || story.guides?.includes(paused) === true || !this.#hasAnswered) return;
    await guides.change();
    if (!(await log.until(() => guides.answered(), timeoutMs)))
      throw new Violation(
        "the controller does not answer a change of its guides while another watch stands still",
      );
  }

  async #begin(interceptor: Interceptor = this.#perturbation): Promise<void> {
    const { cluster, certificate, log } = this.#options;
    this.#births += 1;
    const life = await Incarnation.begin({
      cluster,
      certificate,
      scene: this.#scene,
      number: this.#births,
      interceptor,
      onChange: () => log.conditions.changed(),
    });
    this.#lives.push(life);
  }

  #bury(life: Incarnation): void {
    this.#burials.push(
      life.bury().catch((error: unknown) => {
        this.#mistake ??= error;
      }),
    );
  }

  #killAndRestart(): void {
    const victim = this.#lives.at(-1);
    if (victim === undefined) throw new Error("there is nothing to kill");
    victim.kill();
    this.#restart = this.#afterDeath(victim).catch((error: unknown) => {
      this.#mistake ??= error;
    });
  }

  async #afterDeath(victim: Incarnation, interceptor: Interceptor = {}): Promise<void> {
    this.#lives.splice(this.#lives.indexOf(victim), 1);
    this.#bury(victim);
    await this.#begin(interceptor);
  }

  /** Another life on a server that lags behind, until it has acted on what it sees there; then the server catches up. */
  async #restartOnOlderView(version: string, index: number): Promise<void> {
    const { log, story } = this.#options;
    const older = this.#olderVersions().find(({ name }) => name === version);
    if (older === undefined) return;
    this.#staleReached = true;
    const view = createOlderView({
      log,
      resources: story.resources,
      count: older.count,
      isSentinel: (resource, { metadata }) =>
        this.#isSentinel(resource, this.#stage.toLocal(metadata?.name ?? "")),
    });
    const victim = this.#lives.at(-1);
    victim?.kill();
    if (victim !== undefined) await this.#afterDeath(victim, view);
    await this.#passFence();
    for (const guide of story.guides ?? []) {
      view.release([guide]);
      await this.#passFence();
    }
    view.release();
    await this.#reach(index, `the step before an older view (${version})`);
  }

  /** The versions so far, the present one apart, of what the story is about; with how many came up to each. */
  #olderVersions(): readonly { readonly name: string; readonly count: number }[] {
    const occurrences = new Occurrences();
    const { toLocal } = this.#stage;
    const { ownStatusOf = [] } = this.#options.story;
    const isOwnStatus = ({ resource, object, before }: Version): boolean =>
      ownStatusOf.includes(resource) && before !== undefined && isStatusOnly(before, object);
    const isOfStory = (version: Version): boolean =>
      !isOwnStatus(version) &&
      !this.#isSentinel(version.resource, toLocal(version.object.metadata?.name ?? "")) &&
      this.#stage.authorOf(version) !== "harness" &&
      toLocal(version.object.metadata?.name ?? "") !== "";
    const versions = this.#options.log.versions.flatMap((version, index) =>
      isOfStory(version)
        ? [{ name: occurrences.next(nameOfVersion(version, toLocal)), count: index + 1 }]
        : [],
    );
    return [{ name: NOTHING, count: 0 }, ...versions].slice(0, -1);
  }

  #isSentinel(resource: Resource, local: string): boolean {
    const { fence } = this.#scene;
    return local.includes(fence.name) && [fence.resource, ...(fence.companions ?? [])].includes(resource);
  }
}
