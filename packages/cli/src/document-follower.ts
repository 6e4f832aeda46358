import { isApiError, type KubeClient, type KubeObject, type Node, type Resource } from "@berth/kube";
import { type Clock, type Component, createLoopComponent, type Informer, sleep } from "@berth/runtime";

export interface DocumentFollowerOptions<T extends KubeObject> {
  readonly client: Pick<KubeClient, "list">;
  readonly resource: Resource<T>;
  readonly documents: Informer<T>;
  /** Annotations that are read: a change of the others, as of the status, is none. Default none. */
  readonly annotations?: readonly string[];
  readonly nodes: Pick<Informer<Node>, "whenSynced">;
  readonly clock: Clock;
  /** Gets the documents as they are and as they change; none when there is no CRD. */
  readonly onDocuments: (documents: Iterable<T>) => void;
  /** They could not be read within `PATIENCE_MS`, and it is gone on without them. */
  readonly onUnreadable: () => void;
  readonly onNodes: () => void;
  /** Every `LOOK_MS`. */
  readonly onLook?: () => void;
}

/** Edits of several documents within this time are put together once. Milliseconds. */
const COALESCE_MS = 50;
/** How often it is looked whether the CRD is there. Milliseconds. */
export const LOOK_MS = 5000;
/** Looks in a row that miss a CRD which was there before the server is asked itself, and how many until the next time. */
const ABSENT_LOOKS = 2;
const ASK_AGAIN_LOOKS = 12;
/** How long documents of the cluster are waited for. Milliseconds. */
export const PATIENCE_MS = 30_000;

/**
 * The startup gates or architecture policies of the cluster as they are and as they change. A CRD that is deleted takes
 * them with it, and they let go, also when that happened while nobody watched: a taint whose document is gone would never
 * come off.
 */
export function createDocumentFollower<T extends KubeObject>(options: DocumentFollowerOptions<T>): Component {
  const { kind } = options.resource;
  const name = `${kind.replaceAll(/\B[A-Z]/g, (letter) => `-${letter}`).toLowerCase()}-follower`;
  return createLoopComponent({ name, run: (signal) => follow(options, signal) });
}

async function follow<T extends KubeObject>(
  options: DocumentFollowerOptions<T>,
  signal: AbortSignal,
): Promise<void> {
  const { documents, nodes, clock, onDocuments, onUnreadable, onNodes, onLook } = options;
  const startedMs = clock.monotonic();
  let isTold = false;
  let isGone = false;
  let absentLooks = 0;
  let timer: Disposable | undefined;
  const take = (): void => {
    if (!documents.synced || signal.aborted) return;
    isTold = true;
    isGone = false;
    onDocuments(documents.list());
  };
  using _subscribed = documents.subscribe({
    onChange(change) {
      if (change.type === "updated" && saysTheSame(change.old, change.object, options)) return;
      timer ??= clock.schedule(COALESCE_MS, () => {
        timer = undefined;
        take();
      });
    },
  });
  take();
  void documents.whenSynced(signal).then(take);
  void nodes.whenSynced(signal).then((synced) => synced && onNodes());
  const askWhetherGone = async (): Promise<void> => {
    if (!(await isMissing(options, signal)) || !documents.absent) return;
    isTold = true;
    isGone = true;
    onDocuments([]);
  };
  // Those of files do not have to wait then.
  if (!documents.synced && documents.absent) await askWhetherGone();
  while (await sleep(clock, LOOK_MS, signal)) {
    onLook?.();
    absentLooks = documents.absent ? absentLooks + 1 : 0;
    // What the informer holds is of before: nothing of it is told again when it comes back as it was.
    if (!documents.absent && isGone) take();
    const isDue = absentLooks >= ABSENT_LOOKS && (absentLooks - ABSENT_LOOKS) % ASK_AGAIN_LOOKS === 0;
    if (isDue && !isGone) await askWhetherGone();
    if (isTold || clock.monotonic() - startedMs < PATIENCE_MS) continue;
    isTold = true;
    onUnreadable();
  }
  timer?.[Symbol.dispose]();
}

function saysTheSame<T extends KubeObject>(
  { metadata: a }: T,
  { metadata: b }: T,
  { annotations = [] }: DocumentFollowerOptions<T>,
): boolean {
  return (
    a?.generation === b?.generation &&
    annotations.every((key) => a?.annotations?.[key] === b?.annotations?.[key])
  );
}

/** An informer does not tell a resource that is not there from one that may not be read. */
async function isMissing<T extends KubeObject>(
  { client, resource }: DocumentFollowerOptions<T>,
  signal: AbortSignal,
): Promise<boolean> {
  try {
    await client.list(resource, { limit: 1, signal });
    return false;
  } catch (error) {
    return isApiError(error, "notFound");
  }
}
