/** How new nodes, pods and DaemonSets are changed before they are stored: one webhook server, and what leads to it. */
import type { KubeClient, Node } from "@berth/kube";
import {
  type AdmissionState,
  type ArchitectureJudgement,
  enforcedGates,
  type FootprintJudgement,
  type GateJudgement,
} from "@berth/placement";
import type { Clock, ClusterName, Component, Logger, MetricsRegistry, Subscribable } from "@berth/runtime";
import { createAdmissionParts, gateWebhooks } from "./admission-parts.ts";
import { createArchitectureAdmission } from "./architecture-admission.ts";
import type { ArchitectureParts } from "./architecture-parts.ts";
import { createDirectBindingAdmission } from "./direct-bindings.ts";
import { createFootprintAdmission } from "./footprint/admission.ts";
import type { FootprintParts } from "./footprint/parts.ts";
import type { GateParts } from "./gate-parts.ts";
import { type AdmissionSettings, createWebhookServer } from "./webhook-server.ts";

export interface AdmissionOfAll {
  readonly client: KubeClient;
  readonly cluster: ClusterName;
  readonly installation: string;
  readonly nodes: Subscribable<Node>;
  readonly gates: Pick<GateParts, "gates" | "directBindings" | "askStatuses">;
  readonly architecture: Pick<ArchitectureParts, "policies" | "webhooks" | "askStatuses">;
  readonly footprints: Pick<FootprintParts, "footprints" | "webhooks" | "askStatuses">;
  readonly lease?: { readonly namespace: string; readonly name: string };
  readonly metrics: MetricsRegistry;
  readonly log: Logger;
  readonly clock: Clock;
}

export interface Admission {
  /** What puts the taints of gates on new nodes. */
  ofNodes(): AdmissionState | undefined;
  /** Whether the API server asks about pods that name a node. */
  ofBindings(): GateJudgement | undefined;
  /** Whether the API server asks about new pods. */
  ofPods(): ArchitectureJudgement | undefined;
  /** Whether the API server asks about new pods that are to wait for an agent. */
  ofWaits(): FootprintJudgement | undefined;
  gatesChanged(): void;
  policiesChanged(): void;
  footprintsChanged(): void;
  readonly always: readonly Component[];
  readonly elected: readonly Component[];
}

export function createAdmission(
  settings: AdmissionSettings,
  { gates, architecture, footprints, nodes, lease, ...common }: AdmissionOfAll,
): Admission {
  // A gate in dry run puts no taint on any node.
  const enforced = () => enforcedGates(gates.gates());
  const webhooks = gateWebhooks(enforced);
  const { webhooks: ofDirectBinding } = gates.directBindings;
  const webhook = createWebhookServer(settings, {
    ...common,
    owners: [webhooks, ofDirectBinding, architecture.webhooks, footprints.webhooks],
    onChange() {
      ofNodes.webhookChanged();
      ofBindings.changed();
      ofPods.webhookChanged();
      ofWaits.changed();
    },
  });
  const ofNodes = createAdmissionParts(settings, {
    ...common,
    nodes,
    gates: enforced,
    webhook,
    webhooks,
    ...(lease && { lease }),
    onChange: () => gates.askStatuses(),
  });
  const ofBindings = createDirectBindingAdmission(settings, {
    ...common,
    gates: gates.gates,
    webhook,
    webhooks: ofDirectBinding,
    onChange: () => gates.askStatuses(),
  });
  const ofPods = createArchitectureAdmission(settings, {
    ...common,
    policies: architecture.policies,
    webhook,
    webhooks: architecture.webhooks,
    onChange: () => architecture.askStatuses(),
  });
  const ofWaits = createFootprintAdmission(settings, {
    ...common,
    footprints: footprints.footprints,
    webhook,
    webhooks: footprints.webhooks,
    onChange: () => footprints.askStatuses(),
  });
  return {
    ofNodes: () => ofNodes.state(),
    ofBindings: () => ofBindings.state(),
    ofPods: () => ofPods.state(),
    ofWaits: () => ofWaits.state(),
    gatesChanged() {
      ofNodes.gatesChanged();
      ofBindings.changed();
    },
    policiesChanged: () => ofPods.policiesChanged(),
    footprintsChanged: () => ofWaits.changed(),
    always: [webhook.component, ...ofNodes.always],
    elected: [...ofNodes.elected, ...ofBindings.elected, ...ofPods.elected, ...ofWaits.elected],
  };
}
