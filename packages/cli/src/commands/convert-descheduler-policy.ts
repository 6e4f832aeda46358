/** Converts a DeschedulerPolicy of the descheduler: what moves pods because of labels and taints of their node. */
import { selector, type YamlDocument } from "@berth/host";
import { type Conversion, deschedulePolicySpec, toObjectName } from "@berth/placement";
import * as z from "zod";
import { type ConvertedDocument, convertWith, type Left } from "./convert-parts.ts";

const args = z.record(z.string(), z.unknown()).default({});
const enabled = z.strictObject({
  enabled: z.array(z.string()).default([]),
  disabled: z.array(z.string()).default([]),
});

const deschedulerPolicy = z.looseObject({
  apiVersion: z.string(),
  kind: z.string(),
  profiles: z.array(
    z.strictObject({
      name: z.string().min(1),
      pluginConfig: z.array(z.strictObject({ name: z.string(), args })).default([]),
      plugins: z.record(z.string(), enabled).default({}),
    }),
  ),
});
type Profile = z.infer<typeof deschedulerPolicy>["profiles"][number];

const names = z.array(z.string()).optional();
const scope = {
  namespaces: z.strictObject({ include: names, exclude: names }).optional(),
  labelSelector: selector.optional(),
};
const affinityArgs = z.strictObject({ ...scope, nodeAffinityType: z.array(z.string()).default([]) });
const taintArgs = z.strictObject({
  ...scope,
  includedTaints: z.array(z.string()).default([]),
  excludedTaints: z.array(z.string()).default([]),
  includePreferNoSchedule: z.boolean().optional(),
});
const evictorArgs = z.looseObject({
  evictLocalStoragePods: z.boolean().optional(),
  evictDaemonSetPods: z.boolean().optional(),
  evictSystemCriticalPods: z.boolean().optional(),
  nodeFit: z.boolean().optional(),
  minReplicas: z.int().min(0).optional(),
  minPodAge: z.string().optional(),
  priorityThreshold: z.strictObject({ name: z.string().optional(), value: z.int().nullish() }).optional(),
  labelSelector: selector.optional(),
});

const REQUIRED = "requiredDuringSchedulingIgnoredDuringExecution";
const AFFINITY = "RemovePodsViolatingNodeAffinity";
const TAINTS = "RemovePodsViolatingNodeTaints";
const EVICTOR = "DefaultEvictor";

export function convertDeschedulerPolicy(file: string, yaml: YamlDocument): Conversion<object> {
  const title = (): string => "DeschedulerPolicy";
  return convertWith({ file, yaml, schema: deschedulerPolicy, title }, (policy) => {
    const { apiVersion: _version, kind: _kind, profiles, ...settings } = policy;
    const global = Object.keys(settings).map((it) => ({
      dropped: `${it}: Berth has limits of its own (spec.limits)`,
    }));
    return [...profiles.flatMap(convertProfile), ...global];
  });
}

function convertProfile({ name, pluginConfig, plugins }: Profile): readonly (ConvertedDocument | Left)[] {
  const argsOf = (plugin: string): object => pluginConfig.find((it) => it.name === plugin)?.args ?? {};
  const active = new Set(
    Object.entries(plugins)
      .filter(([point]) => point === "deschedule" || point === "balance")
      .flatMap(([, { enabled: on }]) => on),
  );
  const evictor = evictorArgs.safeParse(argsOf(EVICTOR));
  const converted = [...active].flatMap((plugin): readonly (ConvertedDocument | Left)[] => {
    const about = `profile ${name}, ${plugin}`;
    if (plugin !== AFFINITY && plugin !== TAINTS)
      return [{ dropped: `${about}: Berth moves pods only for labels and taints of their node` }];
    if (!evictor.success)
      return [{ dropped: `profile ${name}, ${EVICTOR}: ${evictor.error.issues[0]?.message}` }];
    const part = plugin === AFFINITY ? fromAffinity(argsOf(plugin)) : fromTaints(argsOf(plugin));
    if ("problem" in part) return [{ dropped: `${about}: ${part.problem}` }];
    const { leftOut, ...spec } = fromEvictor(evictor.data, part.spec["podSelector"] !== undefined);
    const suffix = plugin === AFFINITY ? "node-affinity" : "node-taints";
    return [
      {
        kind: "DeschedulePolicy",
        schema: deschedulePolicySpec,
        name: toObjectName(name, suffix),
        spec: { ...spec, ...part.spec },
        leftOut: leftOut.map((it) => `profile ${name}, ${EVICTOR}: ${it}`),
        notes: part.notes.map((it) => `${about}: ${it}`),
      },
    ];
  });
  return converted.length > 0 ? converted : [{ dropped: `profile ${name}: it enables no plugin` }];
}

type Part =
  | { readonly problem: string }
  | { readonly spec: Readonly<Record<string, unknown>>; readonly notes: readonly string[] };

const LATER = "a pod goes after it has been on a wrong node for 5 minutes (spec.for), not at the next run";

const SELECTORS = "Berth compares spec.nodeSelector of pods as well";

function fromAffinity(given: object): Part {
  const parsed = affinityArgs.safeParse(given);
  if (!parsed.success) return { problem: parsed.error.issues[0]?.message ?? "" };
  const { nodeAffinityType, ...rest } = parsed.data;
  const wrong = nodeAffinityType.find((it) => it !== REQUIRED);
  if (wrong !== undefined)
    return { problem: `nodeAffinityType ${wrong}: Berth reads required affinity only` };
  // The plugin itself asks for another node, whatever `nodeFit` says.
  const spec = { keys: ["*"], requireFit: "True", ...toScope(rest) };
  // `everything` confirms that all pods are meant.
  const isAll = Object.keys(toScope(rest)).length === 0;
  return { spec: isAll ? { ...spec, everything: true } : spec, notes: [LATER, SELECTORS] };
}

function fromTaints(given: object): Part {
  const parsed = taintArgs.safeParse(given);
  if (!parsed.success) return { problem: parsed.error.issues[0]?.message ?? "" };
  const { includedTaints, excludedTaints, includePreferNoSchedule, ...rest } = parsed.data;
  if (excludedTaints.length > 0) return { problem: "excludedTaints: name the taints that count" };
  if (includePreferNoSchedule === true)
    return { problem: "includePreferNoSchedule: Berth reads taints with the effect NoSchedule only" };
  const valued = includedTaints.find((it) => it.includes("="));
  if (valued !== undefined)
    return { problem: `includedTaints ${valued}: Berth compares keys of taints only` };
  const taints = includedTaints.length === 0 ? ["*"] : includedTaints;
  return { spec: { keys: [], taints, ...toScope(rest) }, notes: [LATER] };
}

function toScope({ namespaces, labelSelector }: z.infer<z.ZodObject<typeof scope>>) {
  const key = "kubernetes.io/metadata.name";
  const { include = [], exclude = [] } = namespaces ?? {};
  const matchExpressions = [
    ...(include.length > 0 ? [{ key, operator: "In", values: include }] : []),
    ...(exclude.length > 0 ? [{ key, operator: "NotIn", values: exclude }] : []),
  ];
  return {
    ...(matchExpressions.length > 0 && { namespaceSelector: { matchExpressions } }),
    ...(labelSelector !== undefined && { podSelector: labelSelector }),
  };
}

function fromEvictor(given: z.infer<typeof evictorArgs>, hasSelector: boolean) {
  const {
    evictLocalStoragePods,
    evictDaemonSetPods,
    evictSystemCriticalPods,
    nodeFit = false,
    minReplicas = 0,
    minPodAge,
    priorityThreshold,
    labelSelector,
    ...others
  } = given;
  const include = [
    ...(evictDaemonSetPods ? ["DaemonSet"] : []),
    ...(evictSystemCriticalPods ? ["SystemCritical"] : []),
    ...(evictLocalStoragePods ? ["LocalStorage"] : []),
  ];
  const { name, value } = priorityThreshold ?? {};
  const isBoth = hasSelector && labelSelector !== undefined;
  return {
    requireFit: nodeFit ? "True" : "False",
    ...(minReplicas > 1 && { minReplicas }),
    ...(minPodAge !== undefined && { minAge: minPodAge }),
    // With evictSystemCriticalPods the original does not read the threshold.
    ...(priorityThreshold !== undefined &&
      !evictSystemCriticalPods && { priorityThreshold: name ? { name } : { value } }),
    ...(include.length > 0 && { include }),
    ...(labelSelector !== undefined && !isBoth && { podSelector: labelSelector }),
    leftOut: [
      ...Object.keys(others).map((it) => `${it}: a DeschedulePolicy has no such field`),
      ...(isBoth ? ["labelSelector: the plugin has one as well"] : []),
    ],
  };
}
