import {
  apiVersionOf,
  type Container,
  type Deployment,
  deployments,
  type PodSpec,
  type Toleration,
  type Volume,
  type VolumeMount,
} from "@berth/kube";
import { originalFootprint } from "../api/agent-substrate.ts";
import { waitContainer } from "../api/wait-container.ts";
import type { WorkerPoolAllowance } from "./allowance.ts";
import type { WorkerPoolSpec } from "./document.ts";
import { deploymentNameOf, SANDBOX_CLASS_KEY, WORKER_POOL_LABEL, WORKER_POOL_UID_LABEL } from "./keys.ts";
import { type StoredPool, workerPools } from "./resource.ts";

/** An init container that waits until a process listens on a port of the node. */
export interface WorkerPoolWait {
  readonly name: string;
  /** Needs a shell and `nc`. With a digest the node need not trust a tag. */
  readonly image: string;
  readonly port: number;
}

/** Settings of all pools' Deployments, besides the pool's own. Turning label or wait on or off rolls every worker. */
export interface WorkerPoolConfig {
  /** Default: Berth allows no pool. */
  readonly allow?: WorkerPoolAllowance;
  /** Pods carry the uid of their pool as a label. */
  readonly workerPoolUid: boolean;
  /** Default: workers do not wait. */
  readonly wait?: WorkerPoolWait;
}

/** The additions of agent-substrate's pull request 134. */
export const PR_134_POOLS: Required<Omit<WorkerPoolConfig, "allow">> = {
  workerPoolUid: true,
  wait: { ...originalFootprint.waitContainer, port: originalFootprint.port },
};

/** The applied fields: all that the controller owns of a Deployment, and nothing else. */
export type DeploymentBody = Required<Pick<Deployment, "apiVersion" | "kind" | "metadata">> & {
  readonly spec: NonNullable<Deployment["spec"]>;
};

const RUN_VOLUME = "run-ateom";
const RUN_FOLDER = "/var/lib/ateom-gvisor";
const KVM_VOLUME = "dev-kvm";
const KVM_DEVICE = "/dev/kvm";
const MICROVM = "microvm";
const ROOT = { runAsUser: 0, runAsGroup: 0 } as const;

/**
 * The Deployment of a pool as the original applies it, field by field. Empty fields of the template are sent empty
 * (`priorityClassName`, `affinity`, `resources`) or left out (`nodeSelector`, `tolerations`). Either way server-side
 * apply removes an earlier value that Berth owned.
 */
export function buildDeployment(pool: StoredPool, config: WorkerPoolConfig): DeploymentBody {
  const { name, namespace, uid, spec } = pool;
  const selector = { [WORKER_POOL_LABEL]: name };
  const labels = { ...selector, ...(config.workerPoolUid && { [WORKER_POOL_UID_LABEL]: uid }) };
  const owner = {
    apiVersion: apiVersionOf(workerPools),
    kind: workerPools.kind,
    name,
    uid,
    controller: true,
    blockOwnerDeletion: true,
  };
  return {
    apiVersion: apiVersionOf(deployments),
    kind: deployments.kind,
    metadata: { name: deploymentNameOf(name), namespace, ownerReferences: [owner] },
    spec: {
      replicas: spec.replicas,
      selector: { matchLabels: selector },
      template: { metadata: { labels }, spec: podSpec(spec, config) },
    },
  };
}

function podSpec(spec: WorkerPoolSpec, { wait }: WorkerPoolConfig): PodSpec {
  const { priorityClassName = "", nodeAffinity } = spec.template ?? {};
  const nodeSelector = nodeSelectorOf(spec);
  const tolerations = tolerationsOf(spec);
  return {
    securityContext: ROOT,
    priorityClassName,
    affinity: nodeAffinity === undefined ? {} : { nodeAffinity },
    ...(Object.keys(nodeSelector).length > 0 && { nodeSelector }),
    ...(tolerations.length > 0 && { tolerations }),
    // Without a deadline, like the original.
    ...(wait && { initContainers: [waitContainer({ ...wait, containerName: wait.name })] }),
    containers: [workerContainer(spec)],
    volumes: volumesOf(spec),
  };
}

function nodeSelectorOf({ sandboxClass, template }: WorkerPoolSpec): Readonly<Record<string, string>> {
  return { ...template?.nodeSelector, ...(sandboxClass === MICROVM && { [SANDBOX_CLASS_KEY]: MICROVM }) };
}

function tolerationsOf({ sandboxClass, template }: WorkerPoolSpec): readonly Toleration[] {
  const asked = template?.tolerations ?? [];
  if (sandboxClass !== MICROVM) return asked;
  return [...asked, { key: SANDBOX_CLASS_KEY, operator: "Equal", value: MICROVM, effect: "NoSchedule" }];
}

function workerContainer({ ateomImage, sandboxClass, template }: WorkerPoolSpec): Container {
  const mounts: VolumeMount[] = [{ name: RUN_VOLUME, mountPath: RUN_FOLDER }];
  if (sandboxClass === MICROVM) mounts.push({ name: KVM_VOLUME, mountPath: KVM_DEVICE });
  return {
    name: "ateom",
    image: ateomImage,
    args: ["--pod-uid=$(POD_UID)"],
    env: [{ name: "POD_UID", valueFrom: { fieldRef: { fieldPath: "metadata.uid" } } }],
    securityContext: { privileged: true, ...ROOT },
    resources: template?.resources ?? {},
    volumeMounts: mounts,
  };
}

function volumesOf({ sandboxClass }: WorkerPoolSpec): readonly Volume[] {
  const run = { name: RUN_VOLUME, hostPath: { path: RUN_FOLDER, type: "DirectoryOrCreate" } };
  if (sandboxClass !== MICROVM) return [run];
  return [run, { name: KVM_VOLUME, hostPath: { path: KVM_DEVICE, type: "CharDevice" } }];
}
