/** The Deployment of Berth, and the files in its pods. */
import { posix as path } from "node:path";
import type { ConfigMap, Deployment } from "@berth/kube";
import { type PodPatch, type PodSpec, patchPod } from "./pod-patch.ts";

/** Folders of Berth's pods: label rules, configuration documents, and the configuration of datum-cloud/compute. */
export const LABELS_PATH = "/labels";
export const DOCUMENTS_PATH = "/etc/berth/config";
export const OPERATOR_PATH = "/etc/berth/operator";

/** The user `nonroot` of Distroless images. */
const NON_ROOT = 65_532;
/** Longer than a Service takes to leave out a pod that ends. */
const PRE_STOP_SECONDS = 3;

/** A ConfigMap holds at most 1 MiB. This limit leaves room for its metadata. */
const MAX_RULES_BYTES = 1_000_000;

export interface PodOptions {
  readonly image: string;
  readonly namespace: string;
  readonly installation: string;
  readonly replicas: number;
  /** Label rules by label key. */
  readonly rules: ReadonlyMap<string, string>;
  /** Configuration documents, and certificates that they name, by file name. Default none. */
  readonly documents?: ReadonlyMap<string, string>;
  /** The `WorkloadOperator`, by file name. Default none. */
  readonly operator?: ReadonlyMap<string, string>;
  /** Further arguments of `berth run`. Default none. */
  readonly flags?: readonly string[];
  /** Secrets with files that the configuration names. Default none. */
  readonly secrets?: readonly MountedSecret[];
  /** Where Berth listens, if the configuration says it. */
  readonly ports?: { readonly metrics: number | undefined; readonly webhook: number | undefined };
  /** Keys of taints with the effect NoExecute that Berth itself takes off nodes. Default none. */
  readonly evictingTaints?: Iterable<string>;
  /** Merged into the pod template. A service account that it names gets the roles and is not printed. Default none. */
  readonly patch?: PodPatch;
}

export interface MountedSecret {
  /** Of the volume. */
  readonly name: string;
  readonly secret: string;
  /** Absolute, in the pod. */
  readonly folder: string;
  /** The files that are read there. */
  readonly keys: readonly string[];
}

type Volume = NonNullable<PodSpec["volumes"]>[number];

interface Mount {
  readonly name: string;
  readonly mountPath: string;
  /** Of a ConfigMap. */
  readonly files?: ReadonlyMap<string, string>;
  readonly secrets?: readonly MountedSecret[];
}

/** Folders cannot be mounted inside each other: the files of a Secret may have to appear among those of a ConfigMap. */
export function mountsOf({ rules, documents, operator, secrets = [] }: PodOptions): readonly Mount[] {
  const mounts: Mount[] = [{ name: "labels", mountPath: LABELS_PATH, files: rules }];
  if (documents !== undefined) mounts.push({ name: "config", mountPath: DOCUMENTS_PATH, files: documents });
  if (operator !== undefined) mounts.push({ name: "operator", mountPath: OPERATOR_PATH, files: operator });
  for (const secret of secrets) {
    const at = mounts.findIndex(({ mountPath }) => `${secret.folder}/`.startsWith(`${mountPath}/`));
    const own = mounts[at] ?? { name: secret.name, mountPath: secret.folder };
    mounts.splice(at < 0 ? mounts.length : at, 1, { ...own, secrets: [...(own.secrets ?? []), secret] });
  }
  return mounts;
}

/** ConfigMap keys cannot contain `/`, so the Deployment mounts each key under its path. */
export function filesConfigMap(
  { name, files = new Map() }: Mount,
  metadata: ConfigMap["metadata"],
): ConfigMap {
  const data = Object.fromEntries([...files].map(([path, text]) => [toDataKey(path), text]));
  const bytes = Buffer.byteLength(JSON.stringify(data));
  if (bytes > MAX_RULES_BYTES) {
    throw new RangeError(
      `the files of ${name} take ${bytes} bytes, and a ConfigMap holds ${MAX_RULES_BYTES}`,
    );
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

export type Own = {
  readonly name: string;
  readonly namespace: string;
  readonly labels: Readonly<Record<string, string>>;
};

export function deployment(options: PodOptions, own: Own): Deployment {
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

function podSpec(options: PodOptions, { name, labels }: Own): PodSpec {
  const { image, namespace, installation, replicas, operator, flags = [], ports } = options;
  const mounts = mountsOf(options);
  const field = (path: string, env: string) => ({ name: env, valueFrom: { fieldRef: { fieldPath: path } } });
  const probe = (path: string) => ({
    httpGet: { path, port: "health" },
    periodSeconds: 5,
    timeoutSeconds: 3,
  });
  const spread = (topologyKey: string) => ({
    maxSkew: 1,
    topologyKey,
    labelSelector: { matchLabels: labels },
  });
  return {
    serviceAccountName: name,
    tolerations: tolerations(options.evictingTaints ?? []),
    nodeSelector: { "kubernetes.io/os": "linux" },
    // Gated nodes and marked pods wait for Berth, so only components of the cluster itself come first.
    priorityClassName: "system-cluster-critical",
    topologySpreadConstraints: [
      {
        ...spread("kubernetes.io/hostname"),
        whenUnsatisfiable: "DoNotSchedule",
        // A rolling update ends: old and new pods may share a node meanwhile.
        matchLabelKeys: ["pod-template-hash"],
        // A node whose taint keeps Berth off does not count as a free one.
        nodeTaintsPolicy: "Honor",
      },
      // Nodes without a zone count as one zone.
      { ...spread("topology.kubernetes.io/zone"), whenUnsatisfiable: "ScheduleAnyway" },
    ],
    // A pod that ends on a lost node counts here, and not above: its successor goes elsewhere if it can.
    affinity: {
      podAntiAffinity: {
        preferredDuringSchedulingIgnoredDuringExecution: [
          {
            weight: 100,
            podAffinityTerm: {
              topologyKey: "kubernetes.io/hostname",
              labelSelector: { matchLabels: labels },
            },
          },
        ],
      },
    },
    terminationGracePeriodSeconds: PRE_STOP_SECONDS + 10,
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
          ...(options.documents === undefined ? [] : [`--config=${DOCUMENTS_PATH}`]),
          ...[...(operator?.keys() ?? [])].map((file) => `--server-config=${OPERATOR_PATH}/${file}`),
          ...flags,
          `--namespace=${namespace}`,
          `--installation=${installation}`,
          ...(replicas > 1 ? ["--leader-elect"] : []),
        ],
        env: [field("metadata.name", "POD_NAME"), field("metadata.uid", "POD_UID")],
        ports: [
          { name: "metrics", containerPort: ports?.metrics ?? 8080 },
          { name: "health", containerPort: 8081 },
          { name: "webhook", containerPort: ports?.webhook ?? 8443 },
        ],
        // Two minutes: on a busy node, reading all nodes and pods takes long.
        startupProbe: { ...probe("/healthz"), failureThreshold: 24 },
        // The API server asks a pod for a moment longer than it is part of the Service. Needs Kubernetes 1.30.
        lifecycle: { preStop: { sleep: { seconds: PRE_STOP_SECONDS } } },
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
    volumes: mounts.map((mount) => volumeOf(mount, `${name}-${mount.name}`)),
  };
}

/**
 * Berth must run where other pods may not run yet: on new, tainted and not ready nodes, also behind its own gates. From
 * a lost node its pods go after five minutes, as all others do: a toleration without end would keep them there.
 */
function tolerations(evictingTaints: Iterable<string>): NonNullable<PodSpec["tolerations"]> {
  const evicted = (key: string) => ({ key, operator: "Exists", effect: "NoExecute" }) as const;
  const gone = { tolerationSeconds: 300 };
  return [
    { operator: "Exists", effect: "NoSchedule" },
    ...Array.from(new Set(evictingTaints), evicted),
    { ...evicted("node.kubernetes.io/not-ready"), ...gone },
    { ...evicted("node.kubernetes.io/unreachable"), ...gone },
  ];
}

/** @param configMap the name of the one with its files. */
function volumeOf({ name, mountPath, files, secrets = [] }: Mount, configMap: string): Volume {
  const items = [...(files?.keys() ?? [])].map((path) => ({ key: toDataKey(path), path }));
  const source = { name: configMap, ...(items.length > 0 && { items }) };
  const [first, second] = secrets;
  if (first === undefined) return { name, configMap: source };
  // Without the Secret the pod starts all the same, and Berth names the file that it misses.
  if (files === undefined && second === undefined)
    return { name, secret: { secretName: first.secret, optional: true } };
  const projected = secrets.map(({ secret, folder, keys }) => {
    const under = path.relative(mountPath, folder);
    const shown = keys.map((key) => ({ key, path: path.join(under, key) }));
    return { secret: { name: secret, optional: true, items: shown } };
  });
  return { name, projected: { sources: [...(files ? [{ configMap: source }] : []), ...projected] } };
}
