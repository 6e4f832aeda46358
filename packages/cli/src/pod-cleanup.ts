/** What `berth clean` does about pods: lets those go that a scheduling gate of ours holds, and restarts others if asked to. */
import { unlessForbidden } from "@berth/host";
import { isApiError, type KubeObject, type Pod, pods } from "@berth/kube";
import {
  ARCHITECTURE,
  type ArchitecturePolicies,
  decidePod,
  isKeptPending,
  type LeftPod,
  ORIGINAL_ARCHITECTURE_KEY,
  type PodDecision,
  planPodRestarts,
  slimPodStatus,
  taintKeys,
  UNSCHEDULED,
} from "@berth/placement";
import { sleep } from "@berth/runtime";
import { CommandError, exitCodes } from "./exit-codes.ts";
import type { Session } from "./session.ts";

export interface PodCleaning {
  readonly options: { readonly capability?: string; readonly restartPods?: boolean };
  readonly policies?: ArchitecturePolicies;
}

export interface PodWork {
  /** Pods that Berth keeps pending, by its gate or without a toleration. */
  readonly letGo: readonly Pod[];
  readonly evict: readonly Pod[];
  /** Pods with a toleration of ours that are not restarted, and why. */
  readonly left: readonly LeftPod[];
}

/** A pod that a disruption budget protects is asked about again after this. Milliseconds. */
const BUDGET_MS = 5000;
/** How long disruption budgets are waited for, over all pods. Milliseconds. */
const PATIENCE_MS = 120_000;
/** Evictions in flight. */
const PARALLEL = 8;
const MAX_TRIES = 5;
const MOST_NAMED = 5;

export async function findPodWork(
  { options: { capability, restartPods = false }, policies }: PodCleaning,
  session: Session,
): Promise<PodWork> {
  const { signal } = session;
  if (capability !== undefined && capability !== ARCHITECTURE) return { letGo: [], evict: [], left: [] };
  const read = async (fieldSelector?: string): Promise<readonly Pod[]> => {
    const found: Pod[] = [];
    const scope = { ...(fieldSelector !== undefined && { fieldSelector }), signal, project: slim };
    for await (const { items } of session.client.pages(pods, scope)) found.push(...items);
    return found;
  };
  const found = await unlessForbidden(
    "Pods",
    session,
    () => read(restartPods ? undefined : UNSCHEDULED),
    "those that wait for an architecture policy go on waiting",
  );
  const letGo = (found ?? []).filter(isKeptPending);
  if (!restartPods) return { letGo, evict: [], left: [] };
  const keys = [ORIGINAL_ARCHITECTURE_KEY, ...taintKeys(policies ?? { policies: [] })];
  return { letGo, ...planPodRestarts(found ?? [], keys) };
}

/** What is looked at. The type promises more of a spec: none of it is read. */
function slim({ metadata, spec, status }: Pod): Pod {
  const { managedFields: _, ...kept } = metadata ?? {};
  const { tolerations, schedulingGates, nodeName } = spec ?? {};
  return {
    metadata: kept,
    spec: {
      containers: [],
      ...(tolerations && { tolerations }),
      ...(schedulingGates && { schedulingGates }),
      ...(nodeName !== undefined && { nodeName }),
    },
    ...(status && { status: slimPodStatus(status) }),
  };
}

export function isNothing({ letGo, evict }: PodWork): boolean {
  return letGo.length + evict.length === 0;
}

/** For `-o json`. */
export function describePodWork({ letGo, evict, left }: PodWork): {
  readonly pods: Readonly<Record<"letGo" | "evict", readonly string[]>> & {
    readonly left: readonly { readonly pod: string; readonly why: string }[];
  };
} {
  const why = left.map((it) => ({ pod: nameOf(it.pod), why: it.why }));
  return { pods: { letGo: letGo.map(nameOf), evict: evict.map(nameOf), left: why } };
}

export function formatPodWork({ letGo, evict, left }: PodWork, verb: "will" | "would"): string {
  const lines: string[] = [];
  const say = (found: readonly Pod[], what: string): void => {
    if (found.length === 0) return;
    const first = found.slice(0, MOST_NAMED).map(nameOf).join(", ");
    const count = `${found.length} ${found.length === 1 ? "pod" : "pods"}`;
    lines.push(`${count} ${verb} be ${what}: ${first}${found.length > MOST_NAMED ? ", …" : ""}\n`);
  };
  say(letGo, "let go, that an architecture policy holds");
  say(evict, "evicted, to come back without the tolerations");
  for (const { pod, why } of left.slice(0, MOST_NAMED)) lines.push(`pod ${nameOf(pod)} stays: ${why}\n`);
  if (left.length > MOST_NAMED) lines.push(`and ${left.length - MOST_NAMED} pods more stay\n`);
  return lines.join("");
}

/** @returns one line for each pod that could not be let go or evicted. */
export async function carryOutPodWork(
  { letGo, evict }: PodWork,
  session: Session,
): Promise<readonly string[]> {
  const { stderr, signal, clock } = session;
  const failures: string[] = [];
  const untilMs = clock.monotonic() + PATIENCE_MS;
  const left = [
    ...letGo.map((pod) => ({ pod, act: () => lift(pod, session) })),
    ...evict.map((pod) => ({ pod, act: () => evictOne(pod, session, untilMs) })),
  ].values();
  const worker = async (): Promise<void> => {
    for (const { pod, act } of left) {
      if (signal.aborted) throw new CommandError("interrupted", exitCodes.interrupted);
      try {
        await act();
      } catch (error) {
        failures.push(`${nameOf(pod)}: ${error instanceof Error ? error.message : String(error)}`);
      }
    }
  };
  await Promise.all(Array.from({ length: PARALLEL }, worker));
  if (failures.length > 0)
    return [`${failures.length} pods could not be seen to:`, ...failures.map((line) => `  ${line}`)];
  if (letGo.length > 0) stderr.write(`${letGo.length} ${letGo.length === 1 ? "pod" : "pods"} let go.\n`);
  if (evict.length > 0) stderr.write(`${evict.length} ${evict.length === 1 ? "pod" : "pods"} evicted.\n`);
  return [];
}

/** As a running Berth lets a pod go that no policy governs; there is no policy on its way that would be worth waiting for. */
function liftDecision(pod: Pod): PodDecision {
  const now = Number.MAX_SAFE_INTEGER;
  const sight = {
    look: ({ image }: { readonly image: string }) => ({ state: "unknown", name: image }) as const,
  };
  return decidePod({ pod, policy: undefined, keys: [], sight, now });
}

async function lift(first: Pod, { client, signal }: Session): Promise<void> {
  let pod = first;
  for (let tries = 1; ; tries++) {
    const { condition } = liftDecision(pod);
    const { namespace = "", name = "" } = pod.metadata ?? {};
    try {
      if (condition !== undefined) {
        const patch = { type: "strategic", body: condition } as const;
        pod = await client.patch(pods, { namespace, name }, patch, { subresource: "status", signal });
      }
      const { patch: body } = liftDecision(pod);
      if (body === undefined) return;
      await client.patch(pods, { namespace, name }, { type: "json", body }, { signal });
      return;
    } catch (error) {
      if (isApiError(error, "notFound")) return;
      // A `test` that does not hold is answered as invalid.
      if (!isApiError(error, "conflict", "invalid") || tries === MAX_TRIES) throw error;
      pod = await client.get(pods, { namespace, name }, { signal });
    }
  }
}

/** Waits while a disruption budget does not allow it. One that was made anew since under the same name stays. */
async function evictOne(
  { metadata }: Pod,
  { client, signal, clock }: Session,
  untilMs: number,
): Promise<void> {
  const { namespace = "", name = "", uid } = metadata ?? {};
  const eviction: KubeObject = Object.assign(
    { apiVersion: "policy/v1", kind: "Eviction", metadata: { namespace, name } },
    uid !== undefined && { deleteOptions: { preconditions: { uid } } },
  );
  for (;;) {
    try {
      await client.create<KubeObject>(pods, eviction, { subresource: "eviction", signal });
      return;
    } catch (error) {
      if (isApiError(error, "notFound", "conflict", "uidMismatch")) return;
      if (!isApiError(error, "tooManyRequests") || clock.monotonic() >= untilMs) throw error;
      if (!(await sleep(clock, BUDGET_MS, signal))) throw error;
    }
  }
}

function nameOf({ metadata }: Pod): string {
  return `${metadata?.namespace ?? ""}/${metadata?.name ?? ""}`;
}
