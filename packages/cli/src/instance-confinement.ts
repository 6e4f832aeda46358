/**
 * What Berth's account may create as the Pod of an Instance: what `buildPod` makes, what the API server fills in, what
 * Berth's own admission changes, and what the Fleet lists in `pods.added`. The policy sees the Pod after all of them.
 */
import { BERTH_KEYS, buildPod, CONTRACT_KEYS, type FleetSpec, globPattern, instances } from "@berth/fleet";
import type { Selector } from "@berth/host";
import type { Container, PodSpec } from "@berth/kube";
import { ARCHITECTURE_GATE, selectorCel } from "@berth/placement";
import { CONTAINER_DEFAULTS, field, list, literal, NOW } from "./cel.ts";

export interface InstanceConfinement {
  readonly fleet: FleetSpec;
  /** Berth's own: its Secrets are there. */
  readonly namespace: string;
  /** Keys of taints that the documents of Berth's architecture capability have. */
  readonly taintKeys: readonly string[];
}

interface Rule {
  /** Half a sentence: Berth's account may not … */
  readonly message: string;
  /** Holds for the Pod of an Instance that is being created. */
  readonly expression: string;
}

/** CEL: has the Pod an Instance as its controller? */
export const IS_OF_INSTANCE: string = [
  'request.resource.resource == "pods"',
  `${list(NOW, "metadata.ownerReferences")}.exists(o, o.apiVersion.startsWith("${instances.group}/") && o.kind == "${instances.kind}" && o.?controller.orValue(false))`,
].join(" && ");

/** What the API server and its own admission write. A Pod may be without it. */
const DEFAULTS = {
  dnsPolicy: "ClusterFirst",
  schedulerName: "default-scheduler",
  serviceAccount: "default",
  serviceAccountName: "default",
  terminationGracePeriodSeconds: 30,
};
const PRIORITY = { priority: 0, preemptionPolicy: "PreemptLowerPriority" };
const METADATA =
  "name namespace uid creationTimestamp generation managedFields labels annotations ownerReferences".split(
    " ",
  );
const LIMIT_RANGER = "kubernetes.io/limit-ranger";

const NODE_LABELS = ["kubernetes.io/arch", "kubernetes.io/os"];
const ARCHITECTURES = ["386", "amd64", "arm", "arm64", "loong64", "mips64le", "ppc64le", "riscv64", "s390x"];
const AWAY = ["node.kubernetes.io/not-ready", "node.kubernetes.io/unreachable"];

/** Sidecars need these two, in the network namespace of their Pod. */
const OF_MESHES = ["NET_ADMIN", "NET_RAW"];
const PROBES = [
  "livenessProbe",
  "readinessProbe",
  "startupProbe",
  "lifecycle.postStart",
  "lifecycle.preStop",
];
const ADDED_KEYS = "name image command args env ports volumeMounts resources securityContext".split(" ");
const ADDED_SECURITY =
  "allowPrivilegeEscalation appArmorProfile capabilities privileged readOnlyRootFilesystem runAsGroup runAsNonRoot runAsUser seccompProfile".split(
    " ",
  );

export function instanceConfinement(options: InstanceConfinement): readonly Rule[] {
  const { fleet } = options;
  const { added } = fleet.pods;
  const { spec, container } = sampleOf(fleet);
  const { containers: _, imagePullSecrets: _secrets, volumes: _volumes, ...fixed } = spec;
  const keys = [...Object.keys({ ...spec, ...DEFAULTS, ...PRIORITY }), ...MUTABLE];
  const isAdded = addedContainer(fleet);
  const inSpec = (key: string): string => field(NOW, `spec.${key}`);
  return [
    {
      message: "make Pods of Instances in this namespace: namespaceSelector of the Fleet leaves it out",
      expression: namespaces(options),
    },
    {
      message: "make this Pod: its name, owner, labels and annotations are not those of an Instance",
      expression: [
        only(`${NOW}.metadata`, METADATA),
        `${NOW}.metadata.ownerReferences.all(o, o.name == ${NOW}.metadata.name)`,
        `size(${NOW}.metadata.ownerReferences) == 1`,
        ...["labels", "annotations"].map(
          (of) => `${field(NOW, `metadata.${of}`)}.orValue({}).all(k, ${isKey(fleet)})`,
        ),
      ].join(" && "),
    },
    {
      message: "make this Pod: Pods of Instances have no such field, or another value of it",
      expression: [
        only(`${NOW}.spec`, keys),
        ...Object.entries(fixed).map(([key, value]) => `${inSpec(key)}.orValue("") == ${literal(value)}`),
        ...defaults(DEFAULTS),
        `(${inSpec("priorityClassName")}.orValue("") in ${literal(added.priorityClasses)} || !has(${NOW}.spec.priorityClassName) && ${defaults(PRIORITY).join(" && ")})`,
        `${list(NOW, "spec.schedulingGates")}.all(g, g.name == ${literal(ARCHITECTURE_GATE)})`,
        `${list(NOW, "spec.tolerations")}.all(t, ${isToleration(options)})`,
        ...affinity(),
        only(`${inSpec("resources")}.orValue({})`, ["limits", "requests"]),
      ].join(" && "),
    },
    {
      message:
        "make this Pod: it has a container that Berth does not make, and pods.added of the Fleet does not list",
      expression: [
        `${NOW}.spec.containers.all(c, ${isLikeOurs(container)} || ${isAdded})`,
        `${list(NOW, "spec.initContainers")}.all(c, ${isAdded})`,
      ].join(" && "),
    },
    {
      message:
        "make this Pod: it has a volume that is no ConfigMap or Secret, and pods.added of the Fleet does not list it",
      expression: `${list(NOW, "spec.volumes")}.all(v, ${only("v", ["name", "configMap", "secret"])} || ${addedVolume(fleet)})`,
    },
  ];
}

/** Beside what Berth makes. Their values are looked at. */
const MUTABLE = [
  "affinity",
  "initContainers",
  "priorityClassName",
  "resources",
  "schedulingGates",
  "tolerations",
];

/** CEL: the map has no other keys. */
function only(map: string, keys: readonly string[]): string {
  return `${map}.all(k, k in ${literal(keys)})`;
}

function defaults(of: object): readonly string[] {
  return Object.entries(of).map(
    ([key, value]) => `${field(NOW, `spec.${key}`)}.orValue(${literal(value)}) == ${literal(value)}`,
  );
}

/** A Pod that Berth makes, with each field that one can have. */
function sampleOf(fleet: FleetSpec): { readonly spec: PodSpec; readonly container: Container } {
  const instanceType = "sample";
  const runtime = {
    resources: { instanceType },
    sandbox: {
      containers: [{ name: "", image: "", env: [], ports: [], volumeAttachments: [] }],
      imagePullSecrets: [],
    },
  };
  const catalog = { [instanceType]: { millicores: 1, mebibytes: 1 } };
  const instance = { spec: { runtime, volumes: [], networkInterfaces: [] } };
  const built = buildPod(instance, { ...fleet, catalog });
  if ("fault" in built) throw new TypeError(built.fault);
  const { spec = { containers: [] } } = built.pod;
  return { spec, container: spec.containers[0] ?? { name: "" } };
}

function namespaces({ fleet, namespace }: InstanceConfinement): string {
  const project: Selector = {
    matchExpressions: [{ key: "meta.datumapis.com/upstream-cluster-name", operator: "Exists" }],
  };
  const selector = fleet.namespaceSelector ?? (fleet.mode === "cell" ? project : {});
  return [
    '!request.namespace.startsWith("kube-")',
    `request.namespace != ${literal(namespace)}`,
    ...selectorCel(selector, "namespaceObject"),
  ].join(" && ");
}

/** Of the key `k` of a label or annotation. */
function isKey({ template, pods }: FleetSpec): string {
  const pattern = globPattern([...template.keys, ...pods.added.keys]);
  const exact = [...CONTRACT_KEYS, LIMIT_RANGER];
  return `!k.contains("/") || k in ${literal(exact)} || k.matches(${literal(pattern)}) && !k.startsWith("${BERTH_KEYS}")`;
}

/** Of the toleration `t`: those of the API server, and those of an architecture's taint. */
function isToleration({ taintKeys }: InstanceConfinement): string {
  const effect = (is: string): string => `t.?effect.orValue("") == "${is}"`;
  return [
    `${effect("NoExecute")} && t.?key.orValue("") in ${literal(AWAY)}`,
    `${effect("NoSchedule")} && t.?operator.orValue("Equal") == "Equal" && t.?value.orValue("") in ${literal(ARCHITECTURES)}`,
    `${effect("NoSchedule")} && t.?key.orValue("") in ${literal(taintKeys)}`,
  ]
    .map((one) => `(${one})`)
    .join(" || ");
}

/** Nodes by architecture and system, and by nothing else: not by name. */
function affinity(): readonly string[] {
  const node = "spec.affinity.nodeAffinity";
  const term = (of: string): string =>
    `${only(of, ["matchExpressions"])} && ${list(of, "matchExpressions")}.all(e, e.key in ${literal(NODE_LABELS)})`;
  return [
    only(`${field(NOW, "spec.affinity")}.orValue({})`, ["nodeAffinity"]),
    `${list(NOW, `${node}.requiredDuringSchedulingIgnoredDuringExecution.nodeSelectorTerms`)}.all(t, ${term("t")})`,
    `${list(NOW, `${node}.preferredDuringSchedulingIgnoredDuringExecution`)}.all(t, ${term("t.preference")})`,
  ];
}

/** No port of the node. */
const PORTS = `${list("c", "ports")}.all(p, ${only("p", ["name", "containerPort", "protocol"])})`;
/** Nothing but CPU, memory and storage, and a limit for each. The Pod as a whole may have it. */
const LIMITS = `${["cpu", "memory"].map((name) => `("${name}" in ${field("c", "resources.limits")}.orValue({}) || "${name}" in ${field(NOW, "spec.resources.limits")}.orValue({}))`).join(" && ")} && "ephemeral-storage" in ${field("c", "resources.limits")}.orValue({})`;
const AMOUNTS = `${only(`${field("c", "resources")}.orValue({})`, ["limits", "requests"])} && ${["limits", "requests"].map((of) => only(`${field("c", `resources.${of}`)}.orValue({})`, ["cpu", "memory", "ephemeral-storage"])).join(" && ")}`;

/** Of the container `c`: could Berth have made it? */
function isLikeOurs(made: Container): string {
  return `(${[
    only("c", [...Object.keys(made), ...CONTAINER_DEFAULTS]),
    `${field("c", "securityContext")}.orValue({}) == ${literal(made.securityContext)}`,
    PORTS,
    `${list("c", "volumeMounts")}.all(m, ${only("m", ["name", "mountPath", "readOnly"])})`,
    AMOUNTS,
    LIMITS,
  ].join(" && ")})`;
}

/** Of the container `c`: has it a listed image, and no rights on its node? */
function addedContainer({ pods: { capabilities, added } }: FleetSpec): string {
  const security = (path: string): string => field("c", `securityContext.${path}`);
  return `(${[
    `${field("c", "image")}.orValue("").matches(${literal(globPattern(added.images))})`,
    only("c", [...ADDED_KEYS, "restartPolicy", "lifecycle", ...PROBES.slice(0, 3), ...CONTAINER_DEFAULTS]),
    only(`${field("c", "securityContext")}.orValue({})`, ADDED_SECURITY),
    `!${security("privileged")}.orValue(false) && !${security("allowPrivilegeEscalation")}.orValue(true)`,
    `${security("capabilities.add")}.orValue([]).all(it, it in ${literal([...capabilities, ...OF_MESHES])})`,
    ...["seccompProfile.type", "appArmorProfile.type"].map(
      (it) => `${security(it)}.orValue("RuntimeDefault") == "RuntimeDefault"`,
    ),
    PORTS,
    // The kubelet would ask any host for it, from the node.
    ...PROBES.flatMap((probe) =>
      ["httpGet", "tcpSocket"].map((how) => `!${field("c", `${probe}.${how}.host`)}.hasValue()`),
    ),
    AMOUNTS,
  ].join(" && ")})`;
}

/** Of the volume `v`: a listed name, nothing of the node, and no token for the API server. */
function addedVolume({ pods: { added } }: FleetSpec): string {
  const sources = ["configMap", "secret", "downwardAPI"];
  return `(${[
    `v.name in ${literal(added.volumes)}`,
    only("v", ["name", "emptyDir", "projected", ...sources]),
    `${list("v", "projected.sources")}.all(s, ${only("s", [...sources, "clusterTrustBundle", "serviceAccountToken"])} && (!has(s.serviceAccountToken) || s.serviceAccountToken.?audience.orValue("") in ${literal(added.audiences)}))`,
  ].join(" && ")})`;
}
