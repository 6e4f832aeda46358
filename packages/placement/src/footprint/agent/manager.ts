/** Has the DaemonSet of an agent ask for the label of its footprint, once that takes it from no node that needs it. */
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
  /** Those in force; `undefined` while some source has not been read. */
  readonly footprints: () => readonly Footprint[] | undefined;
  /**
   * How many nodes need the agent, and how many of them do not carry the label. `undefined` while that is not known of
   * every node: not all have been looked at, or pods that may need it have not been read.
   */
  readonly counts: (footprint: Footprint) => NeededNodes | undefined;
  /** Is told what is in the way, and that nothing is any more. */
  readonly problems: Pick<ManageProblems, "put">;
  readonly clock: Clock;
}

/** Since when so many nodes need it and each is labelled, ms of the monotonic clock. */
interface AgentPast {
  needed: number | undefined;
  sinceMs: number;
}

/** How soon it is looked again whether every node is labelled, ms. It costs no request; a change may ask sooner. */
const WAITING_MS = 5_000;

/**
 * How long every node has been labelled before the DaemonSet asks for it, ms: its controller has two watches, and one that
 * hears of the new template before it hears of the last label would end the agent of that node.
 */
const SETTLED_MS = 2_000;

/**
 * The second phase of a rollout: the DaemonSet controller takes the agent off every node that does not match at once, so
 * the label has to stand wherever the agent is needed before the DaemonSet asks for it.
 *
 * Guarantees: one patch, which rolls the agent out, and none while a node that needs the agent lacks the label or while
 * that is not known. When a footprint goes, the selector stays: without the label the agent runs nowhere until
 * `berth clean` or a person removes it. Objects have to keep all that says where the pods of a template go.
 */
export function agentRules(options: AgentRulesOptions): ObjectRules<DaemonSet, AgentPast> {
  const { problems } = options;
  const footprintOf = (of: Partial<Pick<ObjectKey, "namespace" | "name">> = {}): Footprint | undefined =>
    // No two manage one DaemonSet: such documents are refused.
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
      // Nodes that were labelled between two looks count from the second.
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

/** The DaemonSets to look at. */
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
    contested: `somebody keeps taking ${key} off its pod template: it is left alone for a while, and runs on nodes that do not need it by the footprint ${name}`,
  };
}
