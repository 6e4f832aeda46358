/** The network controllers, for tests: they make ready what the fleet asks for, and carry no packet. */
import { isApiError, type KubeClient, type KubeObject, type Resource } from "@berth/kube";
import type { DesiredCondition } from "@berth/runtime";
import { networkBindings, networkContexts, subnetClaims, subnets } from "../api/networking.ts";
import { Actor } from "./actor.ts";

const READY: DesiredCondition = { type: "Ready", status: "True", reason: "Ready", message: "" };

export interface NetworkHands extends Pick<Actor, "pause" | "resume">, AsyncDisposable {
  /** The NetworkBinding of this name fails with `NetworkFailedToCreate`, in every namespace, present or future. */
  fail(binding: string, message: string): void;
}

/**
 * Makes each NetworkBinding Ready with a NetworkContext `<network>-<location>` in its namespace, each SubnetClaim with a
 * Subnet of its name, and each context and subnet Ready.
 */
export async function networkHands(client: KubeClient): Promise<NetworkHands> {
  const failures = new Map<string, string>();
  const actor = new Actor(client);
  const create = async <T extends KubeObject>(resource: Resource<T>, object: T): Promise<void> => {
    try {
      await client.create(resource, object);
    } catch (error) {
      if (!isApiError(error, "alreadyExists")) throw error;
    }
  };
  await actor.follow({
    resource: networkBindings,
    async act(binding) {
      const { name = "", namespace = "" } = binding.metadata ?? {};
      const message = failures.get(name);
      if (message !== undefined)
        return actor.report(networkBindings, binding, {
          type: "Ready",
          status: "False",
          reason: "NetworkFailedToCreate",
          message,
        });
      const { network, location } = binding.spec ?? {};
      if (network === undefined || location === undefined) return;
      const context = { namespace, name: `${network.name}-${location.name}` };
      await create(networkContexts, {
        metadata: context,
        spec: { network: { name: network.name }, location },
      });
      await actor.report(networkBindings, binding, READY, { networkContextRef: context });
    },
  });
  await actor.follow({
    resource: networkContexts,
    act: (context) => actor.report(networkContexts, context, READY),
  });
  await actor.follow({
    resource: subnetClaims,
    async act(claim) {
      const { name = "", namespace = "" } = claim.metadata ?? {};
      await create(subnets, { metadata: { name, namespace }, spec: claim.spec ?? {} });
      await actor.report(subnetClaims, claim, READY, { subnetRef: { name } });
    },
  });
  await actor.follow({
    resource: subnets,
    act: (subnet) => actor.report(subnets, subnet, READY, { startAddress: "10.128.0.0", prefixLength: 20 }),
  });
  return {
    pause: () => actor.pause(),
    resume: () => actor.resume(),
    fail(binding, message) {
      failures.set(binding, message);
      actor.again();
    },
    [Symbol.asyncDispose]: () => actor[Symbol.asyncDispose](),
  };
}
