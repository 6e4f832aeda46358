/** Node footprints as a command sees them, which looks until it knows what it can know, and then goes. */
import { type DaemonSet, type KubeClient, type Pod, pods } from "@berth/kube";
import {
  type BoundCapability,
  bindFootprints,
  createFootprintSight,
  type Footprint,
  type FootprintSight,
  type Footprints,
  type FootprintWatches,
  groupOf,
  podNeeds,
} from "@berth/placement";
import { clusterName, createSilentLogger, sleep } from "@berth/runtime";
import { listDaemonSets } from "../gate-session.ts";
import { type Session, unlessForbidden } from "../session.ts";
import type { Surroundings } from "../surroundings.ts";

/** What footprints look at. It goes on seeing until it is disposed. */
export interface FootprintView extends AsyncDisposable {
  readonly footprints: Footprints | undefined;
  readonly capability: BoundCapability;
  readonly sight: FootprintSight;
  /** Waits until it is known what this pod means for them, or cannot be. It need not be one of the node. */
  settle(pod: Pod): Promise<void>;
}

export interface FootprintViewOptions {
  readonly session: Session;
  readonly surroundings: Surroundings;
  /** The only node that will be asked about: then no pods of others are received. Default all. */
  readonly node?: string;
}

/** How long it is waited while nothing more becomes known. Milliseconds. */
const PATIENCE_MS = 10_000;
const LOOK_MS = 50;

/**
 * Reads what footprints decide by as a running Berth does: pods as far as workloads select them, their owners, namespaces
 * and volumes where these matter, and DaemonSets. What may not be read, or does not come in time, is said and unknown.
 */
export async function viewFootprints(
  footprints: Footprints | undefined,
  options: FootprintViewOptions,
): Promise<FootprintView> {
  const { session, surroundings } = options;
  const inForce = footprints?.footprints ?? [];
  const daemonSet = await readDaemonSets(inForce, options);
  const watches = createFootprintSight({
    client: options.node === undefined ? session.client : onlyOf(session.client, options.node),
    cluster: clusterName("local"),
    clock: surroundings.clock,
    log: createSilentLogger(),
    daemonSets: { daemonSet, want: () => undefined },
    onNode: () => undefined,
    onEverything: () => undefined,
  });
  const { components, sight } = watches;
  await using owned = new AsyncDisposableStack();
  const mayRead = await mayReadPods(inForce, options);
  const stop = new AbortController();
  const signal = AbortSignal.any([surroundings.signal, stop.signal]);
  const running = mayRead ? await Promise.all(components.map((component) => component.start(signal))) : [];
  owned.defer(async () => {
    stop.abort();
    await Promise.all(running.map(({ ended }) => ended));
  });
  if (mayRead) {
    watches.want(inForce);
    await untilKnown(inForce, watches, surroundings);
    for (const component of components) {
      const problem = component.problem?.();
      if (problem !== undefined) surroundings.stderr.write(`What footprints see is incomplete: ${problem}\n`);
    }
  }
  const seeing = owned.move();
  return {
    footprints,
    capability: bindFootprints({ footprints: () => footprints, sight }),
    sight,
    async settle(pod) {
      if (mayRead) await untilKnown(inForce, { sight, podsOf: () => [pod] }, surroundings);
    },
    [Symbol.asyncDispose]: () => seeing.disposeAsync(),
  };
}

async function readDaemonSets(
  footprints: readonly Footprint[],
  { session, surroundings }: FootprintViewOptions,
): Promise<FootprintSight["daemonSet"]> {
  const isWanted = footprints.some(({ agent }) => agent !== undefined);
  const found = isWanted ? await listDaemonSets(session, surroundings) : undefined;
  const byName = found && new Map(found.map((it): [string, DaemonSet] => [nameOf(it), it]));
  return (namespace, name) => byName && (byName.get(`${namespace}/${name}`) ?? null);
}

/** Without the right it would be waited in vain. */
async function mayReadPods(
  footprints: readonly Footprint[],
  { session, surroundings }: FootprintViewOptions,
): Promise<boolean> {
  if (footprints.length === 0) return false;
  const { signal } = surroundings;
  const read = async (): Promise<boolean> => {
    await session.client.list(pods, { limit: 1, metadataOnly: true, signal });
    return true;
  };
  const why = "which nodes need agents is unknown";
  return (await unlessForbidden("Pods", session, read, why)) ?? false;
}

type Seeing = Pick<FootprintWatches, "sight" | "podsOf">;

/** Looking at a pod has its owners read. */
async function untilKnown(
  footprints: readonly Footprint[],
  watches: Seeing,
  { clock, signal }: Surroundings,
): Promise<void> {
  let least = Number.POSITIVE_INFINITY;
  let untilMs = clock.monotonic() + PATIENCE_MS;
  for (;;) {
    const open = countOpen(footprints, watches);
    if (open === 0) return;
    if (open < least) {
      least = open;
      untilMs = clock.monotonic() + PATIENCE_MS;
    }
    if (clock.monotonic() >= untilMs || !(await sleep(clock, LOOK_MS, signal))) return;
  }
}

/** Pods that cannot be told yet whether, and for whom, they need an agent; a footprint without its pods counts as all of them. */
function countOpen(footprints: readonly Footprint[], watches: Seeing): number {
  const { sight } = watches;
  let open = 0;
  for (const footprint of footprints) {
    const found = watches.podsOf(footprint);
    if (found === undefined) return Number.POSITIVE_INFINITY;
    for (const pod of found) {
      const needs = podNeeds(pod, footprint, sight);
      const isOpen =
        needs === "unknown" || (needs === "yes" && groupOf(pod, footprint, sight).is === "unknown");
      if (isOpen) open += 1;
    }
  }
  return open;
}

type SightClient = Parameters<typeof createFootprintSight>[0]["client"];

/** Reads pods of one node alone. Whatever else is read is about the whole cluster. */
function onlyOf(client: KubeClient, node: string): SightClient {
  const isOfPods = ({ group, plural }: { readonly group: string; readonly plural: string }): boolean =>
    group === pods.group && plural === pods.plural;
  const narrowed = (fieldSelector: string | undefined): string =>
    [...(fieldSelector ? [fieldSelector] : []), `spec.nodeName=${node}`].join(",");
  return {
    get: (resource, of, options) => client.get(resource, of, options),
    read: (path, options) => client.read(path, options),
    list: (resource, options = {}) =>
      client.list(
        resource,
        isOfPods(resource) ? { ...options, fieldSelector: narrowed(options.fieldSelector) } : options,
      ),
    watch: (resource, options = {}) =>
      client.watch(
        resource,
        isOfPods(resource) ? { ...options, fieldSelector: narrowed(options.fieldSelector) } : options,
      ),
  };
}

function nameOf({ metadata }: DaemonSet): string {
  return `${metadata?.namespace ?? ""}/${metadata?.name ?? ""}`;
}
