/** The parts of a running Berth that have to do with label rules, put together. */

import type { Fault } from "@berth/host";
import { FaultReport } from "@berth/host";
import type { KubeClient, Node } from "@berth/kube";
import {
  type BoundCapability,
  CONFIRMED_ANNOTATION,
  createLabelMetrics,
  createRuleStatusReconciler,
  defaultLabelOptions,
  FirstPass,
  type LabelOptions,
  type LabelRule,
  labelRules,
  labels,
  type NodeObserver,
  type ParsedFolder,
  RemovalBreakers,
  type RuleProblem,
  RuleTally,
} from "@berth/placement";
import {
  type Clock,
  type ClusterName,
  type EventRecorder,
  type Informer,
  type Logger,
  type MetricsRegistry,
} from "@berth/runtime";
import type { LabelFolderSource, Settings } from "./config/settings.ts";
import type { Follow } from "./document-follower.ts";
import { LabelRuleHub } from "./label-rules.ts";
import { RuleSource } from "./rule-source.ts";
import { createStatusController } from "./status-controller.ts";
import type { Wired } from "./wired.ts";

/** What the user asked for. */
export interface LabelSettings {
  readonly labelFolder?: LabelFolderSource;
  readonly ruleOptions?: LabelOptions;
  readonly config?: readonly { readonly path: string; readonly shown: string }[];
}

export interface LabelSurroundings {
  readonly client: Pick<KubeClient, "patch">;
  readonly cluster: ClusterName;
  readonly nodes: Informer<Node>;
  readonly rules: Informer<LabelRule>;
  readonly follow: Follow;
  readonly events: EventRecorder;
  readonly installation: string;
  readonly metrics: MetricsRegistry;
  readonly log: Logger;
  readonly clock: Clock;
  readonly onFault: (fault: Fault) => void;
  /** Gets the configuration files as they change. */
  readonly onSettings?: (settings: Settings) => void;
  /** Other rules are in force: every node has to be looked at. */
  readonly onChange: () => void;
}

export interface LabelParts extends Wired {
  readonly capability: BoundCapability;
  /** Every source of rules that there is has been read. */
  readonly known: () => boolean;
  readonly breakers: RemovalBreakers;
}

export function createLabelParts(settings: LabelSettings, around: LabelSurroundings): LabelParts {
  const { config = [], labelFolder, ruleOptions = defaultLabelOptions } = settings;
  const { client, cluster, nodes, rules, events, installation, onFault, clock, log, metrics } = around;
  const labelMetrics = createLabelMetrics(metrics);
  const faults = new FaultReport(onFault);
  let folderProblems: readonly RuleProblem[] = [];
  const hub = new LabelRuleHub({
    nodes,
    installation,
    options: ruleOptions,
    onChange: (assembled) => {
      const documentFaults = hub.configFaults();
      faults.report("documents", documentFaults);
      labelMetrics.taken(assembled.rules, [...folderProblems, ...documentFaults]);
      statuses.askAll();
      around.onChange();
    },
  });
  const tally = new RuleTally({ onChange: (rule) => statuses.askRule(rule) });
  const firstPass = new FirstPass({ nodes, onDone: () => statuses.askAll() });
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
    statuses.askRule(rule);
    if (frozen)
      log.error("removals are frozen: too many nodes would lose labels of the rule at once", { rule });
    else log.info("removals go on", { rule });
  });
  labelMetrics.counts({ conflicts: () => tally.conflicts, frozen: () => breakers.frozen.length });
  const statuses = createStatusController({
    name: "label-rules",
    resource: labelRules,
    objects: rules,
    judge: (name, version) => hub.verdictOf(name, version),
    reconcile: ({ patchStatus, judgementOf }) =>
      createRuleStatusReconciler({
        rules,
        patchStatus,
        verdictOf: judgementOf,
        countsOf: (rule) => (firstPass.done ? tally.counts(rule) : undefined),
        breakers,
        events,
        clock,
      }),
    client,
    cluster,
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
    onDocuments(read) {
      hub.setConfig(read.labelRules);
      around.onSettings?.(read);
    },
    onFault,
  });
  const follower = around.follow({
    resource: labelRules,
    documents: rules,
    capability: labels.name,
    whenAway: "keep",
    annotations: [CONFIRMED_ANNOTATION],
    onDocuments: (read) => hub.setCluster(read),
    onNodes() {
      hub.nodesKnown();
      firstPass.check();
    },
  });
  // Without its CRD no rule of the cluster can be known: a gate that waits for labels goes by those of files.
  const known = (): boolean => hub.clusterRead || rules.absent;
  return {
    capability: hub.capability,
    known,
    observer,
    breakers,
    components: { first: [source], everywhere: [follower], elected: [statuses.controller] },
  };
}
