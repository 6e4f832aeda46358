/** What `berth clean` undoes of footprints beside the nodes: finalizers on owners. */

import { type OneShotRun, unlessForbidden } from "@berth/host";
import { daemonSets, isApiError, type Node } from "@berth/kube";
import {
  asksFor,
  FOOTPRINT,
  type Footprint,
  type Footprints,
  labelId,
  type NodePlan,
  recordOf,
  withoutSelector,
} from "@berth/placement";
import { removeFinalizer } from "@berth/runtime";
import type { Leftover } from "../leftovers.ts";
import { type DistinctHold, distinctHolds, eachOwner } from "./owners.ts";

/**
 * Whose marks of footprints stand on nodes. Finalizers do not say themselves which installation has put them: where all
 * marks of a footprint are of another one, so are they.
 */
export class FootprintKeepers {
  readonly #installation: string;
  readonly #ours = new Set<string>();
  readonly #others = new Map<string, string>();

  constructor(installation: string) {
    this.#installation = installation;
  }

  add(node: Node): void {
    const read = recordOf(node);
    if (read.state !== "read") return;
    for (const { capability, rule, by } of read.record.marks.values()) {
      if (capability !== FOOTPRINT) continue;
      if (by === this.#installation) this.#ours.add(rule);
      else this.#others.set(rule, by);
    }
  }

  get installation(): string {
    return this.#installation;
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
  run: OneShotRun,
): Promise<readonly Leftover[]> {
  const found: Leftover[] = [];
  const inForce = (footprints?.footprints ?? []).filter((footprint) => {
    const other = keepers.otherOf(footprint);
    if (other === undefined) return true;
    run.stderr.write(
      `${footprint.rule} is of the installation ${other}, by its marks on nodes: what it has put beside these stays.\n`,
    );
    return false;
  });
  for (const hold of distinctHolds({ footprints: inForce })) found.push(...(await heldOwners(hold, run)));
  return found;
}

async function heldOwners(hold: DistinctHold, run: OneShotRun): Promise<readonly Leftover[]> {
  const { finalizer } = hold;
  const found: Leftover[] = [];
  await eachOwner(hold, run, ({ object, resource, text }) => {
    const {
      namespace = "",
      name = "",
      uid = "",
      resourceVersion = "",
      finalizers = [],
    } = object.metadata ?? {};
    const body = removeFinalizer({ metadata: { uid, resourceVersion, finalizers } }, finalizer);
    if (body === undefined) return;
    const of = { name, ...(namespace !== "" && { namespace }) };
    found.push({
      object: text,
      what: `finalizer ${finalizer}`,
      undo: (signal) => run.client.patch(resource, of, body, { signal }),
    });
  });
  return found;
}

/** A DaemonSet that goes by a label which is taken off. */
export interface BereftAgent {
  /** `namespace/name`. */
  readonly daemonSet: string;
  /** `ate.dev/atelet=true`. */
  readonly label: string;
  readonly placement: Footprint["placement"];
  /** Nodes that lose the label by which it runs there, or with `Eager` does not. */
  readonly nodes: number;
}

/** @param plans what is taken off nodes. */
export async function findBereftAgents(
  footprints: Footprints | undefined,
  plans: readonly Pick<NodePlan, "changes">[],
  run: OneShotRun,
): Promise<readonly BereftAgent[]> {
  const found: BereftAgent[] = [];
  for (const footprint of footprints?.footprints ?? []) {
    const { agent, label, placement } = footprint;
    const id = labelId(label.key);
    const count = plans.filter(({ changes }) =>
      changes.some(
        ({ id: changed, action, before }) =>
          changed === id && action === "remove" && (before === label.value) === (placement === "Lazy"),
      ),
    ).length;
    if (agent === undefined || count === 0) continue;
    const { namespace, name } = agent;
    const { signal } = run;
    const daemonSet = await unlessForbidden(
      "DaemonSets",
      run,
      () => orNone(run.client.get(daemonSets, { namespace, name }, { signal })),
      `whether ${namespace}/${name} asks for ${label.key} is unknown`,
    );
    // Its pods stay where Berth itself made it ask: the request goes before the label does.
    if (daemonSet && asksFor(daemonSet, footprint) && withoutSelector(daemonSet) === undefined)
      found.push({
        daemonSet: `${namespace}/${name}`,
        label: `${label.key}=${label.value}`,
        placement,
        nodes: count,
      });
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
    .map(({ daemonSet, label, placement, nodes }) => {
      const on = `${nodes} ${nodes === 1 ? "node" : "nodes"}`;
      return placement === "Lazy"
        ? `The DaemonSet ${daemonSet} asks for ${label}: its pods on ${on} ${isDone ? "end now" : "would end"}.\n`
        : `The DaemonSet ${daemonSet} ${isDone ? "runs" : "would run"} on ${on} that nobody needs it on: nothing keeps it away any more.\n`;
    })
    .join("");
}
