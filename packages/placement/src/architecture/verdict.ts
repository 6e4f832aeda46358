/**
 * Decides which architectures a pod can run on. Admission, the controllers, `plan` and `explain` share this verdict.
 * Pure, and total on any object that a client sends.
 */
import type { PodSpec } from "@berth/kube";
import { type Reason, reasons } from "../api/reasons.ts";
import type { Instant } from "../node/capability.ts";
import { ownValue } from "../node/mark.ts";
import { field, listField, textField } from "../node/untrusted-json.ts";
import { ARCHITECTURES_ANNOTATION } from "./document.ts";
import { overrideOf } from "./govern.ts";
import type { ImageObservations, ImageQuestion } from "./image-observations.ts";
import { imageUses } from "./images.ts";
import {
  allowsArchitecture,
  comparisonsOf,
  ownArchitectureText,
  requiredTerms,
  statesArchitecture,
} from "./own-architecture.ts";
import type { ImageAllowance, PodVerdict } from "./pod-view.ts";
import type { ArchitecturePolicyInForce } from "./policy.ts";
import { conflictText, listText, ownConflictText, unknownText } from "./verdict-text.ts";

/** Most different images of one pod that Berth looks up. A pod with more is there to cause lookups. */
export const MAX_IMAGES = 64;

/** Most comparisons of an architecture with the affinity of one pod: less than 5 ms. */
const MAX_COMPARISONS = 20_000;

/** A pod or pod template, with the input for its verdict. */
interface PodQuestion {
  readonly namespace: string;
  readonly annotations: Readonly<Record<string, string>>;
  readonly spec: PodSpec;
  /** The governing policy. `undefined`: no policy governs the pod, or it is opted out. */
  readonly policy: ArchitecturePolicyInForce | undefined;
}

interface JudgeOptions {
  readonly now: Instant;
  /** Since when it waits for facts. Absent: the wait has not begun, as at admission. */
  readonly heldSince?: Instant | undefined;
}

/**
 * The annotation of the pod wins over the image overrides of the policy, and these win over the registry. Known images
 * always restrict the pod, whatever the policy says about unknown ones: Berth never allows a known mismatch.
 */
export function judge(
  question: PodQuestion,
  observations: ImageObservations,
  options: JudgeOptions,
): PodVerdict {
  const { policy, namespace, annotations, spec } = question;
  if (policy === undefined) {
    const message = "no architecture policy governs it";
    return { kind: "any", reason: reasons.ArchitectureOptedOut, message, images: [] };
  }
  const uses = imageUses(spec, namespace);
  const count = new Set(uses.map(({ question }) => question.image)).size;
  const seen =
    count > MAX_IMAGES ? [] : uses.map((use) => ({ use, knowledge: observations.look(use.question) }));
  const os = osOf(spec, seen);
  const text = ownValue(annotations, ARCHITECTURES_ANNOTATION);
  const given = readArchitectures(text);
  const images = seen.map((one) => allowanceOf(one, os, policy));
  const named = given ?? images.flatMap(({ architectures = [] }) => architectures);
  const unread = { policy, images: [], os, spec, common: undefined };
  const names = named === "*" ? 0 : new Set(named).size;
  if (names * comparisonsOf(spec) > MAX_COMPARISONS)
    return tooMany(`${names} architectures, and too much affinity to compare with each`, unread);
  if (given !== undefined) return givenVerdict(given, os, spec);
  if (policy.spec.preset === "multiarch-tuning-operator" && statesArchitecture(spec)) {
    const message = `it requires ${ownArchitectureText(spec)} itself, and the policy leaves such pods alone`;
    return { kind: "any", reason: reasons.ArchitectureLeftToPod, message, images: [] };
  }
  if (count > MAX_IMAGES)
    return tooMany(
      `${count} different images, and no more than ${MAX_IMAGES} of one pod are looked up`,
      unread,
    );
  const verdict = judgeImages({ policy, images, os, spec, common: commonOf(images) }, options);
  if (text === undefined) return verdict;
  const note = `its annotation ${ARCHITECTURES_ANNOTATION} cannot be read: names like amd64, arm64, or *`;
  return { ...verdict, message: `${verdict.message}; ${note}` };
}

/**
 * Images to look up, each once: unknown ones, and those known by a tag, which may point to another image by now. For a
 * pod that can run nowhere it asks for the freshest answer, because its user may have fixed an image under its old
 * name. The library caches answers that are fresh.
 */
export function wantsOf({ kind, images }: PodVerdict): readonly ImageQuestion[] {
  const wants = new Map<string, ImageQuestion>();
  for (const { use, knowledge, source } of images) {
    const isForEver = knowledge.state === "known" && use.question.image.includes("@");
    if (source === "policy" || isForEver) continue;
    const question = kind === "impossible" ? freshly(use.question) : use.question;
    wants.set(`${question.pull} ${question.image}`, question);
  }
  return [...wants.values()];
}

/** The same question, answered as for an image that is always pulled. */
export function freshly(question: ImageQuestion): ImageQuestion {
  return { ...question, pull: "Always" };
}

/** Does Berth know where the pod can run? */
export function isSettled(verdict: PodVerdict): verdict is PodVerdict & { readonly kind: "fits" | "any" } {
  return verdict.kind === "fits" || verdict.kind === "any";
}

/** Did Berth decide without some facts, which may still come? */
export function lacksFacts({ images }: PodVerdict): boolean {
  return images.some(({ source, knowledge }) => source === "none" && knowledge.state !== "known");
}

/** Berth checks an unsettled verdict again after this at the latest, ms: ten times the default of `maxHold`. */
const LONGEST_WAIT_MS = 300_000;
/** Shortest pause before Berth checks again, ms. */
const SHORTEST_WAIT_MS = 50;

/**
 * When the verdict may change by time alone, ms from now. `undefined`: it does not. An expired failure needs no
 * recheck: Berth is asking the registry again, and the library reports the result.
 *
 * @param expiresAt when waiting ends, by the policy.
 */
export function recheckAfter(
  verdict: PodVerdict,
  { now, expiresAt = now }: { readonly now: Instant; readonly expiresAt?: Instant | undefined },
): number | undefined {
  if (isSettled(verdict)) return undefined;
  const times = verdict.images.map(({ knowledge: it }) => (it.state === "failed" && it.retryAt) || now);
  if (verdict.kind === "waiting") times.push(expiresAt);
  const next = Math.min(now + LONGEST_WAIT_MS, ...times.filter((time) => time > now));
  return Math.max(SHORTEST_WAIT_MS, next - now);
}

const ARCHITECTURE_NAME = /^[a-z0-9](?:[-a-z0-9_.]{0,61}[a-z0-9])?$/;
const MAX_GIVEN = 16;

/**
 * The value of `berth.dev/architectures`: names with commas or blanks between them, or `*`.
 *
 * @returns `undefined` when there is none, or it cannot be read: then the images decide.
 */
export function readArchitectures(text: string | undefined): readonly string[] | "*" | undefined {
  if (text === undefined || text.length > 2048) return undefined;
  const names = text.split(/[\s,]+/).filter((name) => name !== "");
  if (names.length === 1 && names[0] === "*") return "*";
  if (names.length === 0 || names.length > MAX_GIVEN) return undefined;
  return names.every((name) => ARCHITECTURE_NAME.test(name)) ? sorted(names) : undefined;
}

function givenVerdict(given: readonly string[] | "*", os: string, spec: PodSpec): PodVerdict {
  const reason = reasons.ArchitecturesGiven;
  const by = `by its annotation ${ARCHITECTURES_ANNOTATION}`;
  if (given === "*") return { kind: "any", reason, message: `it runs anywhere, ${by}`, images: [] };
  const message = `it runs on ${listText(given)}, ${by}`;
  if (!given.some((it) => allowsArchitecture(spec, it))) return unfit(message, spec, []);
  return { kind: "fits", os, architectures: given, reason, message, images: [] };
}

/** `says`: on which architectures it can run. */
function unfit(says: string, spec: PodSpec, images: readonly ImageAllowance[]): PodVerdict {
  const message = `${says}, and the pod requires ${ownArchitectureText(spec)}: no node fits both`;
  return { kind: "impossible", reason: reasons.RequiredArchitectureConflict, message, images };
}

/** The system that the pod names; else `linux`, unless only Windows runs all its known images. */
function osOf(spec: PodSpec, seen: readonly Pick<ImageAllowance, "use" | "knowledge">[]): string {
  const said = textField(field(spec, "os"), "name") || selectedOs(spec);
  if (said !== "") return said;
  const run = seen.flatMap(({ use, knowledge }) =>
    use.isVolume || knowledge.state !== "known" || knowledge.isBundle || knowledge.platforms.length === 0
      ? []
      : [new Set(knowledge.platforms.map((platform) => platform.os))],
  );
  const all = (os: string): boolean => run.every((systems) => systems.has(os));
  return !all("linux") && all("windows") ? "windows" : "linux";
}

const OS_LABELS = ["kubernetes.io/os", "beta.kubernetes.io/os"];
/** The kubelet sets it on Windows nodes only. */
const WINDOWS_BUILD = "node.kubernetes.io/windows-build";

/** The system of the nodes that the pod selects; `""` where the pod names none, or several. */
function selectedOs(spec: PodSpec): string {
  const selector = field(spec, "nodeSelector");
  const said = OS_LABELS.map((label) => textField(selector, label)).find((os) => os !== "");
  if (said !== undefined) return said;
  if (textField(selector, WINDOWS_BUILD) !== "") return "windows";
  const [first = "", ...others] = requiredTerms(field(spec, "affinity")).map(requiredOs);
  return others.every((os) => os === first) ? first : "";
}

function requiredOs(term: unknown): string {
  for (const expression of listField(term, "matchExpressions")) {
    const [os, ...more] = listField(expression, "values");
    const isOne = textField(expression, "operator") === "In" && more.length === 0;
    if (isOne && OS_LABELS.includes(textField(expression, "key")) && typeof os === "string") return os;
  }
  return "";
}

function allowanceOf(
  { use, knowledge }: Pick<ImageAllowance, "use" | "knowledge">,
  os: string,
  policy: ArchitecturePolicyInForce,
): ImageAllowance {
  const override = overrideOf(policy, knowledge.name);
  if (override !== undefined) {
    return { use, knowledge, architectures: sorted(override.architectures), source: "policy" };
  }
  if (knowledge.state !== "known") return { use, knowledge, architectures: undefined, source: "none" };
  const { name, platforms, isBundle } = knowledge;
  if (platforms.length > 0 && !isBundle) {
    const fitting = platforms.filter((platform) => platform.os === os);
    const architectures = sorted(fitting.map(({ architecture }) => architecture));
    return { use, knowledge, architectures, source: "registry" };
  }
  if (use.isVolume || isBundle) return { use, knowledge, architectures: undefined, source: "registry" };
  const message = "it names no platform, so it cannot be run; name an image that does";
  const failed = { state: "failed", name, reason: reasons.ImageWithoutPlatform, message } as const;
  return { use, knowledge: failed, architectures: undefined, source: "none" };
}

/** True intersection. `undefined`: nothing restricts. */
function commonOf(images: readonly ImageAllowance[]): readonly string[] | undefined {
  let common: readonly string[] | undefined;
  for (const { architectures } of images) {
    if (architectures === undefined) continue;
    common = common?.filter((it) => architectures.includes(it)) ?? architectures;
  }
  return common;
}

interface JudgedImages {
  readonly policy: ArchitecturePolicyInForce;
  readonly images: readonly ImageAllowance[];
  readonly os: string;
  readonly spec: PodSpec;
  readonly common: readonly string[] | undefined;
}

function judgeImages(judged: JudgedImages, options: JudgeOptions): PodVerdict {
  const { images, os, spec, common } = judged;
  if (common?.length === 0) {
    const message = conflictText(images, os);
    return { kind: "impossible", reason: reasons.NoCommonArchitecture, message, images };
  }
  // Check each architecture once: a pod may have thousands of terms, and as many images.
  const named = new Set(images.flatMap(({ architectures = [] }) => architectures));
  const allowed = new Set([...named].filter((it) => allowsArchitecture(spec, it)));
  const allows = (architecture: string): boolean => allowed.has(architecture);
  if (common !== undefined && !common.some(allows))
    return unfit(ownConflictText(images, common, allows), spec, images);
  const missing = images.filter(({ source, knowledge }) => source === "none" && knowledge.state !== "known");
  if (missing.length > 0) return judgeMissing(judged, missing, options);
  if (common === undefined) {
    const message = "none of its images restricts where it runs";
    return { kind: "any", reason: reasons.ArchitectureUnrestricted, message, images };
  }
  const message = `all of its images run on ${listText(common)}`;
  return { kind: "fits", os, architectures: common, reason: reasons.ArchitecturesResolved, message, images };
}

/** Failures that may end without a change, or that the user is likely to fix: Berth waits for these. */
const PASSING: ReadonlySet<Reason> = new Set<Reason>([
  reasons.RegistryUnreachable,
  reasons.RegistryRateLimited,
  reasons.RegistryFailed,
  reasons.RegistrySuspended,
  reasons.CredentialProviderFailed,
  reasons.PullSecretUnreadable,
]);

/**
 * Some images are unknown. A lasting failure counts at once. Berth waits for the other facts until `maxHold`. Then the
 * stricter of `unresolvable` and `afterMaxHold` applies.
 */
function judgeMissing(
  judged: JudgedImages,
  missing: readonly ImageAllowance[],
  { now, heldSince }: JudgeOptions,
): PodVerdict {
  const { policy, images } = judged;
  const failed = missing.filter(({ knowledge }) => knowledge.state === "failed");
  const lasting = failed.filter((it) => !PASSING.has(reasonOf([it])));
  const isPending = missing.length > lasting.length;
  const isClosed = policy.spec.unresolvable === "Closed";
  if (isClosed && lasting.length > 0) return unresolvable(images, lasting);
  if (isPending && (heldSince === undefined || now - heldSince < policy.maxHoldMs)) {
    const message = unknownText(missing);
    return { kind: "waiting", reason: reasons.ImagesPending, message, images };
  }
  if (isClosed) return unresolvable(images, failed.length > 0 ? failed : missing);
  const reason = reasonOf(failed);
  const after = isPending ? `after ${policy.spec.maxHold} ` : "";
  if (isPending && policy.spec.afterMaxHold === "Keep") {
    return { kind: "waiting", reason, message: `${unknownText(missing)}; ${after}it stays held`, images };
  }
  const hasExpired = isPending && policy.spec.afterMaxHold === "Fallback";
  const text = `${unknownText(missing)}; ${after}it`;
  return letGo(judged, failed.length > 0 || hasExpired, { reason, text });
}

function unresolvable(images: readonly ImageAllowance[], failed: readonly ImageAllowance[]): PodVerdict {
  const message = `${unknownText(failed)}; it stays pending, by the policy`;
  return { kind: "unresolvable", reason: reasonOf(failed), message, images };
}

/** The reason of the first failure. Without a failure, the facts did not come in time. */
function reasonOf(failed: readonly ImageAllowance[]): Reason {
  for (const { knowledge } of failed) if (knowledge.state === "failed") return knowledge.reason;
  return reasons.HoldExpired;
}

/** Berth looks at no image of the pod, as if each had a lasting failure. @param names what the pod names too much of. */
function tooMany(names: string, judged: JudgedImages): PodVerdict {
  const reason = reasons.TooManyImages;
  const text = `it names ${names}: it`;
  if (judged.policy.spec.unresolvable !== "Closed") return letGo(judged, true, { reason, text });
  return { kind: "unresolvable", reason, message: `${text} stays pending, by the policy`, images: [] };
}

/** Without all facts: allows the known common architectures, and of these only the fallback ones if any remain. */
function letGo(
  { policy, images, os, spec, common }: JudgedImages,
  isFallback: boolean,
  { reason, text }: { readonly reason: Reason; readonly text: string },
): PodVerdict {
  const fallback = isFallback
    ? sorted(policy.spec.fallbackArchitectures).filter((it) => allowsArchitecture(spec, it))
    : [];
  const both = common === undefined ? fallback : fallback.filter((it) => common.includes(it));
  const architectures = both.length > 0 ? both : common;
  if (architectures === undefined) {
    return { kind: "any", reason, message: `${text} may run anywhere, by the policy`, images };
  }
  const message = `${text} may run on ${listText(architectures)}, by the policy`;
  return { kind: "fits", os, architectures, reason, message, images };
}

function sorted(names: readonly string[]): readonly string[] {
  return [...new Set(names)].sort();
}
