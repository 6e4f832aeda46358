import { fleetKind } from "@berth/fleet";
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

/** The owners that a footprint with the agent-substrate preset holds. A user may create it in the cluster later. */
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
  /** Configuration documents, and certificates that they name, by file name. Default none. */
  readonly documents?: ReadonlyMap<string, string>;
  /** Rights beyond those of every installation. Default none. */
  readonly rights?: ExtraRights;
  /** Confines Berth's account to the fields that it writes. Needs Kubernetes 1.30. Default true. */
  readonly confinement?: boolean;
  /** Merged into the pod template. A service account that it names gets the roles and is not printed. Default none. */
  readonly patch?: PodPatch;
  /** Addresses of the API servers: only they can reach the webhook. Default: every client can. */
  readonly apiServerCidrs?: readonly string[];
}

/** Namespaces that Kubernetes creates. Not printed: their pods do not meet the policy of Berth's Namespace. */
const MADE_BY_KUBERNETES = /^(?:default|kube-(?:system|public|node-lease))$/;

/** A ConfigMap holds at most 1 MiB. This limit leaves room for its metadata. */
const MAX_RULES_BYTES = 1_000_000;

/** Folders of label rules and of configuration documents in Berth's pods. */
export const LABELS_PATH = "/labels";
export const DOCUMENTS_PATH = "/etc/berth/config";

/** The user `nonroot` of Distroless images. */
const NON_ROOT = 65_532;

/**
 * All objects that run Berth on a cluster, in the order of creation. Roles hold exactly the rights that Berth uses: a
 * test runs Berth with them. CRDs are separate. They must exist first, several installations may share them, and
 * deleting them deletes all rules.
 *
 * @throws RangeError when the rules or documents do not fit into a ConfigMap; CommandError for an invalid CIDR.
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
    // Created before the rights that it limits.
    ...(options.confinement === false
      ? []
      : confinement({
          metadata: { name: `${name}-confinement`, labels },
          username: `system:serviceaccount:${namespace}:${subject.name}`,
          holds: [...(given === undefined ? [] : holdsOf(given)), ...(hasPools ? [poolHold] : [])],
          pools,
          runsInstances: given?.specOf(fleetKind)?.provider === "pods",
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

/** Limits a drain to one pod at a time, so that the webhook answers and another replica can lead. */
function disruptionBudget({ labels, ...own }: Own): PodDisruptionBudget {
  return {
    apiVersion: "policy/v1",
    kind: "PodDisruptionBudget",
    metadata: { ...own, labels },
    spec: { maxUnavailable: 1, selector: { matchLabels: labels } },
  };
}

/** Namespace labels. Berth's pods meet the strictest Pod Security Standard. */
const policy = { "pod-security.kubernetes.io/enforce": "restricted" };

/** The Service of the webhook. The ports are the defaults of `run`, and those of nodetaintshandler. */
function webhookService({ name, namespace, labels }: Own): Service {
  return {
    apiVersion: "v1",
    kind: "Service",
    metadata: { name: `${name}-webhook`, namespace, labels },
    spec: { selector: labels, ports: [{ name: "webhook", port: 443, targetPort: "webhook" }] },
  };
}

/** ConfigMap keys cannot contain `/`, so the Deployment mounts each key under its path. */
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

/** `accelerators/edgetpu` → `accelerators_edgetpu`. Replaces characters outside `[-._a-zA-Z0-9]` by their code. */
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
      // With one replica, the old pod ends before the new one starts. With several replicas, the Lease decides.
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
    // Berth must run where other pods may not run yet: on new, tainted and not ready nodes, also behind its own gates.
    tolerations: [{ operator: "Exists" }],
    nodeSelector: { "kubernetes.io/os": "linux" },
    // Gated nodes and marked pods wait for Berth, so only components of the cluster itself come first.
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
