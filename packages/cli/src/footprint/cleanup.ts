/** What `berth clean` undoes of footprints beside the nodes: finalizers on owners. */
import { daemonSets, isApiError, type Node } from "@berth/kube";
import {
  FOOTPRINT,
  type Footprint,
  type Footprints,
  labelId,
  type NodePlan,
  recordOf,
  staysAway,
  withoutSelector,
} from "@berth/placement";
import { removeFinalizer } from "@berth/runtime";
import type { Leftover } from "../leftovers.ts";
import type { ListingSurroundings } from "../listing.ts";
import { unlessForbidden } from "../session.ts";
import { distinctHolds, eachOwner } from "./owners.ts";

/**
 * Whose marks of footprints stand on nodes. Finalizers do not say themselves which installation has put them: where all
 * marks of a footprint are of another one, so are they.
 */
export class FootprintKeepers {
  readonly installation: string;
  readonly #ours = new Set<string>();
  readonly #others = new Map<string, string>();

  constructor(installation: string) {
    this.installation = installation;
  }

  add(node: Node): void {
    const read = recordOf(node);
    if (read.state !== "read") return;
    for (const { capability, rule, by } of read.record.marks.values()) {
      if (capability !== FOOTPRINT) continue;
      if (by === this.installation) this.#ours.add(rule);
      else this.#others.set(rule, by);
    }
  }

  /** The installation that alone has marks of it; `undefined`: it is ours, or nobody's. */
  otherOf({ rule }: Footprint): string | undefined {
    return this.#ours.has(rule) ? undefined : this.#others.get(rule);
  }
}

/**
 * Of the footprints that are known, and only what they would have put there themselves. Without Berth a finalizer would
 * keep an owner for ever.
 */
export async function findFootprintWork(
  footprints: Footprints | undefined,
  keepers: Pick<FootprintKeepers, "installation" | "otherOf">,
  { session, surroundings }: ListingSurroundings,
): Promise<readonly Leftover[]> {
  const found: Leftover[] = [];
  const ours = (footprints?.footprints ?? []).filter((footprint) => {
    const other = keepers.otherOf(footprint);
    if (other !== undefined)
      surroundings.stderr.write(
        `${footprint.rule} is of the installation ${other}, by its marks on nodes: what it has put beside these stays.\n`,
      );
    return other === undefined;
  });
  for (const hold of distinctHolds(ours)) {
    const { finalizer } = hold;
    await eachOwner(hold, { session, surroundings }, ({ object, resource, text }) => {
      const { namespace = "", name = "" } = object.metadata ?? {};
      const body = removeFinalizer(object, finalizer);
      if (body === undefined) return;
      const of = { name, ...(namespace !== "" && { namespace }) };
      found.push({
        object: text,
        what: `finalizer ${finalizer}`,
        undo: (signal) => session.client.patch(resource, of, body, { signal }),
      });
    });
  }
  return found;
}

/** A DaemonSet that goes by a label which is taken off. */
export interface BereftAgent {
  /** `namespace/name`. */
  readonly daemonSet: string;
  /** `ate.dev/atelet=true`. */
  readonly label: string;
  /** Nodes that lose the label by which it runs there. */
  readonly nodes: number;
}

/** @param plans what is taken off nodes. */
export async function findBereftAgents(
  footprints: Footprints | undefined,
  plans: readonly Pick<NodePlan, "changes">[],
  { session, surroundings }: ListingSurroundings,
): Promise<readonly BereftAgent[]> {
  const found: BereftAgent[] = [];
  for (const footprint of footprints?.footprints ?? []) {
    const { agent, label } = footprint;
    const isLost = ({ id, action, before }: NodePlan["changes"][number]): boolean =>
      id === labelId(label.key) && action === "remove" && before === label.value;
    const { length: count } = plans.filter(({ changes }) => changes.some(isLost));
    if (agent === undefined || count === 0) continue;
    const { namespace, name } = agent;
    const { signal } = surroundings;
    const daemonSet = await unlessForbidden(
      "DaemonSets",
      session,
      () => orNone(session.client.get(daemonSets, { namespace, name }, { signal })),
      `whether ${namespace}/${name} asks for ${label.key} is unknown`,
    );
    // Its pods stay where Berth itself made it ask: the request goes before the label does.
    const isAsking = daemonSet !== undefined && staysAway(daemonSet.spec?.template.spec, footprint);
    if (isAsking && withoutSelector(daemonSet) === undefined)
      found.push({ daemonSet: `${namespace}/${name}`, label: `${label.key}=${label.value}`, nodes: count });
  }
  return found;
}

async function orNone<T>(read: Promise<T>): Promise<T | undefined> {
  try {
    return await read;
  } catch (error) {
    if (isApiError(error, "notFound")) return undefined;
    throw error;
  }
}

/** One line for each agent. */
export function formatBereftAgents(agents: readonly BereftAgent[], isDone: boolean): string {
  return agents
    .map(({ daemonSet, label, nodes }) => {
      const on = `${nodes} ${nodes === 1 ? "node" : "nodes"}`;
      return `The DaemonSet ${daemonSet} asks for ${label}: its pods on ${on} ${isDone ? "end now" : "would end"}.\n`;
    })
    .join("");
}
