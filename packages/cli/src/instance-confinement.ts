/**
 * What Berth's account may create as the Pod of an Instance: what `buildPod` makes, what the API server fills in, what
 * Berth's own admission changes, and what the Fleet lists in `pods.added`. The policy sees the Pod after all of them.
 */
import { BERTH_KEYS, buildPod, CONTRACT_KEYS, type FleetSpec, globPattern, instances } from "@berth/fleet";
import type { PodSpec } from "@berth/kube";
import { selectorCel } from "@berth/placement";
import { and, CONTAINER_DEFAULTS, each, field, isOneOf, list, literal, NOW, only, or } from "./cel.ts";

export interface InstanceConfinement {
  readonly fleet: FleetSpec;
  /** Berth's own: its Secrets are there. */
  readonly namespace: string;
  /** Keys of taints that the documents of Berth's architecture capability have. */
  readonly taintKeys: readonly string[];
}

/** CEL: has the Pod an Instance as its controller? */
export const IS_OF_INSTANCE: string = and(
  'request.resource.resource == "pods"',
  `${list(NOW, "metadata.ownerReferences")}.exists(o, o.apiVersion.startsWith("${instances.group}/") && o.kind == "${instances.kind}" && o.?controller.orValue(false))`,
);

const words = (text: string): readonly string[] => text.split(" ");

const METADATA = words(
  "name namespace uid creationTimestamp generation managedFields labels annotations ownerReferences",
);
const LIMIT_RANGER = "kubernetes.io/limit-ranger";
/** What the API server and its own admission write. A Pod may be without it. */
const DEFAULTS = {
  dnsPolicy: "ClusterFirst",
  schedulerName: "default-scheduler",
  serviceAccount: "default",
  serviceAccountName: "default",
  terminationGracePeriodSeconds: 30,
};
const PRIORITY = { priority: 0, preemptionPolicy: "PreemptLowerPriority" };
/** Fields of a Pod beside these and what Berth makes. Their values are looked at. */
const LOOKED_AT = words("affinity initContainers priorityClassName resources schedulingGates tolerations");
const AWAY = ["node.kubernetes.io/not-ready", "node.kubernetes.io/unreachable"];
const NODE_LABELS = ["kubernetes.io/arch", "kubernetes.io/os"];
const ARCHITECTURES = words("386 amd64 arm arm64 loong64 mips64le ppc64le riscv64 s390x");
/** As the original labels the namespaces of projects. */
export const OF_PROJECTS = {
  matchExpressions: [{ key: "meta.datumapis.com/upstream-cluster-name", operator: "Exists" }],
} as const;

const AMOUNTS = ["cpu", "memory", "ephemeral-storage"];
/** Sidecars need these two, in the network namespace of their Pod. */
const OF_MESHES = ["NET_ADMIN", "NET_RAW"];
const PROBES = words("livenessProbe readinessProbe startupProbe");
const HOOKS = ["lifecycle.postStart", "lifecycle.preStop"];
const ADDED = words(
  "name image command args env lifecycle ports resources restartPolicy securityContext volumeMounts",
);
const SECURITY = words(
  "allowPrivilegeEscalation appArmorProfile capabilities privileged readOnlyRootFilesystem runAsGroup runAsNonRoot runAsUser seccompProfile",
);
const FILES = ["configMap", "secret"];
const SOURCES = [...FILES, "downwardAPI"];

/**
 * @param isGate CEL: is `g` a scheduling gate of a capability?
 * @returns what holds for a Pod of an Instance that is created. `message`: what Berth's account may not do else.
 */
export function instanceConfinement(
  { fleet, namespace, taintKeys }: InstanceConfinement,
  isGate: string,
): readonly { readonly message: string; readonly expression: string }[] {
  const { template, pods, mode } = fleet;
  const { added } = pods;
  const made = sampleOf(fleet);
  const { containers, imagePullSecrets: _secrets, volumes: _volumes, ...fixed } = made;
  const [container = { name: "" }] = containers;
  const keys = globPattern([...template.keys, ...added.keys]);
  const isKey = or(
    '!k.contains("/")',
    `k in ${literal([...CONTRACT_KEYS, LIMIT_RANGER])}`,
    `k.matches(${literal(keys)}) && !k.startsWith("${BERTH_KEYS}")`,
  );
  const isLikeOurs = and(
    only("c", [...Object.keys(container), ...CONTAINER_DEFAULTS]),
    `${field("c", "securityContext")}.orValue({}) == ${literal(container.securityContext)}`,
    each("c", "volumeMounts", `m, ${only("m", ["name", "mountPath", "readOnly"])}`),
    `"ephemeral-storage" in ${field("c", "resources.limits")}.orValue({})`,
    ...["cpu", "memory"].map((name) =>
      or(...[`c`, `${NOW}.spec`].map((of) => `"${name}" in ${field(of, "resources.limits")}.orValue({})`)),
    ),
    IS_BOUNDED,
  );
  const isAdded = and(
    `${field("c", "image")}.orValue("").matches(${literal(globPattern(added.images))})`,
    only("c", [...ADDED, ...PROBES, ...CONTAINER_DEFAULTS]),
    ...unprivileged([...pods.capabilities, ...OF_MESHES]),
    // The kubelet would ask any host for it, from the node.
    ...[...PROBES, ...HOOKS].flatMap((probe) =>
      ["httpGet", "tcpSocket"].map((how) => `!${field("c", `${probe}.${how}.host`)}.hasValue()`),
    ),
    IS_BOUNDED,
  );
  const isSource = and(
    only("s", [...SOURCES, "clusterTrustBundle", "serviceAccountToken"]),
    or("!has(s.serviceAccountToken)", isOneOf("s", "serviceAccountToken.audience", added.audiences)),
  );
  return [
    {
      message: "make Pods of Instances in this namespace: namespaceSelector of the Fleet leaves it out",
      expression: and(
        '!request.namespace.startsWith("kube-")',
        `request.namespace != ${literal(namespace)}`,
        ...selectorCel(fleet.namespaceSelector ?? (mode === "cell" ? OF_PROJECTS : {}), "namespaceObject"),
      ),
    },
    {
      message: "make this Pod: its name, owner, labels and annotations are not those of an Instance",
      expression: and(
        only(`${NOW}.metadata`, METADATA),
        `size(${NOW}.metadata.ownerReferences) == 1`,
        each(NOW, "metadata.ownerReferences", `o, o.name == ${NOW}.metadata.name`),
        ...["labels", "annotations"].map(
          (of) => `${field(NOW, `metadata.${of}`)}.orValue({}).all(k, ${isKey})`,
        ),
      ),
    },
    {
      message: "make this Pod: Pods of Instances have no such field, or another value of it",
      expression: and(
        only(`${NOW}.spec`, [...Object.keys({ ...made, ...DEFAULTS, ...PRIORITY }), ...LOOKED_AT]),
        ...Object.entries(fixed).map(([key, value]) => isOneOf(NOW, `spec.${key}`, [value])),
        ...defaults(DEFAULTS),
        or(
          isOneOf(NOW, "spec.priorityClassName", added.priorityClasses),
          and(isOneOf(NOW, "spec.priorityClassName", [""]), ...defaults(PRIORITY)),
        ),
        each(NOW, "spec.schedulingGates", `g, ${isGate}`),
        each(NOW, "spec.tolerations", `t, ${isToleration(taintKeys)}`),
        ...affinity(),
      ),
    },
    {
      message:
        "make this Pod: it has a container that Berth does not make, and pods.added of the Fleet does not list",
      expression: and(
        each(NOW, "spec.containers", `c, ${or(isLikeOurs, isAdded)}`),
        each(NOW, "spec.initContainers", `c, ${isAdded}`),
      ),
    },
    {
      message:
        "make this Pod: it has a volume that is no ConfigMap or Secret, and pods.added of the Fleet does not list it",
      expression: each(
        NOW,
        "spec.volumes",
        `v, ${or(
          only("v", ["name", ...FILES]),
          and(
            isOneOf("v", "name", added.volumes),
            only("v", ["name", "emptyDir", "projected", ...SOURCES]),
            each("v", "projected.sources", `s, ${isSource}`),
          ),
        )}`,
      ),
    },
  ];
}

/** The spec of a Pod that Berth makes, with each field that one can have. */
function sampleOf(fleet: FleetSpec): PodSpec {
  const container = { name: "", image: "", env: [], ports: [], volumeAttachments: [] };
  const runtime = {
    resources: { instanceType: "sample" },
    sandbox: { containers: [container], imagePullSecrets: [] },
  };
  const catalog = { sample: { millicores: 1, mebibytes: 1 } };
  const instance = { spec: { runtime, volumes: [], networkInterfaces: [] } };
  const built = buildPod(instance, { ...fleet, catalog });
  if ("fault" in built || built.pod.spec === undefined) throw new TypeError("Berth makes no Pods");
  return built.pod.spec;
}

function defaults(of: object): readonly string[] {
  return Object.entries(of).map(([key, value]) => isOneOf(NOW, `spec.${key}`, ["", value]));
}

/** Of the toleration `t`: those of the API server, and those of an architecture's taint. */
function isToleration(taintKeys: readonly string[]): string {
  const isFor = (effect: string): string => isOneOf("t", "effect", [effect]);
  return or(
    and(isFor("NoExecute"), isOneOf("t", "key", AWAY)),
    and(isFor("NoSchedule"), isOneOf("t", "operator", ["", "Equal"]), isOneOf("t", "value", ARCHITECTURES)),
    and(isFor("NoSchedule"), isOneOf("t", "key", taintKeys)),
  );
}

/** Nodes by architecture and system, and by nothing else: not by name. */
function affinity(): readonly string[] {
  const node = "spec.affinity.nodeAffinity";
  const isTerm = (of: string): string =>
    and(only(of, ["matchExpressions"]), each(of, "matchExpressions", `e, e.key in ${literal(NODE_LABELS)}`));
  return [
    only(`${field(NOW, "spec.affinity")}.orValue({})`, ["nodeAffinity"]),
    each(
      NOW,
      `${node}.requiredDuringSchedulingIgnoredDuringExecution.nodeSelectorTerms`,
      `t, ${isTerm("t")}`,
    ),
    each(NOW, `${node}.preferredDuringSchedulingIgnoredDuringExecution`, `t, ${isTerm("t.preference")}`),
  ];
}

/** Of the container `c`: no port of the node, and nothing but CPU, memory and storage. A limit of 0 is none. */
const IS_BOUNDED = and(
  each("c", "ports", `p, ${only("p", ["name", "containerPort", "protocol"])}`),
  only(`${field("c", "resources")}.orValue({})`, ["limits", "requests"]),
  ...["limits", "requests"].map((of) => only(`${field("c", `resources.${of}`)}.orValue({})`, AMOUNTS)),
  `${field("c", "resources.limits")}.orValue({}).all(k, c.resources.limits[k] != "0")`,
);

/** Of the container `c` that another webhook adds. */
function unprivileged(capabilities: readonly string[]): readonly string[] {
  const at = "securityContext";
  return [
    only(`${field("c", at)}.orValue({})`, SECURITY),
    isOneOf("c", `${at}.privileged`, ["", false]),
    isOneOf("c", `${at}.allowPrivilegeEscalation`, [false]),
    each("c", `${at}.capabilities.add`, `it, it in ${literal(capabilities)}`),
    ...["seccompProfile", "appArmorProfile"].map((profile) =>
      isOneOf("c", `${at}.${profile}.type`, ["", "RuntimeDefault"]),
    ),
  ];
}
