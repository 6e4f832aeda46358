/** Creates, updates and deletes the admission objects of one set of rules in the API server. */
import {
  type KubeClient,
  type KubeObject,
  type MutatingAdmissionPolicy,
  type MutatingAdmissionPolicyBinding,
  type MutatingWebhookConfiguration,
  mutatingAdmissionPolicies,
  mutatingAdmissionPolicyBindings,
  mutatingWebhookConfigurations,
  type Resource,
  type ValidatingWebhookConfiguration,
  validatingWebhookConfigurations,
} from "@berth/kube";
import {
  type Clock,
  type ClusterName,
  type Component,
  createObjectKeeper,
  type Logger,
  type MetricsRegistry,
  type ObjectKeeper,
} from "@berth/runtime";
import { type Installed, ownerLabels, toLabelSelector } from "../product.ts";
import type { BoundRules, PolicyPair } from "./rules.ts";

export interface KeeperOptions {
  readonly client: KubeClient;
  readonly cluster: ClusterName;
  readonly metrics: MetricsRegistry;
  readonly log: Logger;
  readonly clock: Clock;
}

export type Configuration = MutatingWebhookConfiguration | ValidatingWebhookConfiguration;

/** The state of one or several keepers. */
export type KeptObjects = Pick<ObjectKeeper<never>, "problem" | "refusal" | "settled">;

export interface AdmissionKeepers {
  readonly policies: KeptObjects;
  readonly webhooks: KeptObjects;
  /** Pairs of an informer and a writer. Start the informer first. */
  pairs(withPolicies: boolean): readonly (readonly [Component, Component])[];
  /** Does the API server have objects of an earlier process? */
  hasLeftovers(withPolicies: boolean, signal: AbortSignal): Promise<boolean>;
  /** @param webhooks `undefined`: the configurations in the API server stay as they are. */
  want(policies: readonly PolicyPair[], webhooks: readonly Configuration[] | undefined): void;
  /** Deletes all bindings, so that no policy acts. Rejects with `ApiError`. */
  turnPoliciesOff(signal: AbortSignal): Promise<void>;
}

export function together(keepers: readonly KeptObjects[]): KeptObjects {
  const first = (ask: (keeper: KeptObjects) => string | undefined): string | undefined =>
    keepers.map(ask).find((said) => said !== undefined);
  return {
    problem: () => first((keeper) => keeper.problem()),
    refusal: () => first((keeper) => keeper.refusal()),
    settled: () => keepers.every((keeper) => keeper.settled()),
  };
}

/** @param adopted the name of a webhook configuration that the user made. Absent: Berth makes its own. */
export function createAdmissionKeepers(
  { name, effect, policies: rules }: Pick<BoundRules, "name" | "effect" | "policies">,
  { adopted, ...of }: Installed & { readonly adopted: string | undefined },
  { client, cluster, clock, log, metrics }: KeeperOptions,
): AdmissionKeepers {
  const selector = ownerLabels(of, name);
  const recordedIn = `${of.product.domain}/desired`;
  const common = { recordedIn, client, cluster, clock, log, metrics };
  const keeperOf = <T extends KubeObject>(
    kind: string,
    resource: Resource<T>,
    of: { readonly selector: typeof selector } | { readonly adopt: string } = { selector },
  ): ObjectKeeper<T> => createObjectKeeper<T>({ ...common, ...of, name: `${name}-${kind}`, resource });
  const resource = effect === "mutate" ? mutatingWebhookConfigurations : validatingWebhookConfigurations;
  const policies = keeperOf<MutatingAdmissionPolicy>("policies", mutatingAdmissionPolicies);
  const bindings = keeperOf<MutatingAdmissionPolicyBinding>("bindings", mutatingAdmissionPolicyBindings);
  const webhooks = keeperOf<Configuration>("webhooks", resource);
  const foreign =
    adopted === undefined
      ? undefined
      : keeperOf<Configuration>("webhooks-adopted", resource, { adopt: adopted });
  const ofWebhooks = foreign === undefined ? [webhooks] : [webhooks, foreign];
  const ofPolicies = rules === undefined ? [] : [policies, bindings];
  return {
    policies: together(ofPolicies),
    webhooks: together(ofWebhooks),
    pairs: (withPolicies) =>
      [...(withPolicies ? ofPolicies : []), ...ofWebhooks].map(({ components }) => components),
    async hasLeftovers(withPolicies, signal) {
      const scope = { labelSelector: toLabelSelector(selector), limit: 1, signal };
      const asked = [resource, ...(withPolicies && rules ? [mutatingAdmissionPolicies] : [])];
      const lists = await Promise.all(asked.map((it) => client.list(it, scope)));
      return lists.some(({ items }) => items.length > 0);
    },
    want(pairs, wanted) {
      policies.setDesired(pairs.map(({ policy }) => policy));
      bindings.setDesired(pairs.map(({ binding }) => binding));
      foreign?.setDesired(wanted);
      // Berth uses the configuration of the user, so its own configuration can only be from an earlier run.
      webhooks.setDesired(foreign === undefined ? wanted : []);
    },
    turnPoliciesOff: (signal) => bindings.release(signal),
  };
}
