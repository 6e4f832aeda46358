/** Tells when the API server has taken note of admission policies that were deleted. */
import { randomUUID } from "node:crypto";
import {
  configMaps,
  isApiError,
  type KubeClient,
  mutatingAdmissionPolicies,
  mutatingAdmissionPolicyBindings,
  validatingAdmissionPolicies,
  validatingAdmissionPolicyBindings,
} from "@berth/kube";
import { eventually } from "./eventually.ts";

/**
 * The server compiles all policies of a kind anew once a second (`PolicyRefreshInterval` of its admission plugins), and
 * goes by the old ones until then. So a new policy is made: once that works, the deleted ones no longer do. It matches
 * one name only, and the caller deletes it.
 */
export async function untilPoliciesAreRead(
  client: KubeClient,
  kinds: { readonly mutating: boolean; readonly validating: boolean },
): Promise<void> {
  const name = `canary-${randomUUID()}`;
  const matches = {
    matchConstraints: {
      resourceRules: [
        { apiGroups: [""], apiVersions: ["v1"], operations: ["CREATE"], resources: ["configmaps"] },
      ],
    },
    matchConditions: [{ name: "canary", expression: `object.metadata.name == '${name}'` }],
  };
  const probe = async (): Promise<"denied" | "changed" | "stored"> => {
    try {
      const object = { metadata: { name, namespace: "default" } };
      const { metadata } = await client.create(configMaps, object, { dryRun: true });
      return metadata?.annotations?.["canary"] === undefined ? "stored" : "changed";
    } catch (error) {
      if (isApiError(error, "invalid", "forbidden")) return "denied";
      throw error;
    }
  };
  const until = (wanted: string): Promise<void> =>
    eventually(
      async () => {
        const found = await probe();
        if (found !== wanted) throw new Error(`the canary of admission policies is ${found}, not ${wanted}`);
      },
      { everyMs: 25 },
    );
  if (kinds.mutating) {
    const expression = 'Object{metadata: Object.metadata{annotations: {"canary": "seen"}}}';
    await client.create(mutatingAdmissionPolicies, {
      metadata: { name },
      spec: {
        ...matches,
        reinvocationPolicy: "Never",
        mutations: [{ patchType: "ApplyConfiguration", applyConfiguration: { expression } }],
      },
    });
    await client.create(mutatingAdmissionPolicyBindings, { metadata: { name }, spec: { policyName: name } });
    await until("changed");
  }
  if (kinds.validating) {
    await client.create(validatingAdmissionPolicies, {
      metadata: { name },
      spec: { ...matches, validations: [{ expression: "false" }] },
    });
    await client.create(validatingAdmissionPolicyBindings, {
      metadata: { name },
      spec: { policyName: name, validationActions: ["Deny"] },
    });
    await until("denied");
  }
}
