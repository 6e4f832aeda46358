/** Decides which policy governs a pod, and finds what that policy itself says about images. */
import { SYSTEM_NAMESPACES } from "@berth/host";
import { ownValue } from "../node/mark.ts";
import { isDaemonSetPod } from "../node/pod-kind.ts";
import { matchesSelector } from "../node/selector.ts";
import { ARCHITECTURE_LABEL, type ImageOverride } from "./document.ts";
import { type ArchitecturePolicyInForce, narrows } from "./policy.ts";

type Labels = Readonly<Record<string, string>> | undefined;

export interface GovernContext {
  /** By falling priority, then by name, as in `ArchitecturePolicies`. */
  readonly policies: readonly ArchitecturePolicyInForce[];
  /** Berth's own namespace. Its pods are always opted out, because Berth must start before other pods can run. */
  readonly ownNamespace?: string | undefined;
}

/** The first policy that selects the pod. `undefined`: none does, or the pod is opted out. */
export function governing(
  { policies, ownNamespace }: GovernContext,
  pod: { readonly namespace: string; readonly namespaceLabels: Labels; readonly labels: Labels },
): ArchitecturePolicyInForce | undefined {
  const { namespace, namespaceLabels, labels } = pod;
  if (namespace === ownNamespace) return undefined;
  if (ownValue(namespaceLabels, ARCHITECTURE_LABEL) === "ignore") return undefined;
  return policies.find(
    ({ spec }) =>
      !spec.excludedNamespaces.includes(namespace) &&
      matchesSelector(spec.namespaceSelector, namespaceLabels) &&
      matchesSelector(spec.podSelector, labels),
  );
}

/** The parts of a pod that decide if Berth may hold it. A client may send any metadata. */
interface PodKind {
  readonly namespace: string;
  readonly metadata: unknown;
}

/** May a policy narrow, hold or refuse pods like this? Controllers would only create the others again. */
export function isOrdinary({ namespace, metadata }: PodKind): boolean {
  return !SYSTEM_NAMESPACES.includes(namespace) && !isDaemonSetPod(metadata);
}

/** Does Berth narrow the pod, and hold it until it can? */
export function isHeldFor(
  policy: ArchitecturePolicyInForce | undefined,
  pod: PodKind,
): policy is ArchitecturePolicyInForce {
  return policy !== undefined && narrows(policy) && isOrdinary(pod);
}

/** Could the policy hold this pod, when Berth knows only the name of its namespace? */
export function mayBeHeldFor(policy: ArchitecturePolicyInForce, pod: PodKind, labels: Labels): boolean {
  const { excludedNamespaces, podSelector } = policy.spec;
  return (
    isHeldFor(policy, pod) &&
    !excludedNamespaces.includes(pod.namespace) &&
    matchesSelector(podSelector, labels)
  );
}

/**
 * Finds the override of the policy for an image, by its full name (`docker.io/library/nginx:1`). Berth reads each
 * override as written and in its expanded form. `nginx` is also `docker.io/library/nginx:latest`, `bitnami/*` is also
 * `docker.io/bitnami/*`. A trailing `*` matches each name with that prefix. An override without a digest matches any
 * digest. The longest match wins, and a full name wins over a prefix of the same length.
 */
export function overrideOf(
  { spec }: Pick<ArchitecturePolicyInForce, "spec">,
  name: string,
): ImageOverride | undefined {
  const tagged = name.split("@", 1)[0] ?? name;
  let [best, bestWeight]: readonly [ImageOverride | undefined, number] = [undefined, 0];
  for (const override of spec.images) {
    const weight = Math.max(...readingsOf(override.image).map((reading) => weightOf(reading, name, tagged)));
    if (weight > bestWeight) [best, bestWeight] = [override, weight];
  }
  return best;
}

/** 0: no match. The half puts `abc` before `abc*`. */
function weightOf(pattern: string, name: string, tagged: string): number {
  if (pattern.endsWith("*")) return name.startsWith(pattern.slice(0, -1)) ? pattern.length : 0;
  return pattern === name || pattern === tagged ? pattern.length + 1.5 : 0;
}

/** All forms of the pattern. The default registry is Docker Hub, the default tag is `latest`. */
function readingsOf(pattern: string): readonly string[] {
  const slash = pattern.indexOf("/");
  const first = slash < 0 ? "" : pattern.slice(0, slash);
  const readings = [pattern];
  const onHub = /^(?:index\.)?docker\.io\/(.+)$/.exec(pattern)?.[1];
  if (onHub !== undefined) readings.push(`docker.io/${onHub}`);
  const short = onHub ?? (/[.:]/.test(first) || first === "localhost" ? undefined : pattern);
  if (short !== undefined) readings.push(`docker.io/${short}`);
  if (short !== undefined && !short.includes("/")) readings.push(`docker.io/library/${short}`);
  return readings.map((it) =>
    it.endsWith("*") || it.includes("@") || it.includes(":", it.lastIndexOf("/")) ? it : `${it}:latest`,
  );
}
