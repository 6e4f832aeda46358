/** Has the pods of owned Deployments wait for the agent of their node, by server-side apply. */
import {
  compareResourceVersions,
  type Deployment,
  deployments,
  isApiError,
  type KubeClient,
} from "@berth/kube";
import {
  type Clock,
  type Lister,
  type ObjectKey,
  type Reconcile,
  type ReconcileResult,
  referenceTo,
} from "@berth/runtime";
import { reasons } from "../../../api/reasons.ts";
import type { EventSink } from "../../report.ts";
import {
  contestOf,
  createTemplateMemory,
  isStale,
  type Notice,
  noteWritten,
  REFUSED_MS,
  TemplateMemories,
  type TemplateMemory,
  tell,
} from "../../template-memory.ts";
import type { Footprints } from "../footprint.ts";
import type { NeedSight } from "../needs.ts";
import { claimantsAfter, isFree, WaitClaimants } from "./claimants.ts";
import { decideWait, type WaitDecision } from "./decide.ts";
import { waitManager } from "./wait.ts";

export interface WaitReconcilerOptions {
  /** With what Berth has applied in `managedFields`, as `WaitWatch` keeps it. */
  readonly deployments: Pick<Lister<Deployment>, "get">;
  /** `undefined` until all sources were read: nothing is done. */
  readonly footprints: () => Footprints | undefined;
  readonly sight: NeedSight;
  readonly client: Pick<KubeClient, "apply">;
  /** Under whose name it is applied. */
  readonly installation: string;
  readonly events?: EventSink;
  readonly clock: Clock;
}

/**
 * Level-based. One roll-out of the Deployment for each change: the second apply, which gives up names of others that the
 * first one needed for the order, leaves the template as it is. What others take off is put back, three times within ten
 * minutes; then the Deployment is left alone for a while (`Contested`).
 */
export function createWaitReconciler(options: WaitReconcilerOptions): Reconcile<ObjectKey> {
  const { clock } = options;
  // Only of Deployments that were written, and until they are gone.
  const memories = new TemplateMemories(createTemplateMemory);
  const claimants = new WaitClaimants();
  return async (key, { signal }) => {
    const deployment = options.deployments.get(key);
    const { uid, resourceVersion } = deployment?.metadata ?? {};
    if (deployment === undefined || uid === undefined || resourceVersion === undefined) {
      memories.forget(key);
      claimants.forget(key);
      return undefined;
    }
    const footprints = options.footprints();
    // Those of a source that is still to be read may want what would be taken off.
    if (footprints === undefined || footprints.policy.isUndecided) return undefined;
    const before = claimants.of(key, uid);
    const decision = decideWait({
      deployment,
      installation: options.installation,
      footprints: footprints.footprints,
      sight: options.sight,
      isFree: (container) => isFree(container, footprints, before),
    });
    claimants.note(key, uid, claimantsAfter(before, decision, footprints));
    if (decision.bodies.length === 0) return undefined;
    const memory = memories.of(key, uid);
    if (isBehind(memory, resourceVersion)) return undefined;
    const subject: Subject = { deployment, memory, decision };
    const contest = contestOf(memory, entriesOf(decision), clock.monotonic());
    if (contest === undefined) return write(subject, options, signal);
    if (contest.started) {
      const note =
        "somebody keeps taking the wait for the agent off its pod template: left alone for a while";
      record(subject, options, { reason: reasons.Contested, note, type: "Warning" });
    }
    return { recheckAfterMs: contest.leftMs };
  };
}

/** Is it what stood before our last apply, or between the two of them? Then the newer version is on its way. */
function isBehind(memory: TemplateMemory, resourceVersion: string): boolean {
  const order = compareResourceVersions(resourceVersion, memory.written?.to ?? "");
  return order === undefined ? isStale(memory, resourceVersion) : order < 0;
}

interface Subject {
  readonly deployment: Deployment;
  readonly memory: TemplateMemory;
  readonly decision: WaitDecision;
}

/** As the memory of fights counts what was given: what it is called, and what it says. */
function entriesOf({ put }: WaitDecision): readonly { readonly key: string; readonly value: string }[] {
  return put.map((container) => ({ key: container.name, value: JSON.stringify(container) }));
}

async function write(
  subject: Subject,
  options: WaitReconcilerOptions,
  signal: AbortSignal,
): Promise<ReconcileResult | undefined> {
  const { deployment, memory, decision } = subject;
  const from = deployment.metadata?.resourceVersion ?? "";
  let to = from;
  try {
    for (const body of decision.bodies) {
      // The type promises a whole Deployment: an apply is of a part of it. Never forced: what is of others stays.
      const after = await options.client.apply(deployments, body as Deployment, {
        fieldManager: waitManager(options.installation),
        signal,
      });
      to = after.metadata?.resourceVersion ?? "";
    }
  } catch (error) {
    // Gone, or made anew: with its uid in the body an apply creates nothing.
    if (isApiError(error, "notFound", "uidMismatch")) return undefined;
    if (!isApiError(error, "invalid", "forbidden", "conflict")) throw error;
    record(subject, options, { reason: reasons.WriteRefused, note: error.message, type: "Warning" });
    return { recheckAfterMs: REFUSED_MS };
  }
  const given = entriesOf(decision);
  const result = noteWritten(memory, { from, to, given, nowMs: options.clock.monotonic() });
  const [reason, how, what] =
    decision.put.length > 0
      ? [reasons.AgentWaitSet, "with", decision.put.map(({ name }) => name)]
      : [reasons.AgentWaitTaken, "without", decision.taken];
  const note = `rolled out ${how} the init container ${what.join(", ")}`;
  record(subject, options, { reason, note, type: "Normal" });
  return result;
}

function record({ deployment, memory }: Subject, { events }: WaitReconcilerOptions, notice: Notice): void {
  tell(memory, events, {
    regarding: referenceTo(deployments, deployment),
    action: "WaitForAgent",
    ...notice,
  });
}
