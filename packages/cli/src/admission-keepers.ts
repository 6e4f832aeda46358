/** The objects in the cluster by which new nodes get the taints of startup gates, kept as they should be. */
import {
  type KubeClient,
  type MutatingAdmissionPolicy,
  type MutatingAdmissionPolicyBinding,
  type MutatingWebhookConfiguration,
  mutatingAdmissionPolicies,
  mutatingAdmissionPolicyBindings,
  mutatingWebhookConfigurations,
} from "@berth/kube";
import { admissionLabels } from "@berth/placement";
import {
  type Clock,
  type ClusterName,
  type Component,
  createObjectKeeper,
  type Logger,
  type MetricsRegistry,
  type ObjectKeeper,
} from "@berth/runtime";

export interface KeeperSurroundings {
  readonly client: KubeClient;
  readonly cluster: ClusterName;
  readonly installation: string;
  /** A webhook configuration that somebody else made; absent: ours. */
  readonly adopted: string | undefined;
  readonly metrics: MetricsRegistry;
  readonly log: Logger;
  readonly clock: Clock;
}

export interface WantedObjects {
  readonly policies: readonly MutatingAdmissionPolicy[];
  readonly bindings: readonly MutatingAdmissionPolicyBinding[];
  readonly webhooks: readonly MutatingWebhookConfiguration[] | undefined;
}

export interface AdmissionKeepers {
  /** What sees and what writes; the first is to be started first. */
  pairs(withPolicies: boolean): readonly (readonly [Component, Component])[];
  /** Are there objects of ours? */
  hasLeftovers(withPolicies: boolean, signal: AbortSignal): Promise<boolean>;
  want(wanted: WantedObjects): void;
  readonly policies: KeptObjects;
  readonly webhooks: KeptObjects;
  /** Deletes all bindings, so that no policy acts. Rejects with `ApiError`. */
  turnPoliciesOff(signal: AbortSignal): Promise<void>;
}

/** Keepers seen as one. */
export type KeptObjects = Pick<ObjectKeeper<never>, "problem" | "refusal" | "settled">;

function together(keepers: readonly KeptObjects[]): KeptObjects {
  const first = (ask: (keeper: KeptObjects) => string | undefined): string | undefined =>
    keepers.map(ask).find((said) => said !== undefined);
  return {
    problem: () => first((keeper) => keeper.problem()),
    refusal: () => first((keeper) => keeper.refusal()),
    settled: () => keepers.every((keeper) => keeper.settled()),
  };
}

export function createAdmissionKeepers(around: KeeperSurroundings): AdmissionKeepers {
  const { client, cluster, installation, adopted, clock, log, metrics } = around;
  const selector = admissionLabels({ installation });
  const common = { client, cluster, clock, log, metrics };
  const policies = createObjectKeeper({
    ...common,
    selector,
    name: "admission-policies",
    resource: mutatingAdmissionPolicies,
  });
  const bindings = createObjectKeeper({
    ...common,
    selector,
    name: "admission-bindings",
    resource: mutatingAdmissionPolicyBindings,
  });
  const resource = mutatingWebhookConfigurations;
  const webhooks = createObjectKeeper({ ...common, name: "admission-webhooks", resource, selector });
  const foreign =
    adopted === undefined
      ? undefined
      : createObjectKeeper({ ...common, name: "admission-webhooks-adopted", resource, adopt: adopted });
  const ofWebhooks = foreign === undefined ? [webhooks] : [webhooks, foreign];
  const ofPolicies = [policies, bindings];
  const labelSelector = Object.entries(selector)
    .map(([key, value]) => `${key}=${value}`)
    .join(",");
  return {
    pairs: (withPolicies) =>
      [...(withPolicies ? ofPolicies : []), ...ofWebhooks].map(({ components }) => components),
    async hasLeftovers(withPolicies, signal) {
      const scope = { labelSelector, limit: 1, signal };
      const lists = [
        client.list(mutatingWebhookConfigurations, scope),
        ...(withPolicies ? [client.list(mutatingAdmissionPolicies, scope)] : []),
      ];
      return (await Promise.all(lists)).some(({ items }) => items.length > 0);
    },
    want(wanted) {
      policies.setDesired(wanted.policies);
      bindings.setDesired(wanted.bindings);
      foreign?.setDesired(wanted.webhooks);
      // With a configuration of somebody else, one of ours is left from before.
      webhooks.setDesired(foreign === undefined ? wanted.webhooks : []);
    },
    policies: together(ofPolicies),
    webhooks: together(ofWebhooks),
    turnPoliciesOff: (signal) => bindings.release(signal),
  };
}
