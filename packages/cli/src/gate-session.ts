/** Startup gates as a command sees them, which looks once and does not watch. */
import { type DaemonSet, daemonSets, type KubeObject, type Node, type Pod, pods } from "@berth/kube";
import {
  type BoundCapability,
  bindGates,
  type GateCapability,
  GateClocks,
  type GateSight,
  type Gates,
  type Idleness,
  isRuleKnown,
  marksSettled,
  ownedMarks,
  type PodQuery,
  podQueries,
  recordOf,
} from "@berth/placement";
import { needsDaemonSets } from "./gate-parts.ts";
import { type Session, unlessForbidden } from "./session.ts";
import type { Surroundings } from "./surroundings.ts";

/** What the gates look at, read once. */
export interface GateView {
  readonly gates: Gates | undefined;
  readonly capability: GateCapability;
  /** All of the cluster; `undefined` when they were not wanted, or may not be read. */
  readonly daemonSets: readonly DaemonSet[] | undefined;
  /** Finds out whether the node runs pods, where a gate asks for it: without it that stays unknown. */
  askIdle(node: Node): Promise<void>;
}

export interface GateViewOptions {
  readonly session: Session;
  readonly surroundings: Surroundings;
  readonly installation: string;
  /** The derived labels, and whether their rules were given. */
  readonly labels: { readonly capability: BoundCapability; readonly known: boolean };
  /** The only node that will be asked about: then only its pods are read. Default all. */
  readonly node?: string;
  /** Read DaemonSets also when no gate looks at them. Default false. */
  readonly allDaemonSets?: boolean;
}

/**
 * Reads what the signals of the gates look at: one list for each query of pods, and the DaemonSets where they matter. What
 * may not be read is said, and is unknown.
 */
export async function viewGates(gates: Gates | undefined, options: GateViewOptions): Promise<GateView> {
  const { surroundings, session, node: only, installation, labels } = options;
  const { clock } = surroundings;
  const inForce = gates?.gates ?? [];
  const wantsSets = inForce.some(needsDaemonSets);
  const wanted = inForce.length > 0 && (wantsSets || options.allDaemonSets === true);
  const sets = wanted ? await listDaemonSets(session, surroundings) : undefined;
  const byName = sets && new Map(sets.map((it) => [nameOf(it), it]));
  const daemonSet: GateSight["daemonSet"] = (namespace, name) =>
    byName && (byName.get(`${namespace}/${name}`) ?? null);
  const found = new Map<string, PodsByNode>();
  for (const query of inForce.flatMap((gate) => podQueries(gate, { daemonSet }))) {
    if (found.has(keyOf(query))) continue;
    const read = await listPods({ query, only }, session, surroundings);
    if (read === undefined) break;
    found.set(keyOf(query), read);
  }
  const idle = new IdleOnce(session, surroundings);
  const capability = bindGates({
    gates: () => gates,
    sources: {
      sight: {
        pods: (query, node) => found.get(keyOf(query))?.read(node),
        daemonSet,
        labelsSettled: (node) => settled(node, labels, { installation, now: clock.now() }),
      },
      clocks: new GateClocks({ monotonic: () => clock.monotonic(), trusting: true }),
      idle: (node, ignored) => idle.idleOf(node, ignored),
      mayHoldAgain: () => true,
    },
  });
  return {
    gates,
    capability,
    daemonSets: sets,
    async askIdle(node) {
      const view = { node, owned: ownedMarks(recordOf(node), installation) };
      capability.look(view, clock.now());
      await idle.find(node);
    },
  };
}

/** For what is decided without any signal: nothing but the nodes themselves is seen. */
export function bindUnseeing(gates: Gates, clock: Surroundings["clock"]): GateCapability {
  return bindGates({
    gates: () => gates,
    sources: {
      sight: { pods: () => undefined, daemonSet: () => undefined, labelsSettled: () => undefined },
      clocks: new GateClocks({ monotonic: () => clock.monotonic(), trusting: true }),
      idle: () => "unknown",
      mayHoldAgain: () => false,
    },
  });
}

/** Whatever the labels are, they do not count where a rule that has set one was not given to the command. */
function settled(
  node: Node,
  { capability, known }: GateViewOptions["labels"],
  at: { readonly installation: string; readonly now: number },
): boolean | undefined {
  if (!known) return undefined;
  const owned = ownedMarks(recordOf(node), at.installation);
  const { policy } = capability.contribute({ node, owned }, at.now);
  const ours = [...owned.values()].filter((recorded) => recorded.capability === capability.name);
  if (ours.some(({ rule }) => !isRuleKnown(policy, rule))) return undefined;
  return marksSettled(capability, node, at);
}

interface PodsByNode {
  read(node: string): readonly Pod[] | undefined;
}

interface Wanted {
  readonly query: PodQuery;
  readonly only: string | undefined;
}

async function listPods(
  { query, only }: Wanted,
  session: Session,
  { signal }: Surroundings,
): Promise<PodsByNode | undefined> {
  const byNode = new Map<string, Pod[]>();
  const scope = { ...query, ...(only !== undefined && { fieldSelector: `spec.nodeName=${only}` }) };
  const isRead = await readable("Pods", session, async () => {
    for await (const { items } of session.client.pages(pods, { ...scope, signal, project: slimPod })) {
      for (const pod of items) {
        const node = pod.spec?.nodeName ?? "";
        const known = byNode.get(node);
        if (known === undefined) byNode.set(node, [pod]);
        else known.push(pod);
      }
    }
    return true;
  });
  if (isRead === undefined) return undefined;
  return { read: (node) => (only === undefined || only === node ? (byNode.get(node) ?? []) : undefined) };
}

/** All DaemonSets, without what nobody reads; `undefined` when they may not be read, which the session notes. */
export function listDaemonSets(
  session: Session,
  { signal }: Surroundings,
): Promise<readonly DaemonSet[] | undefined> {
  return readable("DaemonSets", session, async () => {
    const found: DaemonSet[] = [];
    for await (const { items } of session.client.pages(daemonSets, { signal, project: slim }))
      found.push(...items);
    return found;
  });
}

function readable<T>(what: string, session: Session, read: () => Promise<T>): Promise<T | undefined> {
  return unlessForbidden(what, session, read, "what startup gates see of them is unknown");
}

function slim<T extends KubeObject>(object: T): T {
  const { managedFields: _, ...metadata } = object.metadata ?? {};
  return { ...object, metadata };
}

/** Signals read who made it, where it runs and its status. The type promises more of a spec: none of it is read. */
function slimPod(pod: Pod): Pod {
  const { metadata, spec, status } = slim(pod);
  const { nodeName = "" } = spec ?? {};
  return { ...(metadata && { metadata }), spec: { nodeName, containers: [] }, ...(status && { status }) };
}

/** Remembers which nodes were asked about, and looks these up. */
class IdleOnce {
  readonly #session: Session;
  readonly #surroundings: Surroundings;
  readonly #asked = new Set<string>();
  /** Namespaces and names of the pods of a node. */
  readonly #pods = new Map<string, readonly KubeObject[]>();

  constructor(session: Session, surroundings: Surroundings) {
    this.#session = session;
    this.#surroundings = surroundings;
  }

  idleOf({ metadata }: Node, ignored: readonly string[]): Idleness {
    const name = metadata?.name ?? "";
    const found = this.#pods.get(name);
    this.#asked.add(name);
    if (found === undefined) return "unknown";
    const busy = found.find((pod) => !ignored.includes(pod.metadata?.namespace ?? ""));
    return busy === undefined ? { idle: true } : { idle: false, pod: nameOf(busy) };
  }

  async find({ metadata }: Node): Promise<void> {
    const name = metadata?.name ?? "";
    if (!this.#asked.has(name) || this.#pods.has(name)) return;
    const { signal } = this.#surroundings;
    const scope = { fieldSelector: `spec.nodeName=${name}`, metadataOnly: true, signal };
    const found = await readable("Pods", this.#session, async () => {
      const objects: KubeObject[] = [];
      for await (const { items } of this.#session.client.pages(pods, scope)) objects.push(...items);
      return objects;
    });
    if (found !== undefined) this.#pods.set(name, found);
  }
}

function keyOf({ namespace = "", labelSelector }: PodQuery): string {
  return `${namespace} ${labelSelector}`;
}

function nameOf({ metadata }: KubeObject): string {
  return `${metadata?.namespace ?? ""}/${metadata?.name ?? ""}`;
}
