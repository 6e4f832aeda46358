import type {
  ClusterRole,
  ClusterRoleBinding,
  ConfigMap,
  Deployment,
  KubeObject,
  Namespace,
  PodDisruptionBudget,
  PolicyRule,
  Role,
  RoleBinding,
  Service,
  ServiceAccount,
} from "@berth/kube";
import { holdsOf, type OwnerHold, originalFootprint, workerPoolsKind } from "@berth/placement";
import { confinement } from "./confinement.ts";
import { clusterRoles, type ExtraRights, namespaceRules } from "./manifests-rights.ts";
import { webhookNetworkPolicy } from "./network-policy.ts";
import { type PodPatch, type PodSpec, patchPod } from "./pod-patch.ts";

/** What a footprint with the preset of agent-substrate holds; it may be made in the cluster later. */
const poolHold: OwnerHold = {
  resource: originalFootprint.owners,
  finalizer: originalFootprint.finalizer,
  ownedResources: [{ group: "apps", version: "v1", resource: "deployments" }],
  onDelete: "DeleteOwned",
};

export interface InstallOptions {
  readonly image: string;
  readonly namespace: string;
  readonly installation: string;
  readonly replicas: number;
  /** Label rules by label key. */
  readonly rules: ReadonlyMap<string, string>;
  /** Configuration documents, and certificates that they name, by file. Default none. */
  readonly documents?: ReadonlyMap<string, string>;
  /** Beyond what every installation has. Default none. */
  readonly rights?: ExtraRights;
  /** Is its account confined to the fields that it writes? Kubernetes before 1.30 cannot. Default true. */
  readonly confinement?: boolean;
  /** Merged into the pod template. A service account that it names is not made, and gets the roles. Default none. */
  readonly patch?: PodPatch;
  /** Addresses of the API servers: only they reach the webhook. Default: everybody does, for they are not known. */
  readonly apiServerCidrs?: readonly string[];
}

/** Kubernetes makes these. They are not printed: their pods do not meet the policy that our Namespace enforces. */
const MADE_BY_KUBERNETES = /^(?:default|kube-(?:system|public|node-lease))$/;

/** A ConfigMap holds at most 1 MiB; with room for its metadata. */
const MAX_RULES_BYTES = 1_000_000;

/** Where label rules and configuration documents are in its pods. */
export const LABELS_PATH = "/labels";
export const DOCUMENTS_PATH = "/etc/berth/config";

/** Distroless' `nonroot`. */
const NON_ROOT = 65_532;

/**
 * Everything that runs Berth on a cluster, in the order in which it must be created. Roles hold exactly what is used:
 * a test runs Berth with them. The CRDs are not among them: they come first, may be shared by several installations, and
 * deleting them deletes all rules.
 *
 * @throws RangeError when the rules, or the documents, do not fit into a ConfigMap; CommandError for a CIDR that is none.
 */
export function installManifests(options: InstallOptions): readonly KubeObject[] {
  const { namespace, installation, rights = {} } = options;
  const { documents: given } = rights;
  const pools = given?.specOf(workerPoolsKind);
  const hasPools = pools !== undefined || rights.flags?.has("workerPools") === true;
  const name = installation === "berth" ? "berth" : `berth-${installation}`;
  const labels = { "app.kubernetes.io/name": "berth", "app.kubernetes.io/instance": installation };
  const own = { name, namespace, labels };
  const { serviceAccountName } = options.patch?.spec ?? {};
  const subject = { kind: "ServiceAccount", name: serviceAccountName ?? name, namespace } as const;
  const rbac = "rbac.authorization.k8s.io";
  const space: Namespace = {
    apiVersion: "v1",
    kind: "Namespace",
    metadata: { name: namespace, labels: policy },
  };
  const account: ServiceAccount = { apiVersion: "v1", kind: "ServiceAccount", metadata: own };
  const clusterWide = (roleName: string, rules: readonly PolicyRule[]): [ClusterRole, ClusterRoleBinding] => {
    const metadata = { name: roleName, labels };
    const roleRef = { apiGroup: rbac, kind: "ClusterRole", name: roleName };
    const apiVersion = `${rbac}/v1`;
    return [
      { apiVersion, kind: "ClusterRole", metadata, rules },
      { apiVersion, kind: "ClusterRoleBinding", metadata, roleRef, subjects: [subject] },
    ];
  };
  const role: Role = {
    apiVersion: `${rbac}/v1`,
    kind: "Role",
    metadata: own,
    rules: namespaceRules(own, rights),
  };
  const binding: RoleBinding = {
    apiVersion: `${rbac}/v1`,
    kind: "RoleBinding",
    metadata: own,
    roleRef: { apiGroup: rbac, kind: "Role", name },
    subjects: [subject],
  };
  const files = [filesConfigMap("rules", options.rules, { ...own, name: `${name}-labels` })];
  const { documents } = options;
  if (documents !== undefined)
    files.push(filesConfigMap("documents", documents, { ...own, name: `${name}-config` }));
  const access = [
    ...(MADE_BY_KUBERNETES.test(namespace) ? [] : [space]),
    ...(serviceAccountName === undefined ? [account] : []),
    // Before the rights that it bounds.
    ...(options.confinement === false
      ? []
      : confinement({
          metadata: { name: `${name}-confinement`, labels },
          username: `system:serviceaccount:${namespace}:${subject.name}`,
          holds: [...(given === undefined ? [] : holdsOf(given)), ...(hasPools ? [poolHold] : [])],
          pools,
        })),
    ...clusterRoles(name, rights).flatMap(({ suffix, rules }) =>
      clusterWide(suffix === "" ? name : `${name}-${suffix}`, rules),
    ),
    role,
    binding,
  ];
  const { apiServerCidrs = [] } = options;
  const closed = apiServerCidrs.length > 0 ? [webhookNetworkPolicy(own, apiServerCidrs)] : [];
  const spread = options.replicas > 1 ? [disruptionBudget(own)] : [];
  return [...access, ...files, webhookService(own), ...closed, ...spread, deployment(options, own)];
}

/** One at a time is drained: the webhook answers, and a leader stands by. */
function disruptionBudget({ labels, ...own }: Own): PodDisruptionBudget {
  return {
    apiVersion: "policy/v1",
    kind: "PodDisruptionBudget",
    metadata: { ...own, labels },
    spec: { maxUnavailable: 1, selector: { matchLabels: labels } },
  };
}

/** The pods meet the strictest Pod Security Standard. */
const policy = { "pod-security.kubernetes.io/enforce": "restricted" };

/** Where the API server finds the webhook: the ports that `run` listens on by default, and that nodetaintshandler had. */
function webhookService({ name, namespace, labels }: Own): Service {
  return {
    apiVersion: "v1",
    kind: "Service",
    metadata: { name: `${name}-webhook`, namespace, labels },
    spec: { selector: labels, ports: [{ name: "webhook", port: 443, targetPort: "webhook" }] },
  };
}

/** Keys of a ConfigMap hold no `/`: the Deployment mounts each under its path. */
function filesConfigMap(
  what: "rules" | "documents",
  files: ReadonlyMap<string, string>,
  metadata: ConfigMap["metadata"],
): ConfigMap {
  const data = Object.fromEntries([...files].map(([path, text]) => [toDataKey(path), text]));
  const bytes = Buffer.byteLength(JSON.stringify(data));
  if (bytes > MAX_RULES_BYTES) {
    throw new RangeError(`the ${what} take ${bytes} bytes, and a ConfigMap holds ${MAX_RULES_BYTES}`);
  }
  return {
    apiVersion: "v1",
    kind: "ConfigMap",
    ...(metadata && { metadata }),
    ...(files.size > 0 && { data }),
  };
}

/** `accelerators/edgetpu` → `accelerators_edgetpu`; what else is not allowed in a key (`[-._a-zA-Z0-9]`) as its code. */
function toDataKey(path: string): string {
  return path
    .replaceAll("_", "__")
    .replaceAll("/", "_")
    .replace(/[^-._a-zA-Z0-9]/g, (it) => `_x${it.codePointAt(0)?.toString(16)}`);
}

type Own = {
  readonly name: string;
  readonly namespace: string;
  readonly labels: Readonly<Record<string, string>>;
};

function deployment(options: InstallOptions, own: Own): Deployment {
  const { replicas, patch = {} } = options;
  const selector = own.labels;
  return {
    apiVersion: "apps/v1",
    kind: "Deployment",
    metadata: own,
    spec: {
      replicas,
      selector: { matchLabels: selector },
      // With one replica the old one ends before the new one begins; with more the Lease decides.
      strategy: replicas === 1 ? { type: "Recreate" } : { type: "RollingUpdate" },
      template: patchPod(selector, podSpec(options, own), patch),
    },
  };
}

function podSpec(
  { image, namespace, installation, replicas, rules, documents }: InstallOptions,
  { name, labels }: Own,
): PodSpec {
  const mounts = [{ name: "labels", mountPath: LABELS_PATH, files: rules }];
  if (documents !== undefined) mounts.push({ name: "config", mountPath: DOCUMENTS_PATH, files: documents });
  const field = (path: string, env: string) => ({ name: env, valueFrom: { fieldRef: { fieldPath: path } } });
  const probe = (path: string) => ({ httpGet: { path, port: "health" }, periodSeconds: 5 });
  return {
    serviceAccountName: name,
    // It has to run where nothing else may run yet: on fresh, tainted and not ready nodes, its own gates included.
    tolerations: [{ operator: "Exists" }],
    nodeSelector: { "kubernetes.io/os": "linux" },
    // What it gates and marks waits for it: nothing but the cluster itself goes before.
    priorityClassName: "system-cluster-critical",
    topologySpreadConstraints: ["kubernetes.io/hostname", "topology.kubernetes.io/zone"].map(
      (topologyKey) => ({
        maxSkew: 1,
        topologyKey,
        whenUnsatisfiable: "ScheduleAnyway",
        labelSelector: { matchLabels: labels },
      }),
    ),
    terminationGracePeriodSeconds: 10,
    securityContext: {
      runAsNonRoot: true,
      runAsUser: NON_ROOT,
      runAsGroup: NON_ROOT,
      fsGroup: NON_ROOT,
      seccompProfile: { type: "RuntimeDefault" },
    },
    containers: [
      {
        name: "berth",
        image,
        args: [
          "run",
          `--label-dir=${LABELS_PATH}`,
          ...(documents === undefined ? [] : [`--config=${DOCUMENTS_PATH}`]),
          `--namespace=${namespace}`,
          `--installation=${installation}`,
          ...(replicas > 1 ? ["--leader-elect"] : []),
        ],
        env: [field("metadata.name", "POD_NAME"), field("metadata.uid", "POD_UID")],
        ports: [
          { name: "metrics", containerPort: 8080 },
          { name: "health", containerPort: 8081 },
          { name: "webhook", containerPort: 8443 },
        ],
        livenessProbe: { ...probe("/healthz"), failureThreshold: 6 },
        readinessProbe: probe("/readyz"),
        resources: { requests: { cpu: "20m", memory: "96Mi" }, limits: { memory: "512Mi" } },
        securityContext: {
          allowPrivilegeEscalation: false,
          readOnlyRootFilesystem: true,
          capabilities: { drop: ["ALL"] },
        },
        volumeMounts: mounts.map((mount) => ({
          name: mount.name,
          mountPath: mount.mountPath,
          readOnly: true,
        })),
      },
    ],
    volumes: mounts.map((mount) => {
      const items = [...mount.files.keys()].map((path) => ({ key: toDataKey(path), path }));
      const configMap = { name: `${name}-${mount.name}`, ...(items.length > 0 && { items }) };
      return { name: mount.name, configMap };
    }),
  };
}
