/**
 * Narrows the required node affinity of a pod. Terms are alternatives: a requirement added to each term narrows, and
 * another term would widen. The API server allows exactly these changes to a gated pod (`validateNodeAffinityMutation`,
 * pkg/apis/core/validation, v1.36).
 */
import type { JsonPatchOperation, PodSpec } from "@berth/kube";
import { field, listField, textField } from "../node/untrusted-json.ts";
import type { ArchitecturePreference } from "./document.ts";
import { allowsArchitecture, architectureExpressions } from "./own-architecture.ts";

interface Narrowing {
  readonly os: string;
  /** At least one. */
  readonly architectures: readonly string[];
}

type Placed = Pick<PodSpec, "affinity" | "nodeSelector">;

interface Requirement {
  readonly key: string;
  readonly operator: string;
  readonly values: readonly string[];
}

const ARCHITECTURE = "kubernetes.io/arch";
const AFFINITY = "/spec/affinity";
const NODE_AFFINITY = `${AFFINITY}/nodeAffinity`;
const REQUIRED = "requiredDuringSchedulingIgnoredDuringExecution";
const PREFERRED = "preferredDuringSchedulingIgnoredDuringExecution";

/**
 * The smallest patch that keeps the pod to nodes that it allowed before and that `narrowing` allows. It repeats no
 * requirement of a term or of the node selector. The API server merges the selector of a RuntimeClass before it calls
 * webhooks. An empty term selects no node, so it stays empty.
 *
 * @param narrowing absent: the required affinity stays as it is.
 * @param preferences appended where at least two architectures remain and the pod has no preference of its own.
 * @returns an empty patch when the pod has all of it.
 */
export function narrowAffinity(
  spec: Placed,
  narrowing: Narrowing | undefined,
  preferences: readonly ArchitecturePreference[],
): readonly JsonPatchOperation[] {
  const nodeAffinity = field(spec.affinity, "nodeAffinity");
  const required = field(nodeAffinity, REQUIRED);
  const requirements = narrowing === undefined ? [] : requirementsOf(spec, narrowing);
  const preferred = missingPreferences(spec, narrowing, preferences);
  const terms = { nodeSelectorTerms: [{ matchExpressions: requirements }] };
  if (nodeAffinity === undefined) {
    const added = {
      ...(requirements.length > 0 && { [REQUIRED]: terms }),
      ...(preferred.length > 0 && { [PREFERRED]: preferred }),
    };
    if (Object.keys(added).length === 0) return [];
    return field(spec, "affinity") === undefined
      ? [{ op: "add", path: AFFINITY, value: { nodeAffinity: added } }]
      : [{ op: "add", path: NODE_AFFINITY, value: added }];
  }
  const narrowed: readonly JsonPatchOperation[] =
    required === undefined && requirements.length > 0
      ? [{ op: "add", path: `${NODE_AFFINITY}/${REQUIRED}`, value: terms }]
      : narrowTerms(required, requirements);
  return [...narrowed, ...addPreferences(nodeAffinity, preferred)];
}

/** The architectures that the required affinity allows. Empty if a term leaves the architecture or the system open. */
export function narrowedTo({ affinity }: Pick<PodSpec, "affinity">): readonly string[] {
  const found: string[] = [];
  for (const term of listField(field(field(affinity, "nodeAffinity"), REQUIRED), "nodeSelectorTerms")) {
    const architectures = valuesIn(term, ARCHITECTURE);
    if (architectures.length === 0 || valuesIn(term, "kubernetes.io/os").length === 0) return [];
    for (const value of architectures) found.push(String(value));
  }
  return found;
}

function valuesIn(term: unknown, key: string): readonly unknown[] {
  const isWanted = (it: unknown): boolean =>
    textField(it, "key") === key && textField(it, "operator") === "In";
  return listField(listField(term, "matchExpressions").find(isWanted), "values");
}

function requirementsOf({ nodeSelector }: Placed, { os, architectures }: Narrowing): readonly Requirement[] {
  const wanted: readonly Requirement[] = [
    { key: ARCHITECTURE, operator: "In", values: architectures },
    { key: "kubernetes.io/os", operator: "In", values: [os] },
  ];
  return wanted.filter(({ key, values }) => !values.includes(textField(nodeSelector, key)));
}

function narrowTerms(required: unknown, requirements: readonly Requirement[]): readonly JsonPatchOperation[] {
  return listField(required, "nodeSelectorTerms").flatMap((term, at): readonly JsonPatchOperation[] => {
    const expressions = listField(term, "matchExpressions");
    if (expressions.length === 0 && listField(term, "matchFields").length === 0) return [];
    const missing = requirements.filter((wanted) => !expressions.some((it) => isWithin(it, wanted)));
    const path = `${NODE_AFFINITY}/${REQUIRED}/nodeSelectorTerms/${at}/matchExpressions`;
    if (missing.length === 0) return [];
    if (expressions.length === 0) return [{ op: "add", path, value: missing }];
    return missing.map((value) => ({ op: "add", path: `${path}/-`, value }));
  });
}

/** Does the expression allow nothing beyond what is wanted? */
function isWithin(expression: unknown, { key, values }: Requirement): boolean {
  const standing = listField(expression, "values");
  return (
    textField(expression, "key") === key &&
    textField(expression, "operator") === "In" &&
    standing.length > 0 &&
    standing.every((value) => values.some((it) => it === value))
  );
}

interface Preference {
  readonly weight: number;
  readonly preference: { readonly matchExpressions: readonly Requirement[] };
}

/** Empty where the pod prefers an architecture itself, because one of our weights could overrule its own. */
function missingPreferences(
  spec: Placed,
  narrowing: Narrowing | undefined,
  preferences: readonly ArchitecturePreference[],
): readonly Preference[] {
  if (preferences.length === 0) return [];
  const standing = listField(field(spec.affinity, "nodeAffinity"), PREFERRED);
  if (standing.some((term) => architectureExpressions(field(term, "preference")).length > 0)) return [];
  if (textField(spec.nodeSelector, ARCHITECTURE) !== "") return [];
  const left = narrowing?.architectures.filter((it) => allowsArchitecture(spec, it));
  if (left !== undefined && left.length < 2) return [];
  return preferences
    .filter(({ architecture }) => left?.includes(architecture) ?? allowsArchitecture(spec, architecture))
    .map(({ architecture, weight }) => ({
      weight,
      preference: { matchExpressions: [{ key: ARCHITECTURE, operator: "In", values: [architecture] }] },
    }));
}

function addPreferences(
  nodeAffinity: unknown,
  preferred: readonly Preference[],
): readonly JsonPatchOperation[] {
  const path = `${NODE_AFFINITY}/${PREFERRED}`;
  if (preferred.length === 0) return [];
  if (listField(nodeAffinity, PREFERRED).length === 0) return [{ op: "add", path, value: preferred }];
  return preferred.map((value) => ({ op: "add", path: `${path}/-`, value }));
}
