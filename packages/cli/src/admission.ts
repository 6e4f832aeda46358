/** The rules of admission of all capabilities, in the order in which they answer. */
import {
  type Admission,
  type AdmissionOptions,
  type AdmissionSettings,
  bindAdmission,
  createAdmission,
} from "@berth/host";
import type { Node } from "@berth/kube";
import type { WiredArchitecture, WiredFootprints, WiredGates } from "@berth/placement";
import {
  architectureAdmission,
  directBindingAdmission,
  enforcedGates,
  gateAdmission,
  waitAdmission,
} from "@berth/placement";
import type { Subscribable } from "@berth/runtime";

export interface AdmissionOfAll extends Omit<AdmissionOptions, "members"> {
  readonly nodes: Subscribable<Node>;
  readonly gates: Pick<WiredGates, "gates" | "directBindings" | "askStatuses">;
  readonly architecture: Pick<WiredArchitecture, "policies" | "answers" | "askStatuses">;
  readonly footprints: Pick<WiredFootprints, "footprints" | "answers" | "askStatuses">;
}

export function createAdmissionOfAll(
  settings: AdmissionSettings,
  { gates, architecture, footprints, nodes, ...common }: AdmissionOfAll,
): Admission {
  // A gate in dry run puts no taint on any node.
  const ofNodes = bindAdmission(gateAdmission, () => enforcedGates(gates.gates()));
  const ofBindings = bindAdmission(directBindingAdmission(gates.directBindings.sight), gates.gates);
  const ofPods = bindAdmission(architectureAdmission(architecture.answers), architecture.policies);
  const ofWaits = bindAdmission(waitAdmission(footprints.answers), footprints.footprints);
  return createAdmission(settings, {
    ...common,
    members: [
      { rules: ofNodes, onChange: gates.askStatuses, arrivals: nodes },
      { rules: ofBindings, onChange: gates.askStatuses },
      { rules: ofPods, onChange: architecture.askStatuses },
      { rules: ofWaits, onChange: footprints.askStatuses },
    ],
  });
}
