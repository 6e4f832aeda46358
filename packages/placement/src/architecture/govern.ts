/** Which policy governs a pod, and what it says itself about images. */
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
  /** That of Berth itself, whose pods are always opted out: it has to come up to let others run. */
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

/** What of a pod decides whether it may be held. Its metadata is whatever somebody sent. */
interface PodKind {
  readonly namespace: string;
  readonly metadata: unknown;
}

/** May pods like this be narrowed, held and refused, where their policy wants it? Others would only be made again. */
export function isOrdinary({ namespace, metadata }: PodKind): boolean {
  return !SYSTEM_NAMESPACES.includes(namespace) && !isDaemonSetPod(metadata);
}

/** Is the pod narrowed, and held until it can be? */
export function isHeldFor(
  policy: ArchitecturePolicyInForce | undefined,
  pod: PodKind,
): policy is ArchitecturePolicyInForce {
  return policy !== undefined && narrows(policy) && isOrdinary(pod);
}

/** Could the policy hold a pod of whose namespace nothing but the name is known? */
export function mayBeHeldFor(policy: ArchitecturePolicyInForce, pod: PodKind, labels: Labels): boolean {
  const { excludedNamespaces, podSelector } = policy.spec;
  return (
    isHeldFor(policy, pod) &&
    !excludedNamespaces.includes(pod.namespace) &&
    matchesSelector(podSelector, labels)
  );
}

/**
 * What the policy itself says about an image, by its name in full (`docker.io/library/nginx:1`). An override is read as
 * it stands and as image names are made whole: `nginx` is also `docker.io/library/nginx:latest`, `bitnami/*` is also
 * `docker.io/bitnami/*`. One that ends with `*` is for all names that begin so; one without a digest is for its name
 * with whichever digest. The longest that fits counts, and a whole name before a beginning of the same length.
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

/** 0: it does not fit. Half a character decides between `abc` and `abc*`. */
function weightOf(pattern: string, name: string, tagged: string): number {
  if (pattern.endsWith("*")) return name.startsWith(pattern.slice(0, -1)) ? pattern.length : 0;
  return pattern === name || pattern === tagged ? pattern.length + 1.5 : 0;
}

/** What the pattern can stand for: without a registry it is of Docker Hub, without a tag or digest `latest`. */
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
