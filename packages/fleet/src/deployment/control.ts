/** The order in which Instances of a deployment are created, replaced and removed: one at a time. */
import { isConditionTrue } from "@berth/runtime";
import { instanceName, ordinalOf } from "../api/keys.ts";
import type { Instance } from "../api/workload.ts";

/** Of one deployment; its CRD allows no more. So the ordinals of one `start` are below `start + 1000`. */
export const MAX_REPLICAS = 1000;

export interface ControlView {
  /** Name of the deployment. */
  readonly deployment: string;
  /** All Instances of the deployment, those that are being deleted included. */
  readonly instances: readonly Instance[];
  /** The wanted ordinals: `desired` of them, from `start`. */
  readonly start: number;
  readonly desired: number;
  readonly isCurrent: (instance: Instance) => boolean;
  readonly isDeleting: (instance: Instance) => boolean;
  /** Whether an object that is not of this deployment has this name. */
  readonly isTaken: (name: string) => boolean;
  /** A Ready Instance that is deleted comes back only with a new grant of quota. Asked only when one would be. */
  readonly isHeld: () => boolean;
  /** No Instance of another template is replaced, Ready or not: what replaces it may never start. Default false. */
  readonly keepsOutdated?: boolean;
  /** No Instance is created. Default false. */
  readonly createsNone?: boolean;
}

/** `nameTaken`: by an object that is not of this deployment. `refused`: no Instance may be created. */
type Wait = "deleting" | "notReady" | "nameTaken" | "refused";

export type Action =
  | { readonly do: "create"; readonly ordinal: number }
  /** What comes after it is held. */
  | { readonly do: "wait"; readonly ordinal: number; readonly because: Wait }
  | { readonly do: "delete"; readonly ordinal: number; readonly instance: Instance };

export interface Control {
  /** Only the first one is carried out. The others show what follows. Empty: nothing to do, and nothing is held. */
  readonly actions: readonly Action[];
  /** Instances whose name is not that of an ordinal of the deployment. They are left alone. */
  readonly ignored: readonly Instance[];
  /** Ready Instances of another template that stay until the quota service is reachable. */
  readonly held: readonly Instance[];
  /** Wanted names that objects of others have. */
  readonly taken: readonly string[];
}

/** A wanted ordinal, and what it needs. */
interface Slot {
  readonly isReady: boolean;
  readonly action?: Action;
}

/**
 * Decides what the deployment needs, in this order:
 *
 * 1. Create the ordinals below which all Instances are Ready.
 * 2. Replace Instances of another template that are not Ready, the highest first. Nothing is lost by that.
 * 3. Remove Instances above the wanted ordinals, the highest first, even while a lower one is not Ready.
 * 4. Wait for each wanted Instance that is not Ready or is being deleted, and then create the next ordinal.
 * 5. Replace Ready Instances of another template, the highest first.
 * 6. Remove Instances of another `start`, the highest first. They serve until the wanted ones are Ready.
 *
 * A deletion of 2, 3 or 6 first waits for other Instances of its group that are being deleted.
 */
export function decideActions(view: ControlView): Control {
  const { deployment, instances, start, desired } = view;
  const byOrdinal = new Map<number, Instance>();
  const ignored: Instance[] = [];
  for (const instance of instances) {
    const name = instance.metadata?.name ?? "";
    const ordinal = ordinalOf(name);
    if (name === instanceName(deployment, ordinal)) byOrdinal.set(ordinal, instance);
    else ignored.push(instance);
  }
  const slots = Array.from({ length: desired }, (_, at) =>
    slotOf(view, start + at, byOrdinal.get(start + at)),
  );
  const surplus = [...byOrdinal]
    .filter(([ordinal]) => !(ordinal >= start && ordinal < start + desired))
    .map(([ordinal, instance]) => removalOf(view, ordinal, instance));
  const isOfStart = ({ ordinal }: Action): boolean => ordinal >= start && ordinal < start + MAX_REPLICAS;
  const isBlocking = ({ isReady, action }: Slot): boolean => !isReady && action?.do !== "create";
  const firstBlocking = slots.findIndex(isBlocking);
  const outdated = actionsOf(slots.filter(({ isReady }) => isReady)).toReversed();
  const isHeld = outdated.length > 0 && view.isHeld();
  const actions = new Set([
    ...actionsOf(
      slots.slice(0, firstBlocking < 0 ? desired : firstBlocking).filter(({ isReady }) => !isReady),
    ),
    ...oneByOne(actionsOf(slots.filter(isBlocking))),
    ...oneByOne(surplus.filter(isOfStart)),
    ...actionsOf(slots.filter(({ isReady }) => !isReady)),
    ...(isHeld ? [] : outdated),
    ...oneByOne(surplus.filter((it) => !isOfStart(it))),
  ]);
  const held = isHeld ? outdated.flatMap((it) => (it.do === "delete" ? it.instance : [])) : [];
  const taken = actionsOf(slots).flatMap((it) =>
    it.do === "wait" && it.because === "nameTaken" ? instanceName(deployment, it.ordinal) : [],
  );
  return { actions: withoutLastWaits([...actions]), ignored, held, taken };
}

function slotOf(view: ControlView, ordinal: number, instance?: Instance): Slot {
  if (instance === undefined) {
    const isTaken = view.isTaken(instanceName(view.deployment, ordinal));
    const because = isTaken ? "nameTaken" : view.createsNone === true ? "refused" : undefined;
    return {
      isReady: false,
      action: because === undefined ? { do: "create", ordinal } : { do: "wait", ordinal, because },
    };
  }
  const removal = removalOf(view, ordinal, instance);
  if (removal.do === "wait") return { isReady: false, action: removal };
  const isReady = isConditionTrue(instance.status?.conditions, "Ready");
  const isKept = !isReady && view.keepsOutdated === true;
  if (!view.isCurrent(instance) && !isKept) return { isReady, action: removal };
  return isReady ? { isReady } : { isReady, action: { do: "wait", ordinal, because: "notReady" } };
}

function removalOf({ isDeleting }: ControlView, ordinal: number, instance: Instance): Action {
  return isDeleting(instance)
    ? { do: "wait", ordinal, because: "deleting" }
    : { do: "delete", ordinal, instance };
}

function actionsOf(slots: readonly Slot[]): readonly Action[] {
  return slots.flatMap(({ action }) => action ?? []);
}

/** The deletions, the highest ordinal first, after waiting for those that have begun. */
function oneByOne(actions: readonly Action[]): readonly Action[] {
  const deletions = actions.filter((it) => it.do === "delete").toSorted((a, b) => b.ordinal - a.ordinal);
  if (deletions.length === 0) return [];
  return [...actions.filter((it) => it.do === "wait" && it.because === "deleting"), ...deletions];
}

/** A wait at the end holds nothing. */
function withoutLastWaits(actions: readonly Action[]): readonly Action[] {
  return actions.slice(0, actions.findLastIndex((it) => it.do !== "wait") + 1);
}
