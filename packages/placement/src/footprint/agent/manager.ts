/** Makes an agent's DaemonSet ask for the label of its footprint, once no node that needs the agent would lose it. */
import type { Intent, ObjectRules } from "@berth/host";
import { type DaemonSet, daemonSets, type JsonPatchOperation } from "@berth/kube";
import type { Clock, ObjectKey } from "@berth/runtime";
import { type Reason, reasons } from "../../api/reasons.ts";
import type { Footprint } from "../footprint.ts";
import type { ManageProblems } from "./manage-problems.ts";
import { selectorPatch } from "./selector.ts";

/** Numbers of nodes. */
export interface NeededNodes {
  readonly needed: number;
  readonly pending: number;
}

export interface AgentRulesOptions {
  /** Footprints in force; `undefined` until Berth has read every source. */
  readonly footprints: () => readonly Footprint[] | undefined;
  /**
   * How many nodes need the agent, and how many of these lack the label. `undefined` while a node is unknown: Berth has
   * not examined it, or has not read all pods that may need the agent.
   */
  readonly counts: (footprint: Footprint) => NeededNodes | undefined;
  /** Receives the problem that stops Berth from managing a DaemonSet, and the end of that problem. */
  readonly problems: Pick<ManageProblems, "put">;
  readonly clock: Clock;
}

/** `sinceMs`: since when `needed` nodes need the agent and all of them have the label, monotonic ms. */
interface AgentPast {
  needed: number | undefined;
  sinceMs: number;
}

/** How often Berth checks whether every node has the label, ms. A check costs no request. A change can start one. */
const WAITING_MS = 5_000;

/**
 * How long every node must have had the label before the DaemonSet asks for it, ms. The DaemonSet controller has two
 * watches. If it sees the new template before the last label, it ends the agent on that node.
 */
const SETTLED_MS = 2_000;

/**
 * The second phase of a rollout. The DaemonSet controller removes the agent at once from every node that does not
 * match. So every node that needs the agent must have the label before the DaemonSet asks for it.
 *
 * Guarantees: one patch, which rolls the agent out; none while a node that needs the agent lacks the label or is
 * unknown. Deleting the footprint keeps the selector: the agent runs nowhere until `berth clean` or a person removes
 * it. The DaemonSet cache must keep every field that decides where the pods of a template run.
 */
export function agentRules(options: AgentRulesOptions): ObjectRules<DaemonSet, AgentPast> {
  const { problems } = options;
  const footprintOf = (of: Partial<Pick<ObjectKey, "namespace" | "name">> = {}): Footprint | undefined =>
    // At most one footprint manages a DaemonSet: Berth refuses documents that clash.
    options.footprints()?.find(({ agent }) => isManaged(agent, of));
  const clear = (of: Parameters<typeof footprintOf>[0]): void => {
    const footprint = footprintOf(of);
    if (footprint !== undefined) problems.put(footprint, undefined);
  };
  return {
    resource: daemonSets,
    action: "PlaceAgent",
    decide(daemonSet, past, key) {
      const { needed } = past;
      past.needed = undefined;
      if (options.footprints() === undefined) return { recheckAfterMs: WAITING_MS };
      const footprint = footprintOf(key);
      const isDeleted = daemonSet.metadata?.deletionTimestamp !== undefined;
      const patch = footprint && !isDeleted ? selectorPatch(daemonSet, footprint) : undefined;
      if (footprint === undefined || patch === undefined) {
        clear(key);
        return undefined;
      }
      const counts = options.counts(footprint);
      if (counts?.pending !== 0) return { recheckAfterMs: WAITING_MS };
      const now = options.clock.monotonic();
      // A node that got its label between two checks counts from the second check.
      const { sinceMs = now } = needed === counts.needed ? past : {};
      Object.assign(past, { needed: counts.needed, sinceMs });
      if (now - sinceMs < SETTLED_MS) return { recheckAfterMs: sinceMs + SETTLED_MS - now };
      return { intents: [intentOf(footprint, patch)] };
    },
    gone: clear,
    done: ({ metadata }) => clear(metadata),
    withheld({ metadata }, { reason, message }) {
      const footprint = footprintOf(metadata);
      const text = `the DaemonSet ${metadata?.namespace}/${metadata?.name}: ${message}`;
      if (footprint !== undefined) problems.put(footprint, { reason: reason as Reason, message: text });
    },
  };
}

/** Keys of the DaemonSets that Berth manages. */
export function managedAgents(
  footprints: readonly Footprint[],
  cluster: ObjectKey["cluster"],
): readonly ObjectKey[] {
  return footprints.flatMap(({ agent }) =>
    agent?.nodeSelector === "Manage" ? [{ cluster, namespace: agent.namespace, name: agent.name }] : [],
  );
}

function isManaged(
  agent: Footprint["agent"],
  { namespace, name }: Partial<Pick<ObjectKey, "namespace" | "name">>,
): boolean {
  return agent?.nodeSelector === "Manage" && agent.namespace === namespace && agent.name === name;
}

function intentOf({ name, label: { key, value } }: Footprint, body: readonly JsonPatchOperation[]): Intent {
  return {
    do: "patch",
    patch: { type: "json", body },
    reason: reasons.AgentFollows,
    message: `its pods run only on nodes with ${key}=${value} from now on, as the footprint ${name} asks: every node that needs them is labelled`,
    announce: "Normal",
    gives: [`${key}=${value}`],
    what: "its pod template",
    advice: `allow Berth to patch it, or have its own manifest ask for ${key}=${value}`,
    contested: `another writer keeps removing ${key} from its pod template: Berth leaves it alone for a while, and it runs on nodes that do not need it by the footprint ${name}`,
  };
}
