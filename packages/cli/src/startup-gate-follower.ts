import { isApiError, type KubeClient, type Node } from "@berth/kube";
import { type StartupGate, startupGates } from "@berth/placement";
import { type Clock, type Component, createLoopComponent, type Informer, sleep } from "@berth/runtime";

export interface GateFollowerOptions {
  readonly client: Pick<KubeClient, "list">;
  readonly gates: Informer<StartupGate>;
  readonly nodes: Pick<Informer<Node>, "whenSynced">;
  readonly clock: Clock;
  /** Gets the gates as they are and as they change; none when there is no CRD. */
  readonly onGates: (gates: Iterable<StartupGate>) => void;
  /** They could not be read within `PATIENCE_MS`, and it is gone on without them. */
  readonly onUnreadable: () => void;
  readonly onNodes: () => void;
  /** Every `LOOK_MS`. */
  readonly onLook: () => void;
}

/** Edits of several gates within this time are put together once. Milliseconds. */
const COALESCE_MS = 50;
/** How often it is looked whether the CRD is there. Milliseconds. */
export const LOOK_MS = 5000;
/** Looks in a row that miss a CRD which was there before the server is asked itself, and how many until the next time. */
const ABSENT_LOOKS = 2;
const ASK_AGAIN_LOOKS = 12;
/** How long gates of the cluster are waited for. Milliseconds. */
export const PATIENCE_MS = 30_000;

/**
 * The gates of the cluster as they are and as they change. A CRD that is deleted takes its gates with it, and they let
 * go, also when that happened while nobody watched: a taint whose gate is gone would never come off.
 */
export function createGateFollower(options: GateFollowerOptions): Component {
  return createLoopComponent({ name: "startup-gates-follower", run: (signal) => follow(options, signal) });
}

async function follow(options: GateFollowerOptions, signal: AbortSignal): Promise<void> {
  const { gates, nodes, clock, onGates, onUnreadable, onNodes, onLook } = options;
  const startedMs = clock.monotonic();
  let isTold = false;
  let isGone = false;
  let absentLooks = 0;
  let timer: Disposable | undefined;
  const take = (): void => {
    if (!gates.synced || signal.aborted) return;
    isTold = true;
    isGone = false;
    onGates(gates.list());
  };
  using _subscribed = gates.subscribe({
    onChange(change) {
      if (change.type === "updated" && change.old.metadata?.generation === change.object.metadata?.generation)
        return;
      timer ??= clock.schedule(COALESCE_MS, () => {
        timer = undefined;
        take();
      });
    },
  });
  take();
  void gates.whenSynced(signal).then(take);
  void nodes.whenSynced(signal).then((synced) => synced && onNodes());
  const askWhetherGone = async (): Promise<void> => {
    if (!(await isMissing(options, signal)) || !gates.absent) return;
    isTold = true;
    isGone = true;
    onGates([]);
  };
  // Those of files do not have to wait then.
  if (!gates.synced && gates.absent) await askWhetherGone();
  while (await sleep(clock, LOOK_MS, signal)) {
    onLook();
    absentLooks = gates.absent ? absentLooks + 1 : 0;
    // What the informer holds is of before: nothing of it is told again when it comes back as it was.
    if (!gates.absent && isGone) take();
    const isDue = absentLooks >= ABSENT_LOOKS && (absentLooks - ABSENT_LOOKS) % ASK_AGAIN_LOOKS === 0;
    if (isDue && !isGone) await askWhetherGone();
    if (isTold || clock.monotonic() - startedMs < PATIENCE_MS) continue;
    isTold = true;
    onUnreadable();
  }
  timer?.[Symbol.dispose]();
}

/** An informer does not tell a resource that is not there from one that may not be read. */
async function isMissing({ client }: GateFollowerOptions, signal: AbortSignal): Promise<boolean> {
  try {
    await client.list(startupGates, { limit: 1, signal });
    return false;
  } catch (error) {
    return isApiError(error, "notFound");
  }
}
