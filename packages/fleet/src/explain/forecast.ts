/** Foresees what follows from a Workload: each Instance that is created, replaced or deleted, in order. Pure. */
import { counted } from "@berth/host";
import { pathOf } from "@berth/kube";
import { toTime } from "@berth/runtime";
import { instanceName, annotations as keys, ordinalOf } from "../api/keys.ts";
import { requestTypes } from "../api/quota.ts";
import type { HubReason } from "../api/reasons.ts";
import { told, type WorkloadWarning } from "../api/warnings.ts";
import type { Instance, Workload, WorkloadDeployment } from "../api/workload.ts";
import { desiredCount } from "../deployment/build.ts";
import { decideDeployment } from "../deployment/decide.ts";
import { handedDownLimits } from "../deployment/template-size.ts";
import { type CellSeen, nameOf as cellNameOf, uidOf } from "../hub/cells/seen.ts";
import type { CellVerdict, Choice } from "../hub/placement/choose.ts";
import { claimFor } from "../instance/claim.ts";
import { applyMergePatch } from "../workload/merge-patch.ts";
import { deploymentsOf, type FleetFacts, instancesOf, type Unread, workloadDecision } from "./facts.ts";
import { bestCells, cellText, isCarried, placementOf, placingOf } from "./planes.ts";

/** What an Instance takes from the budget of its project: thousandths of a CPU, and MiB. */
export interface Amounts {
  readonly instances: number;
  readonly vcpus: number;
  readonly memory: number;
}

export interface InstanceStep {
  /** `roll`: deleted, and created anew under its name. */
  readonly do: "create" | "roll" | "delete";
  readonly instance: string;
  /** Absent: nothing is created. */
  readonly takes?: Amounts;
  /** Absent: nothing is deleted. */
  readonly frees?: Amounts;
}

export interface DeploymentForecast {
  readonly name: string;
  readonly placement: string;
  readonly city: string;
  readonly is: "created" | "changed" | "deleted" | "kept";
  /** Where it runs. Absent: here, or not known. */
  readonly cell?: CellForecast;
  /** In order. Deployments do not wait for each other. */
  readonly steps: readonly InstanceStep[];
  /** Why it goes no further. */
  readonly stops?: string;
}

export interface CellForecast {
  /** Of several, its uid decides, which it has not yet. None: no cell can take it. */
  readonly names: readonly string[];
  readonly why: string;
  /** Of none. */
  readonly reason?: HubReason;
  /** On each cell of the city. */
  readonly verdicts: readonly CellVerdict[];
}

export interface WorkloadForecast {
  /** `default/web` */
  readonly workload: string;
  readonly isNew: boolean;
  readonly deployments: readonly DeploymentForecast[];
  /** Sentences about what stands in the way. */
  readonly findings: readonly string[];
  /** About cities where nothing of it would run. */
  readonly warnings: readonly WorkloadWarning[];
  /** Names are counted once. */
  readonly totals: { readonly create: number; readonly roll: number; readonly delete: number };
  /** After the last step, compared with now. During a roll no more is taken. */
  readonly quota: Amounts;
  /** Each Instance that is created needs a ResourceClaim. Absent: not known without a Fleet. */
  readonly needsClaims?: boolean;
  /** Sources that were not read. What depends on them is not foreseen. */
  readonly unread: readonly Unread[];
}

/** Of one forecast. 1000 Instances are rolled with 2000 decisions and some waits. */
const MAX_DECISIONS = 5000;

const NONE: Amounts = { instances: 0, vcpus: 0, memory: 0 };

/**
 * Assumes that the quota service grants everything, that every Instance becomes ready, and that no one else acts. Where
 * networks or quota were not read, nothing new is foreseen.
 * @param workload as it would be stored.
 */
export function forecastWorkload(
  workload: Workload,
  facts: FleetFacts,
  maxDecisions: number = MAX_DECISIONS,
): WorkloadForecast {
  const { metadata } = workload;
  const decision = workloadDecision(workload, facts);
  const changed = new Map(
    decision.patch.map(({ deployment, body }) => [
      deployment,
      // A merge patch of a deployment, which the decision made, keeps its shape.
      applyMergePatch(deployment, body) as WorkloadDeployment,
    ]),
  );
  const budget = { left: maxDecisions };
  const cellOf = cellForecasts(facts);
  const play = (
    deployment: WorkloadDeployment,
    is: DeploymentForecast["is"],
    owned: readonly Instance[] = [],
  ): DeploymentForecast => {
    const cell = is === "deleted" ? undefined : cellOf(deployment, is === "created");
    const isNowhere = cell?.names.length === 0;
    return {
      name: deployment.metadata?.name ?? "",
      placement: deployment.spec?.placementName ?? "",
      city: deployment.spec?.cityCode ?? "",
      is,
      ...(cell && { cell }),
      ...(isNowhere
        ? { steps: [], stops: cell.why }
        : playDeployment(inCell(deployment, facts), owned, facts, budget)),
    };
  };
  const deletionTimestamp = toTime(facts.nowMs);
  const deployments = [
    ...decision.create.map((it) =>
      play({ ...it, metadata: { ...it.metadata, uid: `new-${it.metadata?.name}` } }, "created"),
    ),
    ...deploymentsOf(workload, facts).map((it) => {
      const owned = instancesOf(it, facts);
      if (decision.delete.includes(it))
        return play({ ...it, metadata: { ...it.metadata, deletionTimestamp } }, "deleted", owned);
      const next = changed.get(it);
      return next === undefined ? play(it, "kept", owned) : play(next, "changed", owned);
    }),
  ];
  const steps = deployments.flatMap((it) => it.steps);
  return {
    workload: pathOf(metadata),
    isNew: metadata?.resourceVersion === undefined,
    deployments,
    findings: decision.findings.map(({ message }) => message),
    warnings: told([...unserved(decision.findings, facts), ...deployments.flatMap(nowhere)], metadata),
    totals: totalsOf(steps),
    quota: steps.reduce(balance, NONE),
    ...(facts.isGiven && facts.planes === undefined && { needsClaims: facts.spec.quota !== undefined }),
    unread: facts.unread,
  };
}

/** Cities that no cell offers get no deployment at all. */
function unserved(
  findings: readonly { readonly reason: string; readonly message: string }[],
  { planes }: FleetFacts,
): readonly WorkloadWarning[] {
  if (planes === undefined) return [];
  return findings.flatMap(({ reason, message }) =>
    reason === "CityUnserved" ? [{ code: "CityWithoutCell", message }] : [],
  );
}

/** Only where no cell can have it: an earlier placement may still end. */
function nowhere({ city, placement, cell }: DeploymentForecast): readonly WorkloadWarning[] {
  if (cell?.reason !== "NoMatchingLocation") return [];
  const what = `nothing of the placement ${placement} runs in ${city}`;
  const reasons = cell.verdicts.map((it) => `${it.cell}: ${it.message}`).join("; ");
  return cell.verdicts.length === 0
    ? [{ code: "CityWithoutCell", message: `${what}: no cell serves it` }]
    : [{ code: "NoCellTakesIt", message: `${what}: none of its cells takes it (${reasons})` }];
}

/** With the first ordinal that its Instances have in their cell. */
function inCell(deployment: WorkloadDeployment, { planes }: FleetFacts): WorkloadDeployment {
  const placement = planes && placementOf(deployment, planes);
  if (placement === undefined) return deployment;
  const { metadata } = deployment;
  const annotations = { ...metadata?.annotations, [keys.ordinalStart]: String(placement.start) };
  return { ...deployment, metadata: { ...metadata, annotations } };
}

/** Chooses one deployment after the other: each adds to the load of its cell. */
function cellForecasts({
  planes,
}: FleetFacts): (deployment: WorkloadDeployment, isNew: boolean) => CellForecast | undefined {
  const more = new Map<string, number>();
  return (deployment, isNew) => {
    if (planes === undefined || !(isNew || isCarried(deployment))) return undefined;
    const placing = placingOf(deployment, planes, more);
    const { placement, choice, verdicts } = placing;
    if (placement !== undefined) {
      const { state, detail } = cellText(placement, planes, 0);
      return { names: [placement.cell], why: state === "heard" ? "it is there" : detail, verdicts };
    }
    if (choice?.is !== "placed")
      return { names: [], why: noneText(choice), ...(choice && { reason: choice.reason }), verdicts };
    const best = bestCells(placing, planes, more);
    const [first] = best;
    // Which of several it is does not matter for those that follow: they have the same load.
    if (first !== undefined) more.set(uidOf(first), (more.get(uidOf(first)) ?? 0) + desiredCount(deployment));
    return { names: best.map(cellNameOf), why: bestText(best, verdicts.length), verdicts };
  };
}

function noneText(choice: Choice | undefined): string {
  return choice?.is === "none" ? `${choice.reason}: ${choice.message}` : "";
}

/** @param count of the cells of its city. */
function bestText(best: readonly CellSeen[], count: number): string {
  const load = counted(best[0]?.assigned ?? 0, "replica");
  if (count === 1) return "the only cell of its city";
  return best.length === 1 ? `it has ${load}, the fewest` : `each has ${load}`;
}

/** Decides and carries out in memory until nothing is left, or until only another program can go on. */
function playDeployment(
  deployment: WorkloadDeployment,
  owned: readonly Instance[],
  facts: FleetFacts,
  budget: { left: number },
): Pick<DeploymentForecast, "steps" | "stops"> {
  const name = deployment.metadata?.name ?? "";
  const others = new Map(facts.instances.map((it) => [nameOf(it), it]));
  for (const instance of owned) others.delete(nameOf(instance));
  // What is being deleted is gone before the next of its name.
  const alive = owned.filter(({ metadata }) => metadata?.deletionTimestamp === undefined);
  const present = new Map(alive.map((it) => [nameOf(it), it]));
  const steps: InstanceStep[] = [];
  for (; budget.left > 0; budget.left -= 1) {
    const decision = decideDeployment({
      deployment,
      instances: [...present.values()],
      instanceNamed: (one) => present.get(one) ?? others.get(one),
      network: { is: "off" },
      limits: handedDownLimits(facts.spec),
      hasQuota: facts.spec.quota !== undefined,
      rollHold: () => (facts.unread.length === 0 ? undefined : "SourceNotRead"),
      nowMs: facts.nowMs,
    });
    const { create, delete: deleted = [], actions, recheckAfterMs } = decision;
    const isHeld = deleted.length === 0 && recheckAfterMs !== undefined;
    if (facts.unread.length > 0 && (create !== undefined || isHeld))
      return { steps, stops: "what comes next is not known (SourceNotRead)" };
    for (const instance of deleted) {
      steps.push({ do: "delete", instance: nameOf(instance), frees: amountsOf(instance, facts) });
      present.delete(nameOf(instance));
    }
    if (create !== undefined) {
      // They follow each other: each is ready before the next.
      const run = takeWhile(actions, (it) => it.do === "create");
      for (const { ordinal } of run) {
        const metadata = { ...create.metadata, name: instanceName(name, ordinal) };
        const created = ready({ ...create, metadata });
        pushCreation(steps, metadata.name, amountsOf(created, facts));
        present.set(metadata.name, created);
      }
    }
    if (create !== undefined || deleted.length > 0) continue;
    const [action] = actions;
    const waited = present.get(instanceName(name, action?.ordinal ?? -1));
    if (waited !== undefined) present.set(nameOf(waited), ready(waited));
    else return { steps, ...stopOf(deployment, present.size, others) };
  }
  return { steps, stops: "the rest is not foreseen: there are too many steps" };
}

/** A name that another object has ends the creations. */
function stopOf(
  deployment: WorkloadDeployment,
  count: number,
  others: ReadonlyMap<string, Instance>,
): Pick<DeploymentForecast, "stops"> {
  const { name = "" } = deployment.metadata ?? {};
  const taken = [...others.keys()].find((one) => one === instanceName(name, ordinalOf(one)));
  if (taken === undefined || count >= desiredCount(deployment)) return {};
  return { stops: `Instance ${taken} exists and is not of this deployment` };
}

function pushCreation(steps: InstanceStep[], instance: string, takes: Amounts): void {
  const last = steps.at(-1);
  if (last?.do === "delete" && last.instance === instance)
    steps[steps.length - 1] = { ...last, do: "roll", takes };
  else steps.push({ do: "create", instance, takes });
}

function takeWhile<T>(list: readonly T[], isTaken: (one: T) => boolean): readonly T[] {
  const end = list.findIndex((one) => !isTaken(one));
  return end < 0 ? list : list.slice(0, end);
}

function nameOf({ metadata }: Instance): string {
  return metadata?.name ?? "";
}

function totalsOf(steps: readonly InstanceStep[]): WorkloadForecast["totals"] {
  const named = (has: "takes" | "frees"): ReadonlySet<string> =>
    new Set(steps.filter((it) => it[has] !== undefined).map(({ instance }) => instance));
  const [created, deleted] = [named("takes"), named("frees")];
  const roll = created.intersection(deleted).size;
  return { create: created.size - roll, roll, delete: deleted.size - roll };
}

function balance(sum: Amounts, { takes = NONE, frees = NONE }: InstanceStep): Amounts {
  return {
    instances: sum.instances + takes.instances - frees.instances,
    vcpus: sum.vcpus + takes.vcpus - frees.vcpus,
    memory: sum.memory + takes.memory - frees.memory,
  };
}

function ready(instance: Instance): Instance {
  const lastTransitionTime = "1970-01-01T00:00:00Z";
  const condition = { type: "Ready", status: "True", reason: "Available", message: "" } as const;
  return { ...instance, status: { conditions: [{ ...condition, lastTransitionTime }] } };
}

/** What the claim of the Instance asks for. */
function amountsOf(instance: Instance, { spec }: FleetFacts): Amounts {
  const { requests = [] } = claimFor({ instance, source: spec.cell, rules: spec }, "").spec ?? {};
  const amount = (type: string): number =>
    requests.find(({ resourceType }) => resourceType === type)?.amount ?? 0;
  return {
    instances: amount(requestTypes.instances),
    vcpus: amount(requestTypes.vcpus),
    memory: amount(requestTypes.memory),
  };
}
