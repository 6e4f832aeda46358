/** What `berth clean` undoes of footprints beside the nodes: finalizers on owners, and old waits in Deployments. */
import { type Deployment, daemonSets, deployments, isApiError, type Node } from "@berth/kube";
import {
  asksFor,
  FOOTPRINT,
  type Footprint,
  type Footprints,
  formerWaitManager,
  formerWaits,
  labelId,
  type NodePlan,
  recordOf,
} from "@berth/placement";
import { removeFinalizer } from "@berth/runtime";
import { describeApiError } from "../failure-text.ts";
import { eachObject, type ListingSurroundings } from "../listing.ts";
import { unlessForbidden } from "../session.ts";
import type { Surroundings } from "../surroundings.ts";
import { type DistinctHold, distinctHolds, eachOwner } from "./owners.ts";

/** One object that has something of a footprint on it. */
export interface FootprintLeftover {
  /** `workerpools.ate.dev default/pool`. */
  readonly object: string;
  readonly what: string;
  readonly undo: (signal: AbortSignal) => Promise<unknown>;
}

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
  { session, surroundings }: ListingSurroundings,
): Promise<readonly FootprintLeftover[]> {
  const found: FootprintLeftover[] = [];
  const inForce = (footprints?.footprints ?? []).filter((footprint) => {
    const other = keepers.otherOf(footprint);
    if (other === undefined) return true;
    surroundings.stderr.write(
      `${footprint.rule} is of the installation ${other}, by its marks on nodes: what it has put beside these stays.\n`,
    );
    return false;
  });
  for (const hold of distinctHolds({ footprints: inForce }))
    found.push(...(await heldOwners(hold, { session, surroundings })));
  return found;
}

async function heldOwners(
  hold: DistinctHold,
  { session, surroundings }: ListingSurroundings,
): Promise<readonly FootprintLeftover[]> {
  const { finalizer } = hold;
  const found: FootprintLeftover[] = [];
  await eachOwner(hold, { session, surroundings }, ({ object, resource, text }) => {
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
      undo: (signal) => session.client.patch(resource, of, body, { signal }),
    });
  });
  return found;
}

/**
 * Deployments with a wait that an earlier release applied: an apply of nothing removes it. Only this release looks for them.
 */
export async function findFormerWaits(
  installation: string,
  { session, surroundings }: ListingSurroundings,
): Promise<readonly FootprintLeftover[]> {
  const fieldManager = formerWaitManager(installation);
  const found: FootprintLeftover[] = [];
  await eachObject({ resource: deployments }, { session, surroundings }, (deployment) => {
    if (formerWaits(deployment, installation).length === 0) return;
    const { namespace = "", name = "", uid = "" } = deployment.metadata ?? {};
    // The type promises a whole Deployment: an apply is of a part of it.
    const nothing = { metadata: { namespace, name, uid } } as Deployment;
    found.push({
      object: `deployments.apps ${namespace}/${name}`,
      what: "its pods wait for an agent, and are rolled out anew without",
      undo: (signal) => session.client.apply(deployments, nothing, { fieldManager, signal }),
    });
  });
  return found;
}

/**
 * One that is gone is as good.
 * @returns one line for each that was left as it is: it changed since it was read, or may not be written.
 */
export async function carryOutFootprintWork(
  work: readonly FootprintLeftover[],
  { signal }: Pick<Surroundings, "signal">,
): Promise<readonly string[]> {
  const failures: string[] = [];
  for (const { object, undo } of work) {
    try {
      await undo(signal);
    } catch (error) {
      if (isApiError(error, "notFound", "uidMismatch")) continue;
      if (!isApiError(error)) throw error;
      failures.push(`${object} was left as it is: ${describeApiError(error)}`);
    }
  }
  return failures;
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
  { session, surroundings }: ListingSurroundings,
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
    const { signal } = surroundings;
    const daemonSet = await unlessForbidden(
      "DaemonSets",
      session,
      () => orNone(session.client.get(daemonSets, { namespace, name }, { signal })),
      `whether ${namespace}/${name} asks for ${label.key} is unknown`,
    );
    if (daemonSet && asksFor(daemonSet, footprint))
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

/** As data; nothing when there is nothing. */
export function describeFootprintWork(work: readonly FootprintLeftover[]): object {
  return work.length === 0 ? {} : { owners: work.map(({ object, what }) => ({ object, what })) };
}

export function formatFootprintWork(work: readonly FootprintLeftover[], verb: "will" | "would"): string {
  return work.map(({ object, what }) => `${object}: ${what}: ${verb} be taken off\n`).join("");
}
