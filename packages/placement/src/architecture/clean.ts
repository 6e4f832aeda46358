/** What `clean` does with pods: it lifts our scheduling gate and, if the user asks for it, restarts other pods. */
import { counted, firstOf, keepFields, listObjects, type OneShotRun } from "@berth/host";
import { isApiError, type KubeObject, type Pod, pathOf, pods } from "@berth/kube";
import { sleep } from "@berth/runtime";
import type { CleanAt, CleanOnce } from "../node/clean-once.ts";
import { withoutTolerations } from "../node/given-tolerations.ts";
import { taintId } from "../node/mark.ts";
import { UNSCHEDULED } from "../node/pod-nodes.ts";
import { type PodRestarts, planPodRestarts } from "./clean-pods.ts";
import { taintKeys } from "./compile.ts";
import { decidePod, type PodDecision } from "./decide-pod.ts";
import { ORIGINAL_ARCHITECTURE_KEY } from "./document.ts";
import { unreadImages } from "./image-observations.ts";
import { ARCHITECTURE, type ArchitecturePolicies } from "./policy.ts";
import { isKeptPending } from "./reads.ts";

interface PodWork extends PodRestarts {
  /** Pods that Berth keeps pending: they have our gate or our condition. */
  readonly letGo: readonly Pod[];
}

/** Pause before Berth retries an eviction that a disruption budget refuses. Milliseconds. */
const BUDGET_MS = 5000;
/** How long Berth waits for disruption budgets, for all pods together. Milliseconds. */
const PATIENCE_MS = 120_000;
/** Pods that Berth changes at the same time. */
const PARALLEL = 8;
const MAX_TRIES = 5;
const MOST_NAMED = 5;

const ORIGINAL_TAINTS = ["NoSchedule", "PreferNoSchedule", "NoExecute"].map((effect) =>
  taintId(ORIGINAL_ARCHITECTURE_KEY, effect),
);

const names = (pods: readonly Pod[]): readonly string[] => pods.map(({ metadata }) => pathOf(metadata));

export const architectureClean: CleanOnce<ArchitecturePolicies> = {
  async clean(policies, at) {
    const work = await findPodWork(policies, at);
    const { letGo, evict, left } = work;
    const why = left.map((it) => ({ pod: pathOf(it.pod.metadata), why: it.why }));
    return {
      ...(policies?.policy.places && { declared: policies.policy.places }),
      // By the contract of archaware-controller, Berth owns the original key with any value and effect.
      ...(at.isOnly && { keysOn: () => ORIGINAL_TAINTS }),
      ...(at.isWanted && {
        templates: [
          {
            what: `tolerations of ${ARCHITECTURE}`,
            isFirst: false,
            remove: (daemonSet) => withoutTolerations(daemonSet, ARCHITECTURE),
          },
        ],
      }),
      work: {
        isEmpty: letGo.length + evict.length === 0,
        data: { pods: { letGo: names(letGo), evict: names(evict), left: why } },
        format: (verb) => formatPodWork(work, verb),
        carryOut: () => carryOut(work, at.run),
      },
    };
  },
};

async function findPodWork(
  policies: ArchitecturePolicies | undefined,
  { run, isWanted, restartPods }: CleanAt,
): Promise<PodWork> {
  if (!isWanted) return { letGo: [], evict: [], left: [] };
  const scope = restartPods ? {} : { fieldSelector: UNSCHEDULED };
  const consequence = "pods that an architecture policy holds keep waiting";
  const found = (await listObjects({ resource: pods, ...scope, project: slimPod, consequence }, run)) ?? [];
  const letGo = found.filter(isKeptPending);
  if (!restartPods) return { letGo, evict: [], left: [] };
  const keys = [ORIGINAL_ARCHITECTURE_KEY, ...taintKeys(policies ?? { policies: [] })];
  return { letGo, ...planPodRestarts(found, keys) };
}

const slimPod = keepFields<Pod>([
  "metadata.annotations",
  "metadata.creationTimestamp",
  "metadata.deletionTimestamp",
  "metadata.ownerReferences",
  "spec.tolerations",
  "spec.schedulingGates",
  "spec.nodeName",
  "status.phase",
  "status.conditions",
]);

function formatPodWork({ letGo, evict, left }: PodWork, verb: "will" | "would"): string {
  const lines: string[] = [];
  for (const [found, what] of [
    [letGo, "released from an architecture policy"],
    [evict, "evicted, so that new ones come without the tolerations"],
  ] as const) {
    if (found.length > 0)
      lines.push(`${counted(found.length, "pod")} ${verb} be ${what}: ${firstOf(names(found))}\n`);
  }
  for (const { pod, why } of left.slice(0, MOST_NAMED))
    lines.push(`pod ${pathOf(pod.metadata)} stays: ${why}\n`);
  if (left.length > MOST_NAMED) lines.push(`and ${left.length - MOST_NAMED} more pods stay\n`);
  return lines.join("");
}

async function carryOut({ letGo, evict }: PodWork, run: OneShotRun): Promise<readonly string[]> {
  const { stderr, signal, clock } = run;
  const failures: string[] = [];
  const untilMs = clock.monotonic() + PATIENCE_MS;
  const left = [
    ...letGo.map((pod) => ({ pod, act: () => lift(pod, run) })),
    ...evict.map((pod) => ({ pod, act: () => evictOne(pod, run, untilMs) })),
  ].values();
  const worker = async (): Promise<void> => {
    for (const { pod, act } of left) {
      if (signal.aborted) return;
      try {
        await act();
      } catch (error) {
        failures.push(`${pathOf(pod.metadata)}: ${error instanceof Error ? error.message : String(error)}`);
      }
    }
  };
  await Promise.all(Array.from({ length: PARALLEL }, worker));
  if (signal.aborted) return [];
  if (failures.length > 0)
    return [`${failures.length} pods could not be cleaned:`, ...failures.map((line) => `  ${line}`)];
  if (letGo.length > 0) stderr.write(`${counted(letGo.length, "pod")} let go.\n`);
  if (evict.length > 0) stderr.write(`${counted(evict.length, "pod")} evicted.\n`);
  return [];
}

/** Decides as a running Berth does for a pod without a policy. The maximum as `now` means: do not wait for a policy. */
function liftDecision(pod: Pod): PodDecision {
  const now = Number.MAX_SAFE_INTEGER;
  return decidePod({ pod, policy: undefined, keys: [], observations: unreadImages, now });
}

async function lift(first: Pod, { client, signal }: OneShotRun): Promise<void> {
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
      // The API server answers a failed `test` as invalid.
      if (!isApiError(error, "conflict", "invalid") || tries === MAX_TRIES) throw error;
      pod = await client.get(pods, { namespace, name }, { signal });
    }
  }
}

/** Waits while a disruption budget refuses the eviction. A newer pod with the same name stays: the UID must match. */
async function evictOne(
  { metadata }: Pod,
  { client, signal, clock }: OneShotRun,
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
