/**
 * What the hub keeps of what a cell says. All of it may be wrong, or meant to fill the hub. So only what a decision reads is
 * kept, if the hub could store it. Pure.
 */
import { conditions } from "@berth/host";
import type { Condition } from "@berth/kube";
import * as z from "zod";
import type { DeploymentStatus, Instance, InstanceSpec, InstanceStatus } from "../../api/workload.ts";

/** Of one status. */
const MAX_CONDITIONS = 32;
const MAX_MESSAGE = 1024;
const MAX_INTERFACES = 16;
const MAX_GATES = 16;
const MAX_TEXT = 253;
/** The API server takes no other date. */
const TIME = /^\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(?:\.\d{1,9})?(?:Z|[+-]\d\d:\d\d)$/;

type Fields = Readonly<Record<string, unknown>>;

/** An unknown field would be dropped by the hub, and written again and again. */
export function keptConditions(said: unknown): readonly Condition[] {
  const kept = new Map<string, Condition>();
  for (const one of listOf(said)) {
    if (kept.size === MAX_CONDITIONS) break;
    const condition = conditionOf(fieldsOf(one));
    if (condition !== undefined && !kept.has(condition.type)) kept.set(condition.type, condition);
  }
  return [...kept.values()];
}

function conditionOf(said: Fields): Condition | undefined {
  const { type, status, observedGeneration, lastTransitionTime, reason, message } = said;
  if (typeof message !== "string" || !TIME.test(textOf(lastTransitionTime) ?? "")) return undefined;
  const generation = observedGeneration === undefined ? {} : { observedGeneration };
  const one = { type, status, ...generation, lastTransitionTime, reason, message: shortened(message) };
  const { success, data } = conditions.safeParse([one]);
  return success ? data?.[0] : undefined;
}

/** A slice of V8 keeps the whole text in memory, so the beginning is copied. */
function shortened(text: string): string {
  return text.length <= MAX_MESSAGE ? text : Buffer.from(text.slice(0, MAX_MESSAGE)).toString();
}

export function keptInstanceStatus(said: unknown): InstanceStatus | undefined {
  if (said === undefined) return undefined;
  const fields = fieldsOf(said);
  const hash = textOf(fieldsOf(fields["controller"])["observedTemplateHash"]);
  const interfaces = listOf(fields["networkInterfaces"]).slice(0, MAX_INTERFACES);
  return {
    ...(fields["conditions"] !== undefined && { conditions: keptConditions(fields["conditions"]) }),
    ...(interfaces.length > 0 && { networkInterfaces: interfaces.map(keptInterface) }),
    ...(hash !== undefined && { controller: { observedTemplateHash: hash } }),
  };
}

function keptInterface(said: unknown): NonNullable<InstanceStatus["networkInterfaces"]>[number] {
  const { assignments } = fieldsOf(said);
  if (assignments === undefined) return {};
  const [networkIP, externalIP] = ["networkIP", "externalIP"].map((it) => textOf(fieldsOf(assignments)[it]));
  return {
    assignments: {
      ...(networkIP !== undefined && { networkIP }),
      ...(externalIP !== undefined && { externalIP }),
    },
  };
}

/** What an Instance has beside its template. The template itself is the hub's: see `decideCopy`. */
export type KeptSpec = Pick<InstanceSpec, "controller" | "location">;

export function keptInstanceSpec({ spec }: Instance): KeptSpec {
  const { templateHash, schedulingGates } = fieldsOf(spec?.controller);
  const hash = textOf(templateHash);
  const location = locationOf(spec?.location);
  const gates = listOf(schedulingGates)
    .slice(0, MAX_GATES)
    .flatMap((gate) => {
      const name = textOf(fieldsOf(gate)["name"]);
      return name === undefined ? [] : [{ name }];
    });
  return {
    ...(location && { location }),
    ...(hash !== undefined && { controller: { templateHash: hash, schedulingGates: gates } }),
  };
}

const count = z.int().min(0);

/** What only a hub says is not taken from a cell: `unheard` and `since`. */
export function keptDeploymentStatus(said: unknown): DeploymentStatus | undefined {
  if (said === undefined) return undefined;
  const fields = fieldsOf(said);
  const location = locationOf(fields["location"]);
  const numbers = [
    "replicas",
    "currentReplicas",
    "updatedReplicas",
    "desiredReplicas",
    "readyReplicas",
    "observedGeneration",
    "observedSourceGeneration",
  ].filter((field) => count.safeParse(fields[field]).success);
  return {
    ...(Object.fromEntries(numbers.map((field) => [field, fields[field]])) as unknown as DeploymentStatus),
    ...(fields["conditions"] !== undefined && { conditions: keptConditions(fields["conditions"]) }),
    ...(location && { location }),
  };
}

/** Those of `wanted` that are texts of at most a kilobyte. */
export function keptTexts(said: unknown, wanted: readonly string[]): Readonly<Record<string, string>> {
  const fields = fieldsOf(said);
  return Object.fromEntries(
    wanted.flatMap((key) => {
      const text = textOf(fields[key], MAX_MESSAGE);
      return text === undefined ? [] : [[key, text] as const];
    }),
  );
}

function locationOf(said: unknown): InstanceSpec["location"] {
  const [name, namespace] = [textOf(fieldsOf(said)["name"]), textOf(fieldsOf(said)["namespace"])];
  return name === undefined || namespace === undefined ? undefined : { name, namespace };
}

function textOf(said: unknown, max: number = MAX_TEXT): string | undefined {
  return typeof said === "string" && said.length <= max ? said : undefined;
}

function listOf(said: unknown): readonly unknown[] {
  return Array.isArray(said) ? said : [];
}

function fieldsOf(said: unknown): Fields {
  return typeof said === "object" && said !== null ? (said as Fields) : {};
}
