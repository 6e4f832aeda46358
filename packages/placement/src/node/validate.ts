/**
 * The API server's validation rules for nodes, so that Berth never sends a mark that the API server would refuse.
 * Sources: apimachinery `pkg/api/validate/content/{kube,dns}.go`, `pkg/api/validation/objectmeta.go`, and
 * kubernetes `pkg/apis/core/validation/validation.go` (`validateNodeTaints`), v1.36.
 */
import { MARKS_ANNOTATION } from "../api/keys.ts";
import type { Policy } from "./capability.ts";
import { type Mark, type MarkId, parseMarkId } from "./mark.ts";
import { holdsMark } from "./mark-set.ts";

const NAME = /^(?:[A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9]$/;
const SUBDOMAIN = /^[a-z0-9](?:[-a-z0-9]*[a-z0-9])?(?:\.[a-z0-9](?:[-a-z0-9]*[a-z0-9])?)*$/;
const MAX_NAME = 63;
const MAX_PREFIX = 253;

/** Bytes of all annotation keys and values of one object together (`TotalAnnotationSizeLimitB`). */
export const MAX_ANNOTATIONS_BYTES: number = 256 * 1024;

const EFFECTS: ReadonlySet<string> = new Set(["NoSchedule", "PreferNoSchedule", "NoExecute"]);

/** @returns the problem of a label or taint key, in words; `undefined` for a valid key. */
export function labelKeyProblem(key: string): string | undefined {
  const parts = key.split("/");
  if (parts.length > 2) return "a label key has at most one `/`";
  const name = parts.at(-1) ?? "";
  const prefix = parts.length === 2 ? parts[0] : undefined;
  if (prefix === "") return "the part before `/` is empty";
  if (prefix !== undefined && prefix.length > MAX_PREFIX) {
    return `the part before \`/\` has ${prefix.length} characters, at most ${MAX_PREFIX} are allowed`;
  }
  if (prefix !== undefined && !SUBDOMAIN.test(prefix)) {
    return `\`${prefix}\` is not a DNS subdomain (lower-case letters, digits, \`-\` and \`.\`)`;
  }
  return name === "" ? "the name is empty" : nameProblem("name", name);
}

/** @returns the problem of a label or taint value, in words; `undefined` for a valid value. */
export function labelValueProblem(value: string): string | undefined {
  return value === "" ? undefined : nameProblem("value", value);
}

function nameProblem(what: string, text: string): string | undefined {
  if (text.length > MAX_NAME)
    return `the ${what} has ${text.length} characters, at most ${MAX_NAME} are allowed`;
  if (NAME.test(text)) return undefined;
  return `the ${what} must begin and end with a letter or digit and hold only letters, digits, \`-\`, \`_\` and \`.\``;
}

/** Annotation keys follow the rules of label keys, but ignore case. */
export function annotationKeyProblem(key: string): string | undefined {
  return labelKeyProblem(key.toLowerCase());
}

/** @returns why the API server would refuse this mark. The plan checks the total size of annotations. */
export function markProblem(mark: Mark): string | undefined {
  const place = parseMarkId(mark.id);
  if (place === undefined) return "it names no place on a node";
  if (place.kind === "unschedulable") {
    return mark.value === "true" ? undefined : "unschedulable can only be wanted as true";
  }
  if (place.kind === "annotation") {
    if (place.key === MARKS_ANNOTATION) return "the annotation is the ownership record itself";
    return annotationKeyProblem(place.key);
  }
  if (place.kind === "taint" && !EFFECTS.has(place.effect))
    return `${place.effect} is not an effect of a taint`;
  return labelKeyProblem(place.key) ?? labelValueProblem(mark.value);
}

/** True for a key with the domain `kubernetes.io` or `k8s.io`, or a subdomain of these. */
export function isProtectedKey(key: string): boolean {
  return /^(?:[^/]*\.)?(?:kubernetes\.io|k8s\.io)\//.test(key.toLowerCase());
}

/** True when this policy allows writes and removals at this place. */
export function permits(policy: Policy, id: MarkId): boolean {
  const place = parseMarkId(id);
  if (place === undefined || !isProtectedKey(place.key)) return true;
  return holdsMark(policy.declared, id) && holdsMark(policy.allowedProtected, id);
}
