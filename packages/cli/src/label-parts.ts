/** The parts of a running Berth that have to do with label rules, put together. */
import type { KubeClient, Node, ObjectReference } from "@berth/kube";
import {
  type BoundCapability,
  createLabelMetrics,
  createRuleStatusReconciler,
  defaultLabelOptions,
  FirstPass,
  type LabelOptions,
  type LabelRule,
  labelRules,
  type NodeObserver,
  type ParsedFolder,
  RemovalBreakers,
  type RuleProblem,
  RuleTally,
} from "@berth/placement";
import {
  type Clock,
  type ClusterName,
  type Component,
  type Controller,
  createController,
  createLoopComponent,
  type EventRecorder,
  type Informer,
  keyOf,
  type Logger,
  type MetricsRegistry,
  toSelf,
  watchFor,
  whenAborted,
} from "@berth/runtime";
import type { Fault } from "./config/fault.ts";
import type { LabelFolderSource } from "./config/settings.ts";
import { faultEvent } from "./fault-event.ts";
import { FaultReport } from "./fault-report.ts";
import { LabelRuleHub, readClusterRules } from "./label-rules.ts";
import { RuleSource } from "./rule-source.ts";

/** What the user asked for. */
export interface LabelSettings {
  readonly labelFolder?: LabelFolderSource;
  readonly ruleOptions?: LabelOptions;
  readonly config?: readonly { readonly path: string; readonly shown: string }[];
  readonly self?: ObjectReference;
}

export interface LabelSurroundings {
  readonly client: Pick<KubeClient, "patch">;
  readonly cluster: ClusterName;
  readonly nodes: Informer<Node>;
  readonly rules: Informer<LabelRule>;
  readonly events: EventRecorder;
  readonly installation: string;
  readonly metrics: MetricsRegistry;
  readonly log: Logger;
  readonly clock: Clock;
  /** Other rules are in force: every node has to be looked at. */
  readonly onChange: () => void;
}

export interface LabelParts {
  readonly capability: BoundCapability;
  /** Counts what the node writer decides. */
  readonly observer: NodeObserver;
  readonly breakers: RemovalBreakers;
  /** Follows files. */
  readonly source: Component;
  /** Follows the rules of the cluster; to be started once these and the nodes are synced. */
  readonly follower: Component;
  /** Writes the status of the rules of the cluster. */
  readonly controller: Controller;
}

/** Counts change with every node that is written: a status says it at most this often. Milliseconds. */
const STATUS_COALESCE_MS = 1000;

/** Edits of several rules within this time are put together once. Milliseconds. */
const RULES_COALESCE_MS = 50;

export function createLabelParts(settings: LabelSettings, around: LabelSurroundings): LabelParts {
  const { config = [], labelFolder, ruleOptions = defaultLabelOptions, self } = settings;
  const { client, cluster, nodes, rules, events, installation, clock, log, metrics } = around;
  const labelMetrics = createLabelMetrics(metrics);
  const onFault = (fault: Fault): void => {
    const { file, line, column, severity, reason, message } = fault;
    log[severity === "error" ? "error" : "warn"](message, { file, line, column, reason });
    if (self !== undefined) events.record(faultEvent(fault, self));
  };
  const faults = new FaultReport(onFault);
  let folderProblems: readonly RuleProblem[] = [];
  const hub = new LabelRuleHub({
    nodes,
    installation,
    options: ruleOptions,
    onChange: (assembled) => {
      faults.report("documents", hub.configFaults());
      labelMetrics.taken(assembled.rules, [...folderProblems, ...hub.configFaults()]);
      askAll();
      around.onChange();
    },
  });
  const tally = new RuleTally({ onChange: (rule) => askStatus(documentOf(rule)) });
  const askAll = (): void => {
    for (const { metadata } of rules.list()) askStatus(metadata?.name ?? "");
  };
  const firstPass = new FirstPass({ nodes, onDone: askAll });
  const observer: NodeObserver = {
    decided(name, outcome) {
      tally.decided(name, outcome);
      firstPass.decided(name);
    },
    gone(name) {
      tally.gone(name);
      firstPass.gone(name);
    },
  };
  const breakers = new RemovalBreakers((rule, frozen) => {
    askStatus(documentOf(rule));
    if (frozen)
      log.error("removals are frozen: too many nodes would lose labels of the rule at once", { rule });
    else log.info("removals go on", { rule });
  });
  labelMetrics.counts({ conflicts: () => tally.conflicts, frozen: () => breakers.frozen.length });
  const askStatus = (name: string): void => {
    if (name !== "") controller.enqueue(keyOf(cluster, { metadata: { name } }), { priority: "low" });
  };
  const controller: Controller = createController({
    name: "label-rules",
    reconcile: createRuleStatusReconciler({
      rules,
      patchStatus: (name, body, signal) =>
        client.patch(labelRules, { name }, { type: "merge", body }, { signal, subresource: "status" }),
      verdictOf(name) {
        const { metadata } = rules.get(keyOf(cluster, { metadata: { name } })) ?? {};
        return metadata && hub.verdictOf(name, metadata);
      },
      countsOf: (rule) => (firstPass.done ? tally.counts(rule) : undefined),
      breakers,
      events,
      clock,
    }),
    sources: [watchFor<LabelRule>({ informer: rules, map: toSelf(cluster) })],
    queue: { coalesceMs: STATUS_COALESCE_MS },
    clock,
    log,
    metrics,
  });
  const source = new RuleSource({
    config,
    ...(labelFolder && { labelFolder }),
    clock,
    log,
    onRules: (parsed: ParsedFolder | undefined) => {
      folderProblems = parsed?.problems ?? [];
      hub.setFolder(parsed);
    },
    onDocuments: (documents) => hub.setConfig(documents),
    onFault,
  });
  const follower = createLoopComponent({
    name: "label-rules-follower",
    run: (signal) => follow(hub, { rules, nodes, clock, firstPass }, signal),
  });
  return { capability: hub.capability, observer, breakers, source, follower, controller };
}

/** The key of a rule of the cluster; for others there is no such object, and nothing is done. */
function documentOf(rule: string): string {
  return rule.startsWith("cluster/") ? rule.slice("cluster/".length) : "";
}

interface Following extends Pick<LabelSurroundings, "rules" | "nodes" | "clock"> {
  readonly firstPass: FirstPass;
}

/** Takes over the rules of the cluster as they are and as they change. */
async function follow(
  hub: LabelRuleHub,
  { rules, nodes, clock, firstPass }: Following,
  signal: AbortSignal,
): Promise<void> {
  let timer: Disposable | undefined;
  const takeOver = (): void => {
    timer = undefined;
    if (rules.synced) hub.setCluster(readClusterRules(rules.list()));
  };
  using _subscription = rules.subscribe({
    onChange: (change) => {
      if (change.type === "updated" && isSameRule(change.old, change.object)) return;
      timer ??= clock.schedule(RULES_COALESCE_MS, takeOver);
    },
  });
  if (rules.synced) takeOver();
  else void rules.whenSynced(signal).then((synced) => synced && takeOver());
  if (await nodes.whenSynced(signal)) {
    hub.nodesKnown();
    firstPass.check();
  }
  await whenAborted(signal);
  timer?.[Symbol.dispose]();
}

/** Our own status changes nothing about what a rule says. */
function isSameRule(a: LabelRule, b: LabelRule): boolean {
  return (
    a.metadata?.generation === b.metadata?.generation &&
    a.metadata?.uid === b.metadata?.uid &&
    JSON.stringify(a.metadata?.annotations) === JSON.stringify(b.metadata?.annotations)
  );
}
