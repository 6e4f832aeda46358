/** Policies of startup gates on a real API server: made and taken away again, and what they make of a node. */
import {
  isApiError,
  type KubeClient,
  mutatingAdmissionPolicies,
  mutatingAdmissionPolicyBindings,
  type Node,
  nodes,
  type Taint,
} from "@berth/kube";
import { aNode, eventually, type NodeBuilder } from "@berth/testcluster";
import { expect } from "vitest";
import { ENV } from "../../node/testing/configuration.ts";
import { admissionPolicies } from "../admission.ts";
import type { GateList } from "../tolerate.ts";
import { type GateInit, gateList } from "./gate-list.ts";

/** One for each kind of selector, each with a taint of its own. */
export const manyGates: Readonly<Record<string, GateInit>> = Object.fromEntries(
  [
    {},
    { matchLabels: { a: "1" } },
    { matchLabels: { a: "", b: "2" } },
    { matchLabels: { constructor: "1" } },
    { matchExpressions: [{ key: "a", operator: "In" as const, values: ["1", "2"] }] },
    { matchExpressions: [{ key: "a", operator: "In" as const, values: [""] }] },
    { matchExpressions: [{ key: "b", operator: "NotIn" as const, values: ["", "1"] }] },
    { matchExpressions: [{ key: "example.com/c", operator: "Exists" as const }] },
    { matchExpressions: [{ key: "constructor", operator: "DoesNotExist" as const }] },
    {
      matchLabels: { a: "1" },
      matchExpressions: [
        { key: "b", operator: "NotIn" as const, values: ["2"] },
        { key: "b", operator: "Exists" as const },
      ],
    },
  ].flatMap((nodeSelector, at) =>
    (["Skip", "Include"] as const).map((controlPlane) => {
      const key = at === 0 ? "a" : `example.com/t${at === 1 ? "" : at}`;
      const effect = controlPlane === "Skip" ? ("NoSchedule" as const) : ("NoExecute" as const);
      const taint = { key, value: at === 2 ? "" : "1", effect };
      const except = { matchLabels: at < 4 ? { a: "1", b: "2" } : { b: "1" } };
      return [
        `gate-${at}-${controlPlane.toLowerCase()}`,
        { nodeSelector, controlPlane, taint, ...(at % 2 === 1 && { admissionExcept: except }) },
      ];
    }),
  ),
);

export function taintsIn(node: Node): readonly Taint[] {
  return node.spec?.taints ?? [];
}

/** The taints of the node as it would be stored. */
export async function taintsOf(client: KubeClient, node: NodeBuilder): Promise<readonly Taint[]> {
  return taintsIn(await client.create(nodes, node.build(), { dryRun: true }));
}

/** In which order policies run is not said anywhere: comparable all the same. */
export function sorted(taints: readonly Taint[]): readonly Taint[] {
  const textOf = ({ key, effect }: Taint): string => `${key}:${effect}`;
  return taints.toSorted((a, b) => (textOf(a) < textOf(b) ? -1 : 1));
}

/** As Go writes it. */
export function withoutEmptyValue({ value, ...taint }: Taint): Taint {
  return value === undefined || value === "" ? taint : { ...taint, value };
}

let rounds = 0;

/**
 * Makes the policies of these gates, and resolves when they act. The API server learns of policies, and of bindings, in
 * their order: once it knows a last pair of a new name it knows all before. Disposing deletes them, and resolves when
 * the API server has forgotten the last one.
 */
export async function inForce(client: KubeClient, { gates }: GateList): Promise<AsyncDisposable> {
  await using owned = new AsyncDisposableStack();
  const probe = `probe-${(rounds += 1)}`;
  const key = `test.berth.dev/${probe}`;
  const probing = gateList({ [probe]: { taint: { key }, nodeSelector: { matchLabels: { [key]: "" } } } });
  const isProbed = async (): Promise<boolean> => {
    const taints = await taintsOf(client, aNode("probe").labelled({ [key]: "" }));
    return taints.some((taint) => taint.key === key);
  };
  const pairs = [...admissionPolicies({ gates }, ENV), ...admissionPolicies(probing, ENV).slice(0, 1)];
  owned.defer(async () => {
    for (const { policy } of pairs) {
      const name = policy.metadata?.name ?? "";
      await client.delete(mutatingAdmissionPolicyBindings, { name }).catch(ifNotFound);
      await client.delete(mutatingAdmissionPolicies, { name }).catch(ifNotFound);
    }
    await eventually(async () => expect(await isProbed()).toBe(false));
  });
  for (const { policy, binding } of pairs) {
    await client.create(mutatingAdmissionPolicies, policy);
    await client.create(mutatingAdmissionPolicyBindings, binding);
  }
  await eventually(async () => expect(await isProbed()).toBe(true));
  return owned.move();
}

function ifNotFound(error: unknown): void {
  if (!isApiError(error, "notFound")) throw error;
}
