/** Writes the Pod of an Instance. Pure. */
import {
  type Container,
  type Pod,
  type PodSpec,
  type ResourceRequirements,
  type SecurityContext,
  type Volume,
} from "@berth/kube";
import { controllerReferenceTo, parseQuantity } from "@berth/runtime";
import { type Instance, type InstanceSpec, instances, type SandboxContainer } from "../api/workload.ts";
import type { InstanceRules, InstanceType } from "../fleet/document.ts";
import { type Size, sizeOf } from "../instance/size.ts";
import { sortKeys } from "./keys.ts";

/** `fault`: why a Pod cannot run this Instance, as a sentence for the user. */
export type BuiltPod = { readonly pod: Pod } | { readonly fault: string };

/**
 * The Pod has the name and namespace of its Instance, which is its controlling owner, and of its labels and annotations
 * those that the Fleet lets through. It gets what the claim asks for (see `sizeOf`), as requests and as limits.
 */
export function buildPod(instance: Instance, rules: InstanceRules): BuiltPod {
  const { metadata = {}, spec } = instance;
  const sandbox = spec?.runtime.sandbox;
  if (spec === undefined || sandbox === undefined)
    return { fault: "The provider pods runs sandboxes only. A virtual machine needs an external provider." };
  const fault = faultOf(spec, sandbox.containers);
  if (fault !== undefined) return { fault };
  const size = sizeOf(spec, rules.catalog);
  if (size.fault !== undefined) return { fault: size.fault };
  const { ofContainers, ofPod } = resourcesOf(size, rules);
  const { name = "", namespace = "", labels, annotations } = metadata;
  return {
    pod: {
      apiVersion: "v1",
      kind: "Pod",
      metadata: {
        name,
        namespace,
        ...(labels && { labels: sortKeys(labels, rules).kept }),
        ...(annotations && { annotations: sortKeys(annotations, rules).kept }),
        ownerReferences: [controllerReferenceTo(instances, instance)],
      },
      spec: {
        ...isolation,
        restartPolicy: "Always",
        ...(sandbox.imagePullSecrets && { imagePullSecrets: sandbox.imagePullSecrets }),
        containers: sandbox.containers.map((one, at) =>
          containerOf(one, { resources: ofContainers[at] ?? {}, securityContext: confinedTo(rules) }),
        ),
        ...ofPod,
        ...(spec.volumes && { volumes: spec.volumes.map(volumeOf) }),
      },
    },
  };
}

/**
 * A tenant wrote the image, and the cell belongs to the operator. So the Pod gets no token for the API server of the
 * cell, and no variables that list its Services. The user of the image stays, because most images need it.
 */
const isolation: Partial<PodSpec> = {
  automountServiceAccountToken: false,
  enableServiceLinks: false,
  securityContext: { seccompProfile: { type: "RuntimeDefault" } },
};

/** Images that start as root go on working with the capabilities that the Fleet lists. */
function confinedTo({ pods: { capabilities } }: InstanceRules): SecurityContext {
  return {
    allowPrivilegeEscalation: false,
    capabilities: { drop: ["ALL"], ...(capabilities.length > 0 && { add: capabilities }) },
  };
}

function faultOf(
  { volumes = [] }: InstanceSpec,
  containers: readonly SandboxContainer[],
): string | undefined {
  const disk = volumes.find(({ configMap, secret }) => (configMap ?? secret) === undefined);
  if (disk !== undefined)
    return `The provider pods mounts no disks. Remove volume ${disk.name}, or use an external provider.`;
  for (const { name, volumeAttachments = [] } of containers)
    for (const { name: volume, mountPath } of volumeAttachments)
      if (!mountPath) return `Container ${name} attaches volume ${volume} without a mountPath. Add one.`;
  return undefined;
}

function containerOf(
  { name, image, env, ports, volumeAttachments }: SandboxContainer,
  confined: Pick<Container, "resources" | "securityContext">,
): Container {
  return {
    name,
    image,
    ...(env && { env }),
    ...(ports && {
      ports: ports.map(({ port, protocol = "TCP", ...it }) => ({
        name: it.name,
        containerPort: port,
        protocol,
      })),
    }),
    ...(volumeAttachments && {
      volumeMounts: volumeAttachments.map((it) => ({ name: it.name, mountPath: it.mountPath ?? "" })),
    }),
    ...confined,
  };
}

function volumeOf({ name, configMap, secret }: NonNullable<InstanceSpec["volumes"]>[number]): Volume {
  return { name, ...(configMap && { configMap }), ...(secret && { secret }) };
}

/**
 * What each container gets, and the Pod as a whole. Several containers share a size that is not theirs through
 * `spec.resources`. An API server before 1.34 drops this field: the confinement policy refuses such Pods there.
 */
function resourcesOf({ total, containers }: Size, { pods }: InstanceRules): Sized {
  const [isAlone, isShared] = [containers.length <= 1, containers.some((own) => own === undefined)];
  const storage = isAlone ? pods.ephemeralStorage : shareOf(pods.ephemeralStorage, containers.length);
  return {
    ofContainers: containers.map((own): ResourceRequirements => {
      const amounts = amountsOf(own ?? (isAlone ? total : undefined));
      return {
        limits: { ...amounts, [STORAGE]: storage },
        // The limit alone would set it aside: few Pods would have room on a node.
        requests: { ...amounts, [STORAGE]: "0" },
      };
    }),
    ...(isShared &&
      !isAlone && { ofPod: { resources: { requests: amountsOf(total), limits: amountsOf(total) } } }),
  };
}

const STORAGE = "ephemeral-storage";

interface Sized {
  readonly ofContainers: readonly ResourceRequirements[];
  readonly ofPod?: Pick<PodSpec, "resources">;
}

function amountsOf(size: InstanceType | undefined): Readonly<Record<string, string>> {
  return size === undefined ? {} : { cpu: `${size.millicores}m`, memory: `${size.mebibytes}Mi` };
}

/** In bytes. Nothing limits the ephemeral storage of a Pod as a whole. */
function shareOf(quantity: string, among: number): string {
  return String((parseQuantity(quantity) ?? 0n) / NANO / BigInt(among));
}

/** `parseQuantity` counts in these. */
const NANO = 1_000_000_000n;
