/** `NodeFootprint` documents made ready for use. Plain data. */

import type { DocumentFault, Selector } from "@berth/host";
import type { PortWait } from "../api/wait-container.ts";
import type { Annotated, Silencing } from "../api/warnings.ts";
import type { Policy } from "../node/capability.ts";
import type { GroupVersionResource, NodeFootprintSpec } from "./document.ts";

export type { GroupVersionResource };

/** The name of the capability, recorded on nodes. */
export const FOOTPRINT = "footprint";

/** A document whose `spec` has passed the schema. */
export interface FootprintDocument extends Annotated {
  readonly name: string;
  readonly spec: NodeFootprintSpec;
}

export interface NeedingPods {
  readonly podSelector: Selector;
  readonly namespaceSelector: Selector;
  readonly requests: readonly string[];
  readonly csiDrivers: readonly string[];
  readonly ignorePhases: ReadonlySet<string>;
  readonly terminating: "Hold" | "Release";
}

export type PodGrouping =
  | {
      readonly by: "PodLabel";
      readonly label: string;
      /** The label value must be the uid of an owner of this kind. Absent: Berth trusts the label. */
      readonly verify?: { readonly group: string; readonly kind: string };
    }
  | { readonly by: "OwnerUID"; readonly owner: { readonly group: string; readonly kind: string } }
  | { readonly by: "Namespace" | "Pod" | "None" };

export interface OwnerHold {
  readonly resource: GroupVersionResource;
  readonly finalizer: string;
  readonly onDelete: "DeleteOwned" | "Wait";
  readonly ownedResources: readonly GroupVersionResource[];
  /** When Berth releases the owner although its pods remain, ms; absent: never. */
  readonly timeoutMs?: number;
}

/** One footprint in force, complete: preset and defaults are filled in. */
export interface Footprint extends Silencing {
  /** As recorded on nodes: `cluster/atelet`, `config/atelet`. */
  readonly rule: string;
  readonly name: string;
  readonly workloads: readonly NeedingPods[];
  readonly grouping: PodGrouping;
  readonly label: { readonly key: string; readonly value: string };
  readonly claims?: { readonly annotationPrefix: string; readonly value: string };
  readonly foreign: "Reclaim" | "Preserve" | "Report";
  /** Absent: none is excluded. */
  readonly excludeSelector?: Selector;
  readonly releaseDelayMs: number;
  readonly hold?: OwnerHold;
  /** The container that the webhook puts into new pods. */
  readonly wait?: PortWait;
  readonly agent?: {
    readonly namespace: string;
    readonly name: string;
    readonly nodeSelector: "Off" | "Verify" | "Manage";
  };
}

/** All footprints in force. A new value for each change of them. */
export interface Footprints {
  /** By name. */
  readonly footprints: readonly Footprint[];
  /** Of the node capability. */
  readonly policy: Policy;
  readonly faults: readonly DocumentFault[];
}
