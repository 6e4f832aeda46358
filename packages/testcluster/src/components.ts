/** Which flags each component runs with. Pure: one value in, command lines out. */
import path from "node:path";
import { fileURLToPath } from "node:url";
import type { ComponentName } from "./assets.ts";

/** Components that a test asks for; etcd and kube-apiserver always run. */
export type OptionalComponent = "controller-manager" | "scheduler" | "kwok";

export interface Ports {
  readonly etcdClient: number;
  readonly etcdPeer: number;
  readonly apiServer: number;
}

/** Where everything of one cluster is and what it consists of. */
export interface Layout {
  readonly folder: string;
  readonly ports: Ports;
  readonly with: ReadonlySet<OptionalComponent>;
  readonly audit: boolean;
  /** The API server is Kubernetes' generic one. */
  readonly small: boolean;
  /** Appended to ours, so they win where a flag may be given once. */
  readonly flags: Readonly<Partial<Record<ComponentName, readonly string[]>>>;
}

const PROGRAM: Readonly<Record<OptionalComponent, ComponentName>> = {
  "controller-manager": "kube-controller-manager",
  scheduler: "kube-scheduler",
  kwok: "kwok",
};

/** The programs of a cluster in the order in which they start. */
export function componentsOf(wanted: ReadonlySet<OptionalComponent>): readonly ComponentName[] {
  return ["etcd", "kube-apiserver", ...[...wanted].map((name) => PROGRAM[name])];
}

/** Who a component is to the API server: a user of its own, so that the audit log tells them apart. */
export const COMPONENT_USERS: Readonly<Partial<Record<ComponentName, string>>> = {
  "kube-controller-manager": "system:kube-controller-manager",
  "kube-scheduler": "system:kube-scheduler",
  kwok: "kwok",
};

/** Files of a cluster, relative to its folder. */
export const FILES = {
  ca: "ca.crt",
  servingCertificate: "apiserver.crt",
  servingKey: "apiserver.key",
  serviceAccountKey: "service-account.key",
  serviceAccountPublicKey: "service-account.pub",
  tokens: "tokens.csv",
  auditPolicy: "audit-policy.yaml",
  auditLog: "audit.log",
  kubeconfig: "kubeconfig",
  /** etcd's data. */
  data: "etcd",
} as const;

export const logFileOf = (folder: string, name: ComponentName): string => path.join(folder, `${name}.log`);
export const kubeconfigOf = (folder: string, name: ComponentName): string =>
  path.join(folder, `${name}.kubeconfig`);

export function flagsOf(name: ComponentName, layout: Layout): readonly string[] {
  return [...FLAGS[name](layout), ...(layout.flags[name] ?? [])];
}

const FLAGS: Readonly<Record<ComponentName, (layout: Layout) => readonly string[]>> = {
  etcd: etcdFlags,
  "kube-apiserver": apiServerFlags,
  "kube-controller-manager": controllerManagerFlags,
  "kube-scheduler": ({ folder }) => [
    `--kubeconfig=${kubeconfigOf(folder, "kube-scheduler")}`,
    "--leader-elect=false",
    "--secure-port=0",
    ...CLIENT_PACE,
  ],
  kwok: kwokFlags,
};

/** The default of 20–50 requests a second is meant for a shared server and would be what a test measures. */
const CLIENT_PACE: readonly string[] = ["--kube-api-qps=1000", "--kube-api-burst=2000"];

function etcdFlags({ folder, ports }: Layout): readonly string[] {
  const client = `http://127.0.0.1:${ports.etcdClient}`;
  const peer = `http://127.0.0.1:${ports.etcdPeer}`;
  return [
    `--data-dir=${path.join(folder, FILES.data)}`,
    `--listen-client-urls=${client}`,
    `--advertise-client-urls=${client}`,
    `--listen-peer-urls=${peer}`,
    `--initial-advertise-peer-urls=${peer}`,
    `--initial-cluster=default=${peer}`,
    "--unsafe-no-fsync", // survives the end of a process, not of the machine
    "--log-level=warn",
    "--quota-backend-bytes=8589934592", // benchmarks write more than the default 2 GiB allows
  ];
}

function apiServerFlags({ folder, ports, with: wanted, audit, small }: Layout): readonly string[] {
  const file = (name: string): string => path.join(folder, name);
  return [
    `--etcd-servers=http://127.0.0.1:${ports.etcdClient}`,
    "--etcd-compaction-interval=0", // history goes only when a test compacts
    "--shutdown-watch-termination-grace-period=2s", // without it an open watch keeps it from an orderly end
    "--bind-address=127.0.0.1",
    `--secure-port=${ports.apiServer}`,
    "--advertise-address=127.0.0.1", // else it looks for a network, which a sandbox may not have,
    ...(small ? [] : ["--endpoint-reconciler-type=none"]), // and fails to publish a loopback address
    `--tls-cert-file=${file(FILES.servingCertificate)}`,
    `--tls-private-key-file=${file(FILES.servingKey)}`,
    `--client-ca-file=${file(FILES.ca)}`,
    `--token-auth-file=${file(FILES.tokens)}`,
    "--authorization-mode=RBAC",
    "--service-account-issuer=https://kubernetes.default.svc",
    `--service-account-key-file=${file(FILES.serviceAccountPublicKey)}`,
    `--service-account-signing-key-file=${file(FILES.serviceAccountKey)}`,
    ...(small ? [] : ["--service-cluster-ip-range=10.0.0.0/24", "--allow-privileged=true"]),
    "--profiling=false",
    // It refuses every pod until the controller manager has made the namespace's default service account.
    ...(wanted.has("controller-manager") || small ? [] : ["--disable-admission-plugins=ServiceAccount"]),
    ...(audit
      ? [
          `--audit-policy-file=${file(FILES.auditPolicy)}`,
          `--audit-log-path=${file(FILES.auditLog)}`,
          "--audit-log-mode=blocking", // the line is written before the request's answer ends
          "--audit-log-maxsize=1000000", // MB: rotation would move lines away under the reader
        ]
      : []),
  ];
}

/** Controllers that need a network or disks, which this cluster has not. Those of clouds do not start by themselves. */
const NO_CONTROLLERS = [
  "nodeipam",
  "persistentvolume-attach-detach-controller",
  "persistentvolume-binder-controller",
  "persistentvolume-expander-controller",
  "certificatesigningrequest-signing-controller",
];

/**
 * Without kwok no kubelet renews a Node: after 50 s, which it counts by the Node's name, the controller would taint it as
 * unreachable, and DaemonSets would want nothing there.
 */
const NO_KUBELETS: readonly string[] = ["--node-monitor-grace-period=24h"];

function controllerManagerFlags({ folder, with: components }: Layout): readonly string[] {
  return [
    `--kubeconfig=${kubeconfigOf(folder, "kube-controller-manager")}`,
    `--controllers=*,${NO_CONTROLLERS.map((name) => `-${name}`).join(",")}`,
    "--leader-elect=false",
    "--secure-port=0",
    `--service-account-private-key-file=${path.join(folder, FILES.serviceAccountKey)}`,
    `--root-ca-file=${path.join(folder, FILES.ca)}`,
    ...(components.has("kwok") ? [] : NO_KUBELETS),
    ...CLIENT_PACE,
  ];
}

/** Our Stage documents: what a kubelet would write, in the order of a node's and a pod's life. */
const STAGES: readonly string[] = [
  "node-initialize.yaml",
  "node-heartbeat.yaml",
  "pod-ready.yaml",
  "pod-fails.yaml",
  "pod-backs-off.yaml",
  "pod-complete.yaml",
  "pod-delete.yaml",
];

function kwokFlags({ folder }: Layout): readonly string[] {
  const stages = fileURLToPath(new URL("../stages/", import.meta.url));
  return [
    `--kubeconfig=${kubeconfigOf(folder, "kwok")}`,
    ...STAGES.map((file) => `--config=${path.join(stages, file)}`),
    "--manage-nodes-with-annotation-selector=kwok.x-k8s.io/node=fake",
    "--node-lease-duration-seconds=40", // as a kubelet
    "--node-ip=10.1.0.1",
    "--cidr=10.244.0.0/16",
  ];
}
