/**
 * The tolerations that Berth adds to the pod template of a DaemonSet. An annotation on the DaemonSet records them, to
 * distinguish them from the user's tolerations. `berth clean` removes only recorded ones. Pure.
 */
import type { DaemonSet, JsonPatchOperation, Toleration } from "@berth/kube";
import { escapePointer } from "./json-pointer.ts";
import { ownValue } from "./mark.ts";

type Annotations = Readonly<Record<string, string>> | undefined;

/** One annotation per capability. Example value: `startup.k8s.io/initializing:NoSchedule,example.com/b:NoExecute`. */
export function tolerationsAnnotation(capability: string): string {
  return `berth.dev/${capability}-tolerations`;
}

/** The form in which kubectl writes taints. Without a value the toleration is for any value. */
function textOf({ key = "", value, effect = "" }: Toleration): string {
  return `${key}${value === undefined ? "" : `=${value}`}:${effect}`;
}

/**
 * Patch operations that record the given tolerations. Empty without any.
 *
 * @param annotations of the DaemonSet; `undefined` if it has none. A stored DaemonSet always has some; one that is
 *   being created may have none.
 */
export function recordTolerations(
  capability: string,
  annotations: Annotations,
  given: readonly Toleration[],
): readonly JsonPatchOperation[] {
  if (given.length === 0) return [];
  const key = tolerationsAnnotation(capability);
  const value = [...recordedIn(annotations, key).union(new Set(given.map(textOf)))].join(",");
  return annotations === undefined
    ? [{ op: "add", path: "/metadata/annotations", value: { [key]: value } }]
    : [{ op: "add", path: `/metadata/annotations/${escapePointer(key)}`, value }];
}

function recordedIn(annotations: Annotations, key: string): ReadonlySet<string> {
  return new Set((ownValue(annotations, key) ?? "").split(",").filter((it) => it !== ""));
}

/** Removes the tolerations that a capability has recorded, and the record. `undefined`: there is no record. */
export function withoutTolerations(
  { metadata, spec }: DaemonSet,
  capability: string,
): readonly JsonPatchOperation[] | undefined {
  const key = tolerationsAnnotation(capability);
  if (ownValue(metadata?.annotations, key) === undefined) return undefined;
  const recorded = recordedIn(metadata?.annotations, key);
  const standing = spec?.template.spec?.tolerations ?? [];
  // Remove from the end, so that the indexes of the other items stay valid.
  const ours = standing.flatMap((it, at) => (recorded.has(textOf(it)) ? [at] : [])).toReversed();
  return [
    ...ours.map(
      (at): JsonPatchOperation => ({ op: "remove", path: `/spec/template/spec/tolerations/${at}` }),
    ),
    { op: "remove", path: `/metadata/annotations/${escapePointer(key)}` },
  ];
}
