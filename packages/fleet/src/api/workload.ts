/** Workload, WorkloadDeployment and Instance on the wire, and their resources. `kinds/` has their schemas. */
import {
  type Condition,
  type ConfigMapVolumeSource,
  defineResource,
  type EnvVar,
  type KubeObject,
  type ObjectMeta,
  type Resource,
  type ResourceRequirements,
  type SecretVolumeSource,
} from "@berth/kube";
import { COMPUTE_GROUP as group, COMPUTE_VERSION as version } from "./group.ts";

/** As in `resources` of a container: `500m`, `2Gi`, or a number. */
export type Quantity = string | number;

export interface InstanceTemplate {
  readonly metadata?: Pick<ObjectMeta, "labels" | "annotations">;
  readonly spec: InstanceSpec;
}

export interface InstanceSpec {
  readonly runtime: InstanceRuntime;
  readonly networkInterfaces: readonly NetworkInterface[];
  readonly volumes?: readonly InstanceVolume[];
  /** Copied from the deployment when the Instance is created. Absent: no Location was known then. */
  readonly location?: LocationReference;
  /** Only on Instances. */
  readonly controller?: InstanceController;
}

export interface InstanceController {
  readonly templateHash: string;
  /** What must be true before a provider may start it. Gates are only removed. */
  readonly schedulingGates?: readonly { readonly name: string }[];
}

export interface InstanceRuntime {
  readonly resources: {
    /** `datumcloud/d1-standard-2` */
    readonly instanceType: string;
    readonly requests?: Readonly<Record<string, Quantity>>;
  };
  /** Exactly one of `sandbox` and `virtualMachine`. */
  readonly sandbox?: {
    readonly containers: readonly SandboxContainer[];
    readonly imagePullSecrets?: readonly { readonly name: string }[];
  };
  readonly virtualMachine?: {
    /** The first one is the boot disk. */
    readonly volumeAttachments: readonly VolumeAttachment[];
    readonly ports?: readonly NamedPort[];
  };
}

export interface SandboxContainer {
  readonly name: string;
  readonly image: string;
  readonly env?: readonly EnvVar[];
  readonly resources?: Pick<ResourceRequirements, "limits" | "requests">;
  readonly volumeAttachments?: readonly VolumeAttachment[];
  readonly ports?: readonly NamedPort[];
}

export interface VolumeAttachment {
  readonly name: string;
  readonly mountPath?: string;
}

export interface NamedPort {
  readonly name: string;
  readonly port: number;
  /** Default `TCP`. */
  readonly protocol?: Protocol;
}

export type Protocol = "TCP" | "UDP" | "SCTP";

export interface NetworkInterface {
  readonly network: { readonly namespace?: string; readonly name: string };
  readonly networkPolicy?: { readonly ingress?: readonly IngressRule[] };
}

/** Connections from all of `from` to all of `ports`. Absent: from everywhere, to every port. */
export interface IngressRule {
  readonly ports?: readonly {
    readonly protocol?: Protocol;
    readonly port?: number | string;
    readonly endPort?: number;
  }[];
  readonly from?: readonly {
    readonly ipBlock?: { readonly cidr: string; readonly except?: readonly string[] };
  }[];
}

export interface InstanceVolume {
  readonly name: string;
  /** One of `disk`, `configMap` and `secret`. */
  readonly disk?: DiskSource;
  readonly configMap?: ConfigMapVolumeSource;
  readonly secret?: SecretVolumeSource;
}

export interface DiskSource {
  /** Default `persistent-disk-<index of the volume>`. */
  readonly deviceName?: string;
  readonly template?: {
    readonly metadata?: ObjectMeta;
    readonly spec: {
      /** Default `pd-standard`. */
      readonly type?: string;
      readonly resources?: { readonly requests?: Readonly<Record<string, Quantity>> };
      readonly populator?: {
        readonly image?: { readonly name: string };
        readonly filesystem?: { readonly type: string };
      };
    };
  };
}

export interface LocationReference {
  readonly name: string;
  readonly namespace: string;
}

export interface ScaleSettings {
  readonly minReplicas: number;
  /** Stored and validated. Nothing acts on it. */
  readonly maxReplicas?: number;
  readonly metrics?: readonly MetricSpec[];
  /** Default `OrderedReady`, the only value. */
  readonly instanceManagementPolicy?: string;
}

export interface MetricSpec {
  readonly resource?: {
    readonly name: string;
    readonly target: {
      readonly value?: Quantity;
      readonly averageValue?: Quantity;
      readonly averageUtilization?: number;
    };
  };
}

export interface Placement {
  readonly name: string;
  readonly cityCodes: readonly string[];
  readonly scaleSettings: ScaleSettings;
}

/** Counters of Instances. `desiredReplicas` is the sum of `minReplicas`. */
export interface ReplicaCounts {
  /** Instances that exist. */
  readonly replicas: number;
  /** Updated, and Programmed is True. */
  readonly currentReplicas: number;
  /** The observed hash of the template is the wanted one, ready or not. */
  readonly updatedReplicas?: number;
  readonly desiredReplicas: number;
  readonly readyReplicas: number;
  /** Those of `readyReplicas` whose cell is not heard now, and until when it was. */
  readonly unheard?: number;
  readonly since?: string;
}

export interface WorkloadSpec {
  readonly template: InstanceTemplate;
  readonly placements: readonly Placement[];
}

export interface WorkloadStatus extends ReplicaCounts {
  readonly conditions?: readonly Condition[];
  readonly deployments: number;
  readonly observedGeneration?: number;
  readonly placements?: readonly PlacementStatus[];
}

export interface PlacementStatus extends ReplicaCounts {
  readonly name: string;
  readonly conditions?: readonly Condition[];
}

export interface Workload extends KubeObject {
  readonly spec?: WorkloadSpec;
  readonly status?: WorkloadStatus;
}

export interface DeploymentSpec {
  readonly workloadRef: { readonly name: string; readonly uid: string };
  readonly placementName: string;
  readonly cityCode: string;
  readonly template: InstanceTemplate;
  readonly scaleSettings: ScaleSettings;
}

export interface DeploymentStatus extends ReplicaCounts {
  readonly conditions?: readonly Condition[];
  /** Set once a Location is found, and never cleared. */
  readonly location?: LocationReference;
  readonly observedGeneration?: number;
  /** `metadata.generation` of the deployment in the project that this status is about. */
  readonly observedSourceGeneration?: number;
}

/** "Deployment" in this package always means a WorkloadDeployment. */
export interface WorkloadDeployment extends KubeObject {
  readonly spec?: DeploymentSpec;
  readonly status?: DeploymentStatus;
}

export interface InstanceStatus {
  readonly conditions?: readonly Condition[];
  readonly networkInterfaces?: readonly {
    readonly assignments?: { readonly networkIP?: string; readonly externalIP?: string };
  }[];
  /** Written by the provider. */
  readonly controller?: { readonly observedTemplateHash: string };
}

export interface Instance extends KubeObject {
  readonly spec?: InstanceSpec;
  readonly status?: InstanceStatus;
}

export const workloads: Resource<Workload> = defineResource({
  group,
  version,
  plural: "workloads",
  kind: "Workload",
  namespaced: true,
});

export const workloadDeployments: Resource<WorkloadDeployment> = defineResource({
  group,
  version,
  plural: "workloaddeployments",
  kind: "WorkloadDeployment",
  namespaced: true,
});

export const instances: Resource<Instance> = defineResource({
  group,
  version,
  plural: "instances",
  kind: "Instance",
  namespaced: true,
});
