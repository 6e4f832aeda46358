/**
 * Fills a Node or a Pod to the size it has in a busy cluster, for benchmarks: what costs a cache its memory and a
 * decoder its time is this text, not the fields a rule reads. Everything follows from the object's name.
 */
import { createHash } from "node:crypto";
import type { Container, ContainerImage, EnvVar, Node, Pod, Probe, Volume } from "@berth/kube";

/** How many images a kubelet reports at most is 50 (`--node-status-max-images`); 30 with digests make 9 KB in all. */
const IMAGES = 30;
const VARIABLES = 30;

/** The node with images, labels and annotations as a cloud's kubelet and its agents leave them: about 9 KB. */
export function realisticNode(node: Node): Node {
  const name = node.metadata?.name ?? "";
  const nodeInfo = node.status?.nodeInfo;
  return {
    ...node,
    metadata: {
      ...node.metadata,
      labels: {
        "node.kubernetes.io/instance-type": "m7g.8xlarge",
        "topology.kubernetes.io/region": "eu-central-1",
        "topology.kubernetes.io/zone": `eu-central-1${"abc".charAt(Number.parseInt(digest(name, 1), 16) % 3)}`,
        "example.com/pool": "general-purpose",
        "example.com/capacity-type": "on-demand",
        "example.com/os-image": "minimal-2026.01",
        ...node.metadata?.labels,
      },
      annotations: {
        "node.alpha.kubernetes.io/ttl": "0",
        "volumes.kubernetes.io/controller-managed-attach-detach": "true",
        "csi.volume.kubernetes.io/nodeid": JSON.stringify({ "ebs.csi.example.com": `i-${digest(name, 17)}` }),
        "example.com/bootstrap": JSON.stringify({
          revision: digest(`${name}-bootstrap`, 40),
          phases: PHASES,
        }),
        ...node.metadata?.annotations,
      },
    },
    spec: { providerID: `example:///eu-central-1/i-${digest(name, 17)}`, ...node.spec },
    status: {
      ...node.status,
      images: Array.from({ length: IMAGES }, (_, index) => image(index)),
      ...(nodeInfo
        ? {
            nodeInfo: {
              ...nodeInfo,
              machineID: digest(`${name}-machine`, 32),
              bootID: uuid(`${name}-boot`),
              systemUUID: uuid(`${name}-system`),
            },
          }
        : {}),
      daemonEndpoints: { kubeletEndpoint: { Port: 10250 } },
      volumesInUse: Array.from({ length: 4 }, (_, index) => volumeName(`${name}-${index}`)),
      volumesAttached: Array.from({ length: 4 }, (_, index) => ({
        name: volumeName(`${name}-${index}`),
        devicePath: `/dev/nvme${index + 1}n1`,
      })),
    },
  };
}

const PHASES: readonly string[] = ["disk", "network", "runtime", "kubelet", "agents"];

/** The pod with a sidecar, probes, variables and volumes, as a deployment tool renders it: about 11 KB. */
export function realisticPod(pod: Pod): Pod {
  const name = pod.metadata?.name ?? "";
  const containers = [...(pod.spec?.containers ?? []), { name: "proxy", image: image(90).names?.[0] ?? "" }];
  return {
    ...pod,
    metadata: {
      ...pod.metadata,
      labels: {
        "app.kubernetes.io/name": "shop",
        "app.kubernetes.io/instance": `shop-${digest(name, 6)}`,
        "app.kubernetes.io/managed-by": "Helm",
        "pod-template-hash": digest(`${name}-template`, 10),
        ...pod.metadata?.labels,
      },
      annotations: {
        "example.com/config-checksum": digest(`${name}-config`, 64),
        "example.com/scrape": JSON.stringify({ port: 9090, path: "/metrics", everySeconds: 30 }),
        ...pod.metadata?.annotations,
      },
    },
    spec: {
      ...pod.spec,
      containers: containers.map((container, index) => realisticContainer(container, `${name}-${index}`)),
      volumes: VOLUMES,
      terminationGracePeriodSeconds: 60,
      dnsPolicy: "ClusterFirst",
      restartPolicy: "Always",
      tolerations: [
        ...(pod.spec?.tolerations ?? []),
        {
          key: "node.kubernetes.io/not-ready",
          operator: "Exists",
          effect: "NoExecute",
          tolerationSeconds: 300,
        },
        {
          key: "node.kubernetes.io/unreachable",
          operator: "Exists",
          effect: "NoExecute",
          tolerationSeconds: 300,
        },
      ],
    },
  };
}

const VOLUMES: readonly Volume[] = [
  { name: "config", configMap: { name: "shop-config", defaultMode: 0o644 } },
  { name: "secrets", secret: { secretName: "shop-secrets", defaultMode: 0o400 } },
  { name: "scratch", emptyDir: { sizeLimit: "1Gi" } },
];

function realisticContainer(container: Container, seed: string): Container {
  return {
    ...container,
    command: ["/usr/local/bin/server"],
    args: ["--listen=:8080", "--config=/etc/shop/config.yaml", "--log-format=json", "--shutdown-after=45s"],
    ports: [
      { name: "http", containerPort: 8080, protocol: "TCP" },
      { name: "metrics", containerPort: 9090, protocol: "TCP" },
    ],
    env: Array.from({ length: VARIABLES }, (_, index) => variable(seed, index)),
    resources: {
      limits: { memory: "1Gi" },
      ...container.resources,
      requests: { cpu: "10m", memory: "16Mi", ...container.resources?.requests },
    },
    volumeMounts: [
      { name: "config", mountPath: "/etc/shop", readOnly: true },
      { name: "secrets", mountPath: "/var/run/secrets/shop", readOnly: true },
      { name: "scratch", mountPath: "/tmp" },
    ],
    livenessProbe: probe("/livez", 10),
    readinessProbe: probe("/readyz", 5),
    startupProbe: probe("/startupz", 2),
    securityContext: {
      allowPrivilegeEscalation: false,
      readOnlyRootFilesystem: true,
      runAsNonRoot: true,
      capabilities: { drop: ["ALL"] },
    },
    imagePullPolicy: "IfNotPresent",
    terminationMessagePath: "/dev/termination-log",
    terminationMessagePolicy: "FallbackToLogsOnError",
  };
}

function variable(seed: string, index: number): EnvVar {
  if (index % 6 === 0)
    return { name: `FIELD_${index}`, valueFrom: { fieldRef: { fieldPath: "metadata.uid" } } };
  if (index % 6 === 1) {
    return {
      name: `SECRET_${index}`,
      valueFrom: { secretKeyRef: { name: "shop-secrets", key: `key-${index}` } },
    };
  }
  return {
    name: `SETTING_${index}_ENDPOINT`,
    value: `https://backend-${index}.shop.svc.cluster.local:8443/api/v2?checksum=${digest(`${seed}-${index}`, 40)}`,
  };
}

function probe(path: string, periodSeconds: number): Probe {
  return {
    httpGet: { path, port: 8080, scheme: "HTTP" },
    periodSeconds,
    timeoutSeconds: 1,
    successThreshold: 1,
    failureThreshold: 3,
  };
}

function image(index: number): ContainerImage {
  const repository = `registry.example.com/platform/team-${index % 7}/component-${index}`;
  return {
    names: [`${repository}@sha256:${digest(repository, 64)}`, `${repository}:v1.${index}.0`],
    sizeBytes: 20_000_000 + index * 1_048_577,
  };
}

const volumeName = (seed: string): string => `kubernetes.io/csi/ebs.csi.example.com^vol-${digest(seed, 17)}`;

function uuid(seed: string): string {
  const hex = digest(seed, 32);
  return [hex.slice(0, 8), hex.slice(8, 12), hex.slice(12, 16), hex.slice(16, 20), hex.slice(20)].join("-");
}

function digest(seed: string, length: number): string {
  return createHash("sha256").update(seed).digest("hex").slice(0, length);
}
