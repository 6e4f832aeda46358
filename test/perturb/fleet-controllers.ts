/** What surrounds Berth in a story of the fleet: the scheduler and the kubelet in one, and the quota service. */
import { isApiError, type KubeClient, type Pod, pods } from "@berth/kube";
import { type ResourceClaim, resourceClaims } from "../../packages/fleet/src/api/quota.ts";
import { Actor } from "../../packages/fleet/src/testing/actor.ts";
import { merge, STATUS } from "./scene.ts";

export interface FleetControllers extends AsyncDisposable {
  /** Uids of the pods that the kubelet has ended, after they were deleted. */
  readonly ended: ReadonlySet<string>;
  /** A claim that was denied is decided again. */
  setBudget(instances: number): void;
  /** What the sentinel's pod and claim say from now on. */
  setRound(round: number): void;
}

export interface ControllerOptions {
  readonly client: KubeClient;
  /** Only objects whose name contains this. */
  readonly run: string;
  /** Of the sentinel, within the run. */
  readonly isSentinel: (name: string) => boolean;
}

export async function startFleetControllers({
  client,
  run,
  isSentinel,
}: ControllerOptions): Promise<FleetControllers> {
  await using owned = new AsyncDisposableStack();
  const actor = owned.use(new Actor(client));
  const ended = new Set<string>();
  const granted = new Set<string>();
  let budget = 0;
  let round = 0;

  async function carry(pod: Pod): Promise<void> {
    const { name = "", namespace = "", uid = "", deletionTimestamp } = pod.metadata ?? {};
    const of = { name, namespace };
    if (!name.includes(run)) return;
    if (deletionTimestamp !== undefined) {
      ended.add(uid);
      await client.delete(pods, of, { gracePeriodSeconds: 0, preconditions: { uid } });
    } else if (!pod.spec?.nodeName) {
      const target = { apiVersion: "v1", kind: "Node", name: "node" };
      const binding = { apiVersion: "v1", kind: "Binding", metadata: { ...of, uid }, target };
      await client.create(pods, binding, { subresource: "binding" });
    } else {
      const status = isSentinel(name) && round % 2 === 0 ? "False" : "True";
      const ready = pod.status?.conditions?.find(({ type }) => type === "Ready");
      if (ready?.status === status) return;
      const body = {
        metadata: { uid },
        status: { phase: "Running", conditions: [{ type: "Ready", status }] },
      };
      await client.patch(pods, of, merge(body), STATUS);
    }
  }

  async function decide(claim: ResourceClaim): Promise<void> {
    const { name = "", uid = "" } = claim.metadata ?? {};
    if (!name.includes(run)) return;
    const message = isSentinel(name) ? `round ${round}` : "decided";
    if (!isSentinel(name) && granted.size < budget) granted.add(uid);
    await actor.report(resourceClaims, claim, {
      type: "Granted",
      ...(isSentinel(name) || granted.has(uid)
        ? { status: "True", reason: "QuotaAvailable", message }
        : { status: "False", reason: "QuotaExceeded", message }),
    });
  }

  /** What was deleted or made anew meanwhile has nothing to be done about. */
  const unlessGone =
    <T>(act: (object: T) => Promise<void>) =>
    async (object: T): Promise<void> => {
      try {
        await act(object);
      } catch (error) {
        if (!isApiError(error, "notFound", "conflict", "uidMismatch")) throw error;
      }
    };

  await actor.follow({ resource: pods, act: unlessGone(carry) });
  await actor.follow({
    resource: resourceClaims,
    act: unlessGone(decide),
    onChange({ type, object }) {
      const { uid = "" } = object.metadata ?? {};
      if (type === "deleted" && granted.delete(uid)) actor.again();
    },
  });
  const kept = owned.move();
  return {
    ended,
    setBudget(instances) {
      budget = instances;
      actor.again();
    },
    setRound(next) {
      round = next;
      actor.again();
    },
    [Symbol.asyncDispose]: () => kept.disposeAsync(),
  };
}
