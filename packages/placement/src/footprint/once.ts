/** Node footprints in a one-shot command. The command waits for the data that it can read, and then decides. */
import { counted, keepFields, type OneShotRun, readViews, startOnce } from "@berth/host";
import { type KubeClient, nameOfResource, type Pod, pathOf } from "@berth/kube";
import { sleep } from "@berth/runtime";
import { reasons } from "../api/reasons.ts";
import { type DocumentWarning, warn } from "../api/warnings.ts";
import { type BoundCapability } from "../node/capability.ts";
import { daemonSetsRead } from "../node/daemonsets.ts";
import { type LookAt, type NodeOnce, podsOn } from "../node/once.ts";
import { ownedMarks, recordOf } from "../node/record.ts";
import { bindFootprints } from "./capability.ts";
import { footprintClean } from "./clean.ts";
import { explainFootprints, explainPodFootprints } from "./explain.ts";
import { FOOTPRINT, type Footprint, type Footprints } from "./footprint.ts";
import { type FootprintObservations } from "./footprint-observations.ts";
import { type FootprintChanges, FootprintForecast } from "./forecast/forecast.ts";
import { groupOf } from "./groups.ts";
import { findFootprintEffects } from "./held-once.ts";
import { podNeeds } from "./needs.ts";
import { type FootprintWatches, observeFootprints } from "./observations.ts";
import { OwnerResolver } from "./owners.ts";
import { footprintReads } from "./reads.ts";
import { formatFootprint, formatFootprintEffects, formatFootprintPlan, formatPodFootprints } from "./show.ts";

export const footprintOnce: NodeOnce<Footprints> = {
  ...footprintClean,
  async plan(footprints, at) {
    const { capability, observations } = await viewFootprints(footprints, at);
    const effects = footprints && (await findFootprintEffects(footprints, at.run));
    const forecast = new FootprintForecast(footprints ?? { footprints: [], faults: [] }, observations);
    return {
      capability,
      add: (plan, { decision }) => forecast.add(plan, decision.outcomes ?? []),
      section({ isWhole }) {
        const found = forecast.footprints();
        if (found.length === 0 || effects === undefined) return undefined;
        const changes = isWhole ? found : found.map(withoutSelector);
        return {
          data: { footprints: changes, footprintEffects: effects },
          blocks: (style) => [`${formatFootprintPlan(changes, style)}${formatFootprintEffects(effects)}`],
          warnings: isWhole ? warningsOf(footprints?.footprints ?? [], found) : [],
          isChanging:
            effects.owners.length > 0 ||
            changes.some(({ agent }) => agent?.selector !== undefined && agent.selector.waits === undefined),
        };
      },
    };
  },
  async explain(footprints, at) {
    const { capability, observations } = await viewFootprints(footprints, at);
    const { installation } = at.run;
    return {
      capability,
      section(view, now) {
        const { outcomes = [] } = capability.contribute(view, now).decision;
        const around = { observations, installation, outcomes };
        const said = footprints === undefined ? [] : explainFootprints(at.node, footprints, around);
        return {
          data: footprints === undefined ? {} : { footprints: said },
          blocks: (style) => said.map((it) => formatFootprint(it, style)),
        };
      },
    };
  },
  /** Reads only the pods on the node of the pod; none if the pod has no node. */
  async explainPod(footprints, { run, owned, pod, nodes }) {
    if (footprints === undefined) return undefined;
    const { nodeName: only = "" } = pod.spec ?? {};
    const { capability, observations, settle } = await viewFootprints(footprints, { run, owned, only });
    await settle(pod);
    const node = nodes.find(({ metadata }) => metadata?.name === pod.spec?.nodeName);
    const { installation, clock } = run;
    const view = node && { node, owned: ownedMarks(recordOf(node), installation) };
    const { outcomes = [] } = view ? capability.contribute(view, clock.now()).decision : {};
    const said = explainPodFootprints(pod, footprints, { node, observations, installation, outcomes });
    return { data: { footprints: said }, blocks: (style) => formatPodFootprints(said, style) };
  },
};

function warningsOf(
  footprints: readonly Footprint[],
  changes: readonly FootprintChanges[],
): readonly DocumentWarning[] {
  const byRule = new Map(changes.map((it) => [it.footprint, it]));
  return footprints.flatMap((one) => {
    const { nodes = 0, needed = 0, unknown = 0, agent } = byRule.get(one.rule) ?? {};
    // Often its selectors of pods are mistyped.
    const idle = `no pod needs ${one.rule} on any of ${counted(nodes, "node")}`;
    const [first] = agent?.unserved ?? [];
    const away = `the agent of ${one.rule} cannot run on ${agent?.unserved.length} of ${counted(needed, "node")} with pods that need it: ${first?.message}`;
    return [
      ...warn(one, reasons.FootprintUnneeded, nodes > 0 && needed + unknown === 0 ? idle : undefined),
      ...warn(one, reasons.AgentUnschedulable, first && away),
    ];
  });
}

/** The selector change depends on all nodes, so a plan for some nodes omits it. */
function withoutSelector({ agent, ...rest }: FootprintChanges): FootprintChanges {
  if (agent === undefined) return rest;
  const { selector: _, ...others } = agent;
  return { ...rest, agent: others };
}

interface FootprintView {
  readonly capability: BoundCapability;
  readonly observations: FootprintObservations;
  /** Waits until Berth knows what this pod means for footprints, or cannot know. The pod need not be on the node. */
  readonly settle: (pod: Pod) => Promise<void>;
}

/** How long the command waits without new data. Milliseconds. */
const PATIENCE_MS = 10_000;
/** The longest time between two looks. The first ones follow quickly: objects of a test are there at once. */
const MAX_LOOK_MS = 50;

/**
 * Reads the same data as a running Berth: the pods that workloads select, their owners, namespaces and volumes where
 * these matter, and DaemonSets. Reports data that it may not read or does not get in time; such data is unknown.
 */
async function viewFootprints(
  footprints: Footprints | undefined,
  { run, owned, only }: Omit<LookAt, "facts">,
): Promise<FootprintView> {
  const inForce = footprints?.footprints ?? [];
  // Also of a footprint whose agent Berth does not check.
  const hasAgent = (them: readonly Footprint[]): boolean => them.some(({ agent }) => agent !== undefined);
  const reads = { ...footprintReads, daemonSets: daemonSetsRead(FOOTPRINT, hasAgent) };
  const informers = only === undefined ? run.informers : podsOn(only, run.informers);
  const ignore = (): void => undefined;
  const owners = new OwnerResolver({
    ...run,
    client: askingClient(run),
    onChange: ignore,
    onMoved: ignore,
  });
  const views = await readViews(reads, inForce, { run, owned, informers });
  const watches = observeFootprints(views, owners);
  const { observations } = watches;
  if (inForce.length > 0) {
    watches.want(inForce);
    await startOnce([owners], run, owned);
  }
  const isRead = inForce.some((footprint) => watches.podsOf(footprint) !== undefined);
  if (isRead) {
    await untilKnown(inForce, watches, run);
    for (const component of [...views.components, owners]) {
      const problem = component.problem?.();
      if (problem !== undefined) run.stderr.write(`What footprints see is incomplete: ${problem}\n`);
    }
  }
  return {
    capability: bindFootprints({ footprints: () => footprints, observations }),
    observations,
    async settle(pod) {
      if (isRead) await untilKnown(inForce, { observations, podsOf: () => [pod] }, run);
    },
  };
}

/** Waits until no pod is open. Each check also requests the owners of the pods. */
async function untilKnown(
  footprints: readonly Footprint[],
  watches: Pick<FootprintWatches, "observations" | "podsOf">,
  { clock, signal }: OneShotRun,
): Promise<void> {
  let least = Number.POSITIVE_INFINITY;
  let untilMs = clock.monotonic() + PATIENCE_MS;
  for (let lookMs = 1; ; lookMs = Math.min(2 * lookMs, MAX_LOOK_MS)) {
    const open = countOpen(footprints, watches);
    if (open === 0) return;
    if (open < least) {
      least = open;
      untilMs = clock.monotonic() + PATIENCE_MS;
    }
    if (clock.monotonic() >= untilMs || !(await sleep(clock, lookMs, signal))) return;
  }
}

/** Number of pods whose need or group is still unknown; infinite while the pods of a footprint are unread. */
function countOpen(
  footprints: readonly Footprint[],
  { observations, podsOf }: Pick<FootprintWatches, "observations" | "podsOf">,
): number {
  let open = 0;
  for (const footprint of footprints) {
    const found = podsOf(footprint);
    if (found === undefined) return Number.POSITIVE_INFINITY;
    for (const pod of found) {
      const needs = podNeeds(pod, footprint, observations);
      if (needs === "unknown" || (needs === "yes" && groupOf(pod, footprint, observations).is === "unknown"))
        open += 1;
    }
  }
  return open;
}

/** Reads owners through the command, so that a snapshot holds what says who owns whom, and no more. */
function askingClient({ client, ask }: Pick<OneShotRun, "client" | "ask">): Pick<KubeClient, "get" | "read"> {
  return {
    get: (resource, of, options) =>
      ask(`owner ${nameOfResource(resource)} ${pathOf(of)}`, async () => {
        const found = await client.get(resource, of, options);
        return keepFields<typeof found>(["metadata.ownerReferences", "metadata.deletionTimestamp"])(found);
      }),
    read: (path, options) => ask(`read ${path}`, () => client.read(path, options)),
  };
}
