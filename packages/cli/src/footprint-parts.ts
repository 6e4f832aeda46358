/** The parts of a running Berth that have to do with node footprints, put together. */
import { daemonSets as daemonSetResource, type KubeClient, type Node } from "@berth/kube";
import {
  type BoundCapability,
  bindFootprints,
  createAgentReconciler,
  createFootprintMetrics,
  createFootprintSight,
  createHoldReconciler,
  createWaitReconciler,
  type DaemonSetWatch,
  FirstPass,
  type Footprint,
  type FootprintJudgement,
  type Footprints,
  FootprintTally,
  HeldOwners,
  HoldWatches,
  ManageProblems,
  managedAgents,
  type NodeFootprint,
  type NodeObserver,
  nodeFootprints,
  type OwnerKey,
  reasons,
  toOwnerText,
  WaitWatch,
} from "@berth/placement";
import {
  type Clock,
  type ClusterName,
  type Component,
  type Controller,
  createController,
  type EventRecorder,
  type Informer,
  keyOf,
  type Logger,
  type MetricsRegistry,
  type ObjectKey,
} from "@berth/runtime";
import type { Fault } from "./config/fault.ts";
import type { Settings } from "./config/settings.ts";
import { createDocumentFollower } from "./document-follower.ts";
import { FaultReport } from "./fault-report.ts";
import { footprintWebhooks } from "./footprint-admission.ts";
import { FootprintAgents } from "./footprint-agents.ts";
import { followLostNodes, followTaints, isLost } from "./footprint-nodes.ts";
import { createFootprintProgresses } from "./footprint-progress.ts";
import { createFootprintReports } from "./footprint-reports.ts";
import { createFootprintHub } from "./footprints.ts";
import { createKeySource } from "./key-source.ts";
import type { WebhookOwner } from "./webhook-server.ts";

export interface FootprintSurroundings {
  readonly client: KubeClient;
  readonly cluster: ClusterName;
  readonly installation: string;
  readonly nodes: Informer<Node>;
  readonly footprints: Informer<NodeFootprint>;
  readonly daemonSets: DaemonSetWatch;
  readonly events: EventRecorder;
  readonly metrics: MetricsRegistry;
  readonly log: Logger;
  readonly clock: Clock;
  /** Whether the API server asks about new pods that are to wait for an agent. */
  readonly admission: () => FootprintJudgement | undefined;
  /** Other footprints are in force. */
  readonly onChange: () => void;
  readonly onFault: (fault: Fault) => void;
  /** Look at this node. */
  readonly recheck: (node: string) => void;
  readonly recheckAll: () => void;
}

export interface FootprintParts {
  readonly capability: BoundCapability;
  readonly footprints: () => Footprints | undefined;
  readonly observer: NodeObserver;
  /** Answers the API server about new pods. */
  readonly webhooks: WebhookOwner;
  /** Gets the configuration files as they change. */
  readonly onSettings: (settings: Settings) => void;
  /** DaemonSets have become known, or their pods belong elsewhere. */
  readonly daemonSetsChanged: () => void;
  /** There is another version of a DaemonSet, or it is gone. */
  readonly daemonSetChanged: (key: ObjectKey) => void;
  /** The state of admission has changed. */
  readonly askStatuses: () => void;
  /** Pods, what they are decided by, and those of the agents; they are read while a footprint is in force. */
  readonly watches: readonly Component[];
  /** Follows the footprints of the cluster. */
  readonly follower: Component;
  /** What the leader runs. */
  readonly elected: readonly Component[];
}

/** Pods of one owner come and go together. Milliseconds. */
const OWNER_COALESCE_MS = 20;

export function createFootprintParts(around: FootprintSurroundings): FootprintParts {
  const { client, cluster, nodes, footprints: objects, daemonSets: sets, events } = around;
  const { clock, log, metrics, recheckAll } = around;
  const common = { client, cluster, clock, log, metrics };
  const footprintMetrics = createFootprintMetrics(metrics);
  const faults = new FaultReport(around.onFault);
  let files: readonly { readonly name: string }[] = [];
  const inForce = (): readonly Footprint[] => hub.inForce?.footprints ?? [];
  /** `undefined` while a source is still to be read. */
  const settled = (): readonly Footprint[] | undefined =>
    hub.inForce?.policy.unsettled === undefined ? hub.inForce?.footprints : undefined;

  const tally: FootprintTally = new FootprintTally({
    onChange(rule) {
      reports.askRule(rule);
      askAgents();
    },
    monotonic: () => clock.monotonic(),
  });
  footprintMetrics.counts(() => tally.total);
  let pass = beginPass();
  /** What is counted over all nodes is true once each of them was looked at by the footprints in force. */
  function beginPass(): FirstPass {
    return new FirstPass({
      nodes,
      onDone() {
        reports.askAll();
        askAgents();
      },
    });
  }
  const progresses = createFootprintProgresses(client, {
    ...around,
    daemonSets: sets,
    inForce,
    pass: () => pass,
    tally,
    watches: () => watches,
    agents: () => agents,
    holdWatches: () => holdWatches,
    waitWatch: () => waitWatch,
    held: () => held,
    manageProblems: () => manageProblems,
  });
  footprintMetrics.hindered(() => progresses.hindered);

  const watches = createFootprintSight({
    ...common,
    daemonSets: sets,
    onNode: around.recheck,
    onEverything() {
      recheckAll();
      holdWatches.lookAgain();
    },
    onPod: (change) => holdWatches.podChanged(change),
    onOwners: (pod) => holdWatches.ownersKnown(pod),
    onNamespace: (namespace) => holdWatches.lookAgain(namespace),
    onNeed: (where) => waitWatch.lookAgain(where),
  });
  const { sight } = watches;
  const agents = new FootprintAgents({
    ...common,
    daemonSet: (namespace, name) => sets.daemonSet(namespace, name),
    onChange: () => reports.askAll(),
  });
  const holdWatches = new HoldWatches({
    ...common,
    sight,
    onOwner: (key) => ownerController.enqueue(key),
    onRead: () => reports.askAll(),
  });
  const waitWatch = new WaitWatch({
    ...common,
    installation: around.installation,
    onDeployment: (key) => waitController.enqueue(key),
  });
  const held = new HeldOwners({ onChange: (rule) => reports.askRule(rule) });
  const manageProblems = new ManageProblems({ onChange: (rule) => reports.askRule(rule) });

  const hub = createFootprintHub((footprints) => {
    faults.report("footprints", hub.configFaults());
    footprintMetrics.taken(footprints.footprints.length, footprints.faults.length);
    pass = beginPass();
    holdWatches.want(footprints);
    // Holds that go on for a fault of their document need its pods, be it not in force.
    watches.want([...new Set([...footprints.footprints, ...holdWatches.footprints])]);
    agents.want(footprints.footprints);
    waitWatch.want(footprints.footprints);
    manageProblems.keep(footprints.footprints);
    reports.askAll();
    askAgents();
    around.onChange();
    recheckAll();
    // Without nodes nothing is decided, and all of them have been looked at.
    pass.check();
  });

  const ownerController: Controller<OwnerKey> = createController<OwnerKey>({
    name: "footprint-finalizers",
    reconcile: createHoldReconciler({
      client: progresses.holding,
      watches: holdWatches,
      sight: { ...sight, podsOf: (footprint, among) => watches.podsOf(footprint, among) },
      held,
      isNodeLost: (name) => nodes.synced && isLost(nodes.get(keyOf(cluster, { metadata: { name } }))),
      events,
      clock,
    }),
    queue: { coalesceMs: OWNER_COALESCE_MS },
    toText: toOwnerText,
    clock,
    log,
    metrics,
  });
  const waitController: Controller = createController({
    name: "footprint-waits",
    reconcile: createWaitReconciler({
      deployments: waitWatch,
      footprints: () => hub.inForce,
      sight,
      client: progresses.applying,
      installation: around.installation,
      events,
      clock,
    }),
    clock,
    log,
    metrics,
  });
  const agentSource = createKeySource(() => managedAgents(inForce(), cluster));
  const askAgents = (): void => agentSource.ask(managedAgents(inForce(), cluster));
  const agentController: Controller = createController({
    name: "footprint-daemonsets",
    reconcile: createAgentReconciler({
      daemonSets: sets,
      footprints: settled,
      pending({ rule }) {
        const counts = progresses.countsOf(rule);
        return counts?.unknown === 0 ? counts.pending : undefined;
      },
      patch: (namespace, name, body, signal) =>
        client.patch(daemonSetResource, { namespace, name }, { type: "json", body }, { signal }),
      problems: manageProblems,
      events,
      clock,
    }),
    sources: [agentSource],
    clock,
    log,
    metrics,
  });

  const reports = createFootprintReports({
    ...common,
    objects,
    judge: (name, version) => hub.judgementOf(name, version),
    judgeFile(name) {
      const fault = hub.inForce?.faults.find((it) => it.source === "config" && it.footprint === name);
      return fault === undefined
        ? { ready: true, reason: reasons.FootprintInForce, message: "in force" }
        : {
            ready: false,
            reason: fault.reason,
            message: `${["spec", ...fault.path].join(".")}: ${fault.message}`,
          };
    },
    progressOf: (rule) => progresses.of(rule),
    files: () => files.map(({ name }) => name),
    inForce,
    hindrances: (footprint) => progresses.hindrances(footprint),
    events,
  });

  /** Nodes keep a label that they had before as long as an agent asks for it. */
  let asked = "";
  const askedByAgents = (): string =>
    JSON.stringify(
      inForce().map(({ agent }) => {
        const daemonSet = agent && sets.daemonSet(agent.namespace, agent.name);
        return daemonSet && [daemonSet.spec?.template.spec?.nodeSelector];
      }),
    );

  return {
    capability: bindFootprints({ footprints: () => hub.inForce, sight }),
    footprints: () => hub.inForce,
    observer: {
      decided(name, outcome) {
        tally.decided(name, outcome);
        pass.decided(name);
      },
      gone(name) {
        tally.gone(name);
        pass.gone(name);
      },
    },
    webhooks: footprintWebhooks({ client, footprints: () => hub.inForce, sight, log }),
    askStatuses: () => reports.askAll(),
    onSettings({ nodeFootprints: read }) {
      files = read ?? [];
      hub.setConfig(read);
    },
    daemonSetsChanged() {
      agents.want(inForce());
      reports.askAll();
      askAgents();
      const before = asked;
      asked = askedByAgents();
      if (asked !== before) recheckAll();
    },
    daemonSetChanged(key) {
      const isManaged = managedAgents(inForce(), cluster).some(
        ({ namespace, name }) => namespace === key.namespace && name === key.name,
      );
      if (isManaged) agentSource.ask([key], "high");
    },
    watches: [...watches.components, agents],
    follower: createDocumentFollower({
      client,
      resource: nodeFootprints,
      documents: objects,
      nodes,
      clock,
      onDocuments: (read) => hub.setCluster(read),
      onUnreadable: () => hub.settle(),
      onNodes: () => pass.check(),
      onLook: () => reports.look(),
    }),
    elected: [
      followLostNodes(nodes, (name) => {
        // Of others that are being deleted nothing has changed.
        for (const footprint of holdWatches.footprints)
          for (const pod of sight.pods(footprint, name) ?? [])
            holdWatches.podChanged({ type: "updated", old: pod, object: pod });
      }),
      followTaints(nodes, () => reports.askAll()),
      holdWatches,
      withoutProblem(waitWatch),
      ownerController,
      waitController,
      agentController,
      ...reports.controllers,
    ],
  };
}

/** What it cannot read is said in the conditions of those footprints that need it. The process serves others. */
function withoutProblem(component: Component): Component {
  return { name: component.name, start: (signal) => component.start(signal) };
}
