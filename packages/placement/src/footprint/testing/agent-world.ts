/** The DaemonSet of an agent for tests. */
import { applyPatch } from "@berth/host";
import { ApiError, type ApiFailure, type DaemonSet, type JsonPatchOperation } from "@berth/kube";
import { createVirtualClock, type EventInput, type VirtualClock } from "@berth/runtime";
import { clientOf, lookingAt } from "../../node/testing/object-run.ts";
import { ManageProblems } from "../agent/manage-problems.ts";
import { agentRules } from "../agent/manager.ts";
import type { Footprint } from "../footprint.ts";

export const KEY = "ate.dev/atelet";

/** By default with an agent that is managed. */
export function aFootprint(init: Partial<Footprint> = {}): Footprint {
  return {
    rule: "cluster/atelet",
    name: "atelet",
    workloads: [],
    grouping: { by: "None" },
    label: { key: KEY, value: "true" },
    foreign: "Reclaim",
    releaseDelayMs: 0,
    agent: { namespace: "ate-system", name: "atelet", nodeSelector: "Manage" },
    ...init,
  };
}

/** One agent, one server that keeps its DaemonSet, and what the reconciler does with it. */
export class AgentWorld {
  readonly clock: VirtualClock = createVirtualClock();
  readonly events: EventInput[] = [];
  footprints: readonly Footprint[] | undefined = [aFootprint()];
  pending: number | undefined = 0;
  needed = 3;
  stored: DaemonSet | undefined = {
    metadata: {
      namespace: "ate-system",
      name: "atelet",
      uid: "u1",
      resourceVersion: "1",
      annotations: { "deprecated.daemonset.template.generation": "1" },
    },
    spec: {
      selector: { matchLabels: { app: "atelet" } },
      template: { spec: { containers: [{ name: "atelet" }], nodeSelector: { os: "linux" } } },
    },
  };
  failure: ApiFailure | undefined;
  writes = 0;
  /** Rules of which something else was to be said. */
  readonly asked: string[] = [];
  readonly problems: ManageProblems = new ManageProblems({ onChange: (rule) => this.asked.push(rule) });
  readonly #look = lookingAt({
    rules: agentRules({
      footprints: () => this.footprints,
      counts: () => (this.pending === undefined ? undefined : { needed: this.needed, pending: this.pending }),
      problems: this.problems,
      clock: this.clock,
    }),
    objects: { get: () => this.stored },
    client: clientOf({ patch: (_, { body }) => this.#patch(body as readonly JsonPatchOperation[]) }),
    clock: this.clock,
    events: { record: (event) => this.events.push(event) },
  });

  get selector(): Readonly<Record<string, string>> | undefined {
    return this.stored?.spec?.template.spec?.nodeSelector;
  }

  get reasons(): readonly string[] {
    return this.events.map(({ reason }) => reason);
  }

  /** What is in the way of each footprint, as conditions say it. */
  get inTheWay(): readonly string[] {
    return (this.footprints ?? []).flatMap((it) => {
      const problem = this.problems.of(it);
      return problem === undefined ? [] : [`${it.name}: ${problem.reason}: ${problem.message}`];
    });
  }

  /** As another writer changes it. */
  select(nodeSelector: Readonly<Record<string, string>>): void {
    const before = this.stored;
    const template = before?.spec?.template;
    if (before?.spec === undefined || template?.spec === undefined) throw new Error("no DaemonSet is stored");
    const spec = { ...before.spec, template: { ...template, spec: { ...template.spec, nodeSelector } } };
    this.#put({ ...before, spec });
  }

  /** Once, and again when nodes have been labelled for long enough. @returns when to look again, ms. */
  async look(): Promise<number | undefined> {
    const after = await this.lookOnce();
    if (after === undefined || after > 2_000) return after;
    await this.clock.advance(after);
    return this.lookOnce();
  }

  async lookOnce(): Promise<number | undefined> {
    return (await this.#look("ate-system", "atelet"))?.recheckAfterMs;
  }

  #patch(patch: readonly JsonPatchOperation[]): DaemonSet {
    if (this.failure !== undefined)
      throw new ApiError(this.failure, { verb: "patch", resource: "daemonsets" });
    this.writes += 1;
    return this.#put(applyPatch(this.stored, patch) as DaemonSet);
  }

  #put(daemonSet: DaemonSet): DaemonSet {
    const resourceVersion = String(Number(this.stored?.metadata?.resourceVersion) + 1);
    this.stored = { ...daemonSet, metadata: { ...daemonSet.metadata, resourceVersion } };
    return this.stored;
  }
}
