/**
 * The switches and tokens of the templates, with the expressions of Helm that stand behind them. `$` has the values as given,
 * and `$b` what `_berth.tpl` makes of them.
 */
import type { Loop, Words } from "./template.ts";

/** The condition of each switch. */
export const conditions: Readonly<Record<string, string>> = {
  // Capabilities and flags, by their names in `berth manifests`.
  ...Object.fromEntries(
    ["labels", "gates", "architecture", "footprint", "deschedule"].map((it) => [
      it,
      `$.Values.capabilities.${it}`,
    ]),
  ),
  pullSecrets: "$.Values.pullSecrets",
  workerPools: "$.Values.workerPools",
  confinement: "$.Values.confinement",
  cidrs: "$.Values.apiServerCidrs",
  labelFiles: "$b.is.labelFiles",
  extended: 'eq $.Values.labelFormat "extended"',
  config: "$b.is.config",
  serverConfig: "$.Values.serverConfig",
  cell: "$.Values.enableCellControllers",
  featureGates: "$.Values.featureGates",
  project: "$.Values.project",
  cleanup: "$.Values.cleanup.enabled",
  // Pods.
  several: "gt (int $.Values.replicaCount) 1",
  account: "$.Values.serviceAccount.create",
  accountAnnotations: "$.Values.serviceAccount.annotations",
  podAnnotations: "$.Values.podAnnotations",
  pullSecretsOfPod: "$.Values.imagePullSecrets",
  affinity: "$.Values.affinity",
  tolerations: "$.Values.tolerations",
  // Documents, and what they ask for.
  ...Object.fromEntries(
    "adopted manage holds notifiers pools poolWait fleet management single hubSelf projectsSelf karmada writeBack pods networks quota quotaHere quotaAlone quotaBeside federation certificatesAlone certificatesBeside"
      .split(" ")
      .map((it) => [it, `$b.is.${it}`]),
  ),
};

/** Ports and times are numbers in the objects. */
export const number = {
  metricsPort: 61_001,
  webhookPort: 61_002,
  waitPort: 61_003,
  timeout: 61_004,
} as const;

/** Some have to be a path or an address. */
const SPECIAL: Readonly<Record<string, string>> = {
  labelPath: "q/labels",
  filePath: "q/files",
  cidr: "192.0.2.77/32",
};

/** A text that is valid wherever the objects have it, and occurs nowhere else. */
export const token = (name: string): string => SPECIAL[name] ?? `q${name.toLowerCase()}q`;

/** By token name: what stands there in a template. */
const words: Readonly<Record<string, string>> = {
  image: "$b.image",
  pullPolicy: "$.Values.image.pullPolicy",
  namespace: "$.Release.Namespace",
  installation: "$.Values.installation",
  account: "$b.account",
  replicas: "(int $.Values.replicaCount)",
  priorityClass: "$.Values.priorityClassName",
  nodeSelector: "$.Values.nodeSelector",
  affinity: "$.Values.affinity",
  resources: "$.Values.resources",
  featureGates: "$.Values.featureGates",
  project: "$.Values.project",
  serverConfig: '(toYaml $.Values.serverConfig | printf "%s\\n")',
  documents: "$b.documents",
  quotaSecret: "$.Values.quotaSecret",
  quotaFolder: "$b.quota.folder",
  quotaKey: "$b.quota.key",
  federationSecret: "$.Values.federationSecret",
  federationFolder: "$b.federation",
  certificateFolder: "$b.certificates.folder",
  adopted: "$b.adopted",
  cell: "$b.fleet.cell",
  waitName: "$b.pools.wait.name",
  waitImage: "$b.pools.wait.image",
  // Of loops.
  label: "$key",
  labelValue: "$value",
  podLabel: "$key",
  podLabelValue: "$value",
  podAnnotation: "$key",
  podAnnotationValue: "$value",
  accountAnnotation: "$key",
  accountAnnotationValue: "$value",
  labelPath: "$key",
  labelText: "$value",
  reserved: "$value",
  filePath: "$key",
  fileText: "$value",
  cidr: "$value",
  evictingTaint: "$value",
  heldVerbs: "$value.verbs",
  cronJob: "$value",
  architecture: "$architecture",
  handler: "$.Values.runtimeClasses.handler",
  taintKey: "$value",
};

/** By token name: what a list of CEL has in place of the token. */
const lists: Readonly<Record<string, string>> = {
  finalizer: "$b.finalizers",
  held: "$b.otherResources",
  heldGroup: "$b.owners",
  architectureTaint: "$b.architectureTaints",
  poolImage: "$b.pools.allow.images",
  poolNamespace: "$b.pools.allow.namespaces",
  poolPriority: "$b.pools.allow.priorityClasses",
  capability: "$b.fleet.pods.capabilities",
  addedVolume: "$b.fleet.pods.added.volumes",
  audience: "$b.fleet.pods.added.audiences",
  addedPriority: "$b.fleet.pods.added.priorityClasses",
};

const name = `berth-${token("installation")}`;

/** The key of a file in its ConfigMap. */
const keyOf = (path: string): string => path.replace("/", "_");

/** Longer tokens first: a part of one may be a token too. */
const values: ReadonlyMap<string, string> = new Map(
  (
    [
      [name, "$b.name"],
      [`${token("quotaFolder")}/${token("quotaKey")}`, "$b.quota.path"],
      [token("held"), "$value.resource"],
      [token("heldGroup"), "$value.group"],
      [`compute-single.${name}`, "$b.fleetLease"],
      [`compute-cell-${token("cell")}.${name}`, "$b.fleetLease"],
      [`compute-management.${name}`, "$b.fleetLease"],
      [keyOf(token("labelPath")), '(include "berth.key" $key)'],
      [keyOf(token("filePath")), '(include "berth.key" $key)'],
      [`${number.metricsPort}`, "(int $b.metricsPort)"],
      [`${number.webhookPort}`, "(int $b.webhookPort)"],
      [`${number.waitPort}`, "(int $b.pools.wait.port)"],
      [`${number.timeout}`, "(int $.Values.cleanup.timeoutSeconds)"],
      ...Object.entries(words).map(([of, expression]): [string, string] => [token(of), expression]),
    ] satisfies [string, string][]
  ).toSorted(([a], [b]) => b.length - a.length),
);

const map = (key: string, word: string, range: string): Loop => ({
  token: key === "data" ? keyOf(token(word)) : token(word),
  key,
  range,
});
const item = (key: string, name: string, range: string): Loop => ({
  token: token(name),
  key,
  range: `$value := ${range}`,
  item: "$value",
});

const loops: readonly Loop[] = [
  map("labels", "label", "$key, $value := $b.labels"),
  map("labels", "podLabel", "$key, $value := $.Values.podLabels"),
  map("annotations", "podAnnotation", "$key, $value := $.Values.podAnnotations"),
  map("annotations", "accountAnnotation", "$key, $value := $.Values.serviceAccount.annotations"),
  map("data", "labelPath", "$key, $value := $b.labelFiles"),
  map("items", "labelPath", "$key, $value := $b.labelFiles"),
  map("data", "filePath", "$key, $value := $.Values.files"),
  map("items", "filePath", "$key, $value := $.Values.files"),
  map("args", "reserved", "$value := $.Values.allowReserved"),
  map("from", "cidr", "$value := $.Values.apiServerCidrs"),
  map("tolerations", "evictingTaint", "$value := $b.evictingTaints"),
  map("resourceRules", "held", "$value := $b.others"),
  map("rules", "held", "$value := $b.holds"),
  map("resourceNames", "cronJob", "$value := $b.cronJobs"),
  map("tolerations", "taintKey", "$value := $.Values.runtimeClasses.taintKeys | uniq | sortAlpha"),
  item("tolerations", "toleration", "$.Values.tolerations"),
  item("imagePullSecrets", "pullSecret", "$.Values.imagePullSecrets"),
  item("volumes", "volume", "$.Values.volumes"),
  item("volumeMounts", "volumeMount", "$.Values.volumeMounts"),
  item("env", "env", "$.Values.env"),
];

/** Lists of texts in CEL: `["a", "qtokenq"]`, `[dyn("qtokenq")]`. */
const LIST = /\[((?:"[^"[\]]*"(?:, )?)+|dyn\("q\w+q"\))\]/g;
const GLOBS = "$b.fleet.pods.added";

function replaceLists(text: string): string {
  return text
    .replaceAll(LIST, (whole, inside: string) => {
      const isDynamic = inside.startsWith("dyn(");
      const items = [...inside.matchAll(/"([^"]*)"/g)].map(([, it = ""]) => it);
      const names = Object.keys(lists);
      const at = items.findIndex((it) => names.some((name) => it.replace("/", "") === token(name)));
      const name = names.find((it) => items[at]?.replace("/", "") === token(it));
      if (name === undefined) return whole;
      const given = [items.slice(0, at), items.slice(at + 1)].map((all) =>
        all.length === 0 ? "" : ` (list ${all.map((it) => JSON.stringify(it)).join(" ")})`,
      );
      return `{{ include "berth.${isDynamic ? "dyn" : "cel"}" (concat${given[0]} ${lists[name]}${given[1]}) }}`;
    })
    .replaceAll(
      `${token("templateKey")}|${token("addedKey")}`,
      `{{ include "berth.globs" (concat $b.fleet.template.keys ${GLOBS}.keys) }}`,
    )
    .replaceAll(token("addedImage"), `{{ include "berth.globs" ${GLOBS}.images }}`)
    .replaceAll(
      ` && namespaceObject.metadata.?labels[?"${token("selector")}"].hasValue()`,
      '{{ include "berth.selector" $b.fleet.namespaceSelector }}',
    );
}

export const ofChart: Words = {
  conditionOf: (by) => conditions[by] ?? `$.Values.runtimeClasses.${by}`,
  values,
  loops,
  replaceLists,
};
