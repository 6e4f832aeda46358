/** Which labels and annotations of a template reach the Pods: other programs of the cluster act on them. Pure. */
import { annotations, labels } from "../api/keys.ts";
import type { WorkloadDeployment } from "../api/workload.ts";
import type { Verdict } from "../deployment/conditions.ts";
import type { InstanceRules } from "../fleet/document.ts";
import { globPattern } from "../fleet/globs.ts";

/** Those of the contract that Instances have. */
export const CONTRACT_KEYS: ReadonlySet<string> = new Set([
  labels.workloadUid,
  labels.deploymentUid,
  labels.instanceIndex,
  labels.deploymentName,
  labels.cityCode,
  labels.workloadName,
  labels.placementName,
  annotations.sshKeys,
  annotations.restartedAt,
]);

/** By these the operator of the cell asks Berth, whatever the Fleet lists. */
export const BERTH_KEYS = "berth.dev/";

/** Characters of a valid key. Nothing has checked those of a template, and three `*` on 8,000 characters take minutes. */
const MAX_KEY = 253 + "/".length + 63;

/** A tenant wrote the keys. Those without a prefix are its own, and the Fleet lists the others. */
export function sortKeys(
  keys: Readonly<Record<string, string>>,
  { template }: Pick<InstanceRules, "template">,
): { readonly kept: Readonly<Record<string, string>>; readonly leftOut: readonly string[] } {
  const listed = new RegExp(globPattern(template.keys));
  const passes = (key: string): boolean =>
    !key.includes("/") ||
    CONTRACT_KEYS.has(key) ||
    (key.length <= MAX_KEY && listed.test(key) && !key.startsWith(BERTH_KEYS));
  const { kept = [], leftOut = [] } = Object.groupBy(Object.entries(keys), ([key]) =>
    passes(key) ? "kept" : "leftOut",
  );
  return { kept: Object.fromEntries(kept), leftOut: leftOut.map(([key]) => key) };
}

/** Keys in one message, and characters of each. Nothing has checked the keys of a template. */
const MAX_NAMED = 10;
const MAX_LENGTH = 100;

/** The condition `TemplateApplied` of a deployment. `undefined`: all keys reach the Pods. */
export function templateVerdict(
  { spec }: Pick<WorkloadDeployment, "spec">,
  rules: Pick<InstanceRules, "template">,
): Verdict | undefined {
  const { labels: own = {}, annotations: notes = {} } = spec?.template.metadata ?? {};
  const leftOut = [...new Set([own, notes].flatMap((keys) => sortKeys(keys, rules).leftOut))].toSorted();
  if (leftOut.length === 0) return undefined;
  const named = leftOut
    .slice(0, MAX_NAMED)
    .map((key) => key.slice(0, MAX_LENGTH))
    .join(", ");
  const more = leftOut.length - MAX_NAMED;
  const keys = more > 0 ? `${named} and ${more} more` : named;
  return {
    status: "False",
    reason: "KeysLeftOut",
    message: `Pods do not get these labels and annotations of the template: ${keys}. The Fleet lists keys in template.keys`,
  };
}
