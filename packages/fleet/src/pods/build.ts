/** Writes the Pod of an Instance. Pure. */
import {
  apiVersionOf,
  type Container,
  type Pod,
  type PodSpec,
  type ResourceRequirements,
  type Volume,
} from "@berth/kube";
import {
  type Instance,
  type InstanceRuntime,
  type InstanceSpec,
  instances,
  type SandboxContainer,
} from "../api/workload.ts";
import type { Catalog, InstanceRules } from "../fleet/document.ts";

/** `fault`: why a Pod cannot run this Instance, as a sentence for the user. */
export type BuiltPod = { readonly pod: Pod } | { readonly fault: string };

/**
 * The Pod has the name, namespace, labels and annotations of its Instance, which is its controlling owner.
 *
 * Resources: where every container has limits for CPU and memory, those hold. Otherwise the Pod gets the size of its
 * instance type, as requests and as limits. One container gets all of it. Several containers share it, through the
 * resources of the Pod as a whole (`spec.resources`, on by default since Kubernetes 1.34). An older API server drops
 * this field, so such Pods would run without limits there.
 */
export function buildPod(instance: Instance, { catalog }: InstanceRules): BuiltPod {
  const { metadata = {}, spec } = instance;
  const sandbox = spec?.runtime.sandbox;
  if (spec === undefined || sandbox === undefined)
    return { fault: "The provider pods runs sandboxes only. A virtual machine needs an external provider." };
  const fault = faultOf(spec, sandbox.containers);
  if (fault !== undefined) return { fault };
  const resources = resourcesOf(spec.runtime, sandbox.containers, catalog);
  if ("fault" in resources) return resources;
  const { name = "", namespace = "", uid = "", labels, annotations } = metadata;
  const { kind } = instances;
  const owner = { apiVersion: apiVersionOf(instances), kind, name, uid };
  return {
    pod: {
      apiVersion: "v1",
      kind: "Pod",
      metadata: {
        name,
        namespace,
        ...(labels && { labels: withoutBerth(labels) }),
        ...(annotations && { annotations: withoutBerth(annotations) }),
        ownerReferences: [{ ...owner, controller: true, blockOwnerDeletion: true }],
      },
      spec: {
        ...isolation,
        restartPolicy: "Always",
        ...(sandbox.imagePullSecrets && { imagePullSecrets: sandbox.imagePullSecrets }),
        containers: sandbox.containers.map((one) => containerOf(one, resources.ofContainer)),
        ...resources.ofPod,
        ...(spec.volumes && { volumes: spec.volumes.map(volumeOf) }),
      },
    },
  };
}

/** A tenant wrote the template: it may not ask Berth for what the operator of the cell decides, such as tolerations. */
function withoutBerth(keys: Readonly<Record<string, string>>): Readonly<Record<string, string>> {
  return Object.fromEntries(Object.entries(keys).filter(([key]) => !key.startsWith("berth.dev/")));
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
  { name, image, env, ports, volumeAttachments, resources }: SandboxContainer,
  whole: ResourceRequirements | undefined,
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
    ...((whole ?? resources) && { resources: whole ?? resources }),
  };
}

function volumeOf({ name, configMap, secret }: NonNullable<InstanceSpec["volumes"]>[number]): Volume {
  return { name, ...(configMap && { configMap }), ...(secret && { secret }) };
}

interface Sized {
  readonly ofContainer?: ResourceRequirements;
  readonly ofPod?: Pick<PodSpec, "resources">;
}

function resourcesOf(
  { resources: { instanceType } }: InstanceRuntime,
  containers: readonly SandboxContainer[],
  catalog: Catalog,
): Sized | { readonly fault: string } {
  if (containers.every(({ resources }) => resources?.limits?.cpu && resources.limits.memory)) return {};
  const size = Object.hasOwn(catalog, instanceType) ? catalog[instanceType] : undefined;
  if (size === undefined)
    return { fault: `The catalog of this cell has no instance type ${instanceType}. Choose another type.` };
  const amounts = { cpu: `${size.millicores}m`, memory: `${size.mebibytes}Mi` };
  const whole = { requests: amounts, limits: amounts };
  return containers.length === 1 ? { ofContainer: whole } : { ofPod: { resources: whole } };
}
