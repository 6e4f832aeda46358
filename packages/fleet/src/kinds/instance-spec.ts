/** The spec of an Instance, which is also that of a template. */
import { intOrString, text } from "@berth/host";
import * as z from "zod";
import {
  embeddedMetadata,
  int32,
  listByName,
  locationReference,
  name,
  optionalText,
  quantities,
} from "./schema.ts";

const MAX_CONTAINERS = 64;
const MAX_ENV = 1024;
const MAX_VOLUMES = 128;
const MAX_PORTS = 128;
const MAX_INTERFACES = 16;
const MAX_GATES = 16;

const protocols = ["TCP", "UDP", "SCTP"] as const;

const keyOf = (kind: string): z.ZodType =>
  z
    .strictObject({
      name: z.string().default("").describe(`Of the ${kind}.`),
      key: z.string().describe(`In the ${kind}.`),
      optional: z.boolean().optional().describe("Whether it may be absent."),
    })
    .meta({ "x-kubernetes-map-type": "atomic" })
    .optional()
    .describe(`A value of a ${kind}.`);

const env = z.strictObject({
  name: z.string().describe("Of the variable."),
  value: optionalText("Its value. $(NAME) stands for the value of another one."),
  valueFrom: z
    .strictObject({
      configMapKeyRef: keyOf("ConfigMap"),
      secretKeyRef: keyOf("Secret"),
      fieldRef: z
        .strictObject({
          apiVersion: optionalText("Default v1."),
          fieldPath: z.string().describe("Such as metadata.name."),
        })
        .meta({ "x-kubernetes-map-type": "atomic" })
        .optional()
        .describe("A field of the pod."),
      resourceFieldRef: z
        .strictObject({
          containerName: optionalText("Default: this container."),
          resource: z.string().describe("Such as limits.cpu."),
          divisor: intOrString.optional().describe("The unit. Default 1."),
        })
        .meta({ "x-kubernetes-map-type": "atomic" })
        .optional()
        .describe("A resource of a container."),
    })
    .optional()
    .describe("Where its value comes from."),
});

const port = z.strictObject({
  name: name("Of the port: an IANA service name."),
  port: int32().min(1).max(65_535).describe("Its number."),
  protocol: z.enum(protocols).default("TCP").describe("Its protocol."),
});
const ports = listByName(port, MAX_PORTS).optional().describe("Ports that it listens on.");

const attachment = z.strictObject({
  name: name("Of the volume."),
  mountPath: optionalText("Where it is mounted. Default: nowhere, it is a device."),
});
const attachments = z.array(attachment).max(MAX_VOLUMES);

const container = z.strictObject({
  name: name("Of the container."),
  image: text({ max: 1024 }).describe("Its image."),
  env: listByName(env, MAX_ENV).optional().describe("Its environment."),
  resources: z
    .strictObject({
      limits: quantities("What it may use at most"),
      requests: quantities("What is set aside for it"),
    })
    .optional()
    .describe("As resources of a container of a pod."),
  volumeAttachments: attachments.optional().describe("Volumes that it uses."),
  ports,
});

const sandbox = z.strictObject({
  containers: listByName(container, MAX_CONTAINERS).min(1).describe("What runs in it."),
  imagePullSecrets: z
    .array(z.strictObject({ name: name("Of the Secret.") }))
    .max(MAX_CONTAINERS)
    .optional()
    .describe("Secrets with credentials of registries."),
});

const virtualMachine = z.strictObject({
  volumeAttachments: attachments.min(1).describe("Its volumes. The first one is the boot disk."),
  ports,
});

const runtime = z.strictObject({
  resources: z
    .strictObject({
      instanceType: name("Size of the Instance, by its name in the catalog."),
      requests: quantities("What is set aside for the Instance"),
    })
    .describe("What the Instance is given."),
  sandbox: sandbox.optional().describe("Containers. Exactly one of sandbox and virtualMachine is set."),
  virtualMachine: virtualMachine.optional().describe("A virtual machine."),
});

const ingress = z.strictObject({
  ports: z
    .array(
      z.strictObject({
        protocol: z.enum(protocols).optional().describe("Default TCP."),
        port: intOrString.optional().describe("Number or name. Default every port."),
        endPort: int32().optional().describe("The last port of a range."),
      }),
    )
    .max(MAX_PORTS)
    .optional()
    .describe("To these ports. Default all."),
  from: z
    .array(
      z.strictObject({
        ipBlock: z
          .strictObject({
            cidr: z.string().describe("Such as 192.0.2.0/24."),
            except: z.array(z.string()).max(MAX_PORTS).optional().describe("Ranges in it that are left out."),
          })
          .optional()
          .describe("A range of addresses."),
      }),
    )
    .max(MAX_PORTS)
    .optional()
    .describe("From these peers. Default all."),
});

const networkInterface = z.strictObject({
  network: z
    .strictObject({
      namespace: optionalText("Of the Network. Default: the namespace of the object."),
      name: name("Of the Network."),
    })
    .describe("The Network that it is on."),
  networkPolicy: z
    .strictObject({
      ingress: z.array(ingress).max(MAX_PORTS).optional().describe("Connections that are let in."),
    })
    .optional()
    .describe("Which connections it takes."),
});

const mode = (what: string): z.ZodType => int32().optional().describe(what);

const items = z
  .array(
    z.strictObject({
      key: z.string().describe("Whose value is in the file."),
      path: z.string().describe("Of the file, relative to the volume."),
      mode: mode("Of the file, such as 0400."),
    }),
  )
  .optional()
  .describe("Keys that become files. Default all.");

const disk = z.strictObject({
  deviceName: optionalText("Default persistent-disk-<index of the volume>."),
  template: z
    .strictObject({
      // Programs in Go write an empty one where there is none: the default makes both the same.
      metadata: embeddedMetadata.default({}).describe("Of the disk."),
      spec: z
        .strictObject({
          type: z.string().default("pd-standard").describe("Of the disk."),
          resources: z
            .strictObject({ requests: quantities("Its size: storage") })
            .optional()
            .describe("What the disk is given."),
          populator: z
            .strictObject({
              image: z
                .strictObject({ name: name("Of the image.") })
                .optional()
                .describe("An image."),
              filesystem: z
                .strictObject({ type: z.enum(["ext4"]).describe("Of the file system.") })
                .optional()
                .describe("An empty file system."),
            })
            .optional()
            .describe("What is on the disk at first. Default nothing."),
        })
        .describe("What the disk should be."),
    })
    .describe("What the disk is made from."),
});

const volume = z.strictObject({
  name: name("Of the volume."),
  disk: disk.optional().describe("A disk. One of disk, configMap and secret is set."),
  configMap: z
    .strictObject({
      name: z.string().default("").describe("Of the ConfigMap."),
      items,
      defaultMode: mode("Of files, such as 0644."),
      optional: z.boolean().optional().describe("Whether the ConfigMap may be absent."),
    })
    .optional()
    .describe("The files of a ConfigMap."),
  secret: z
    .strictObject({
      secretName: optionalText("Of the Secret."),
      items,
      defaultMode: mode("Of files, such as 0400."),
      optional: z.boolean().optional().describe("Whether the Secret may be absent."),
    })
    .optional()
    .describe("The files of a Secret."),
});

const controller = z.strictObject({
  templateHash: text({ max: 253 }).describe("Of the template that the Instance was made from."),
  schedulingGates: listByName(z.strictObject({ name: name("Of the gate.") }), MAX_GATES)
    .optional()
    .describe("What has to be true before the Instance may start. Gates are only removed."),
});

export const instanceSpec: z.ZodObject = z.strictObject({
  runtime: runtime.describe("What runs."),
  networkInterfaces: z
    .array(networkInterface)
    .min(1)
    .max(MAX_INTERFACES)
    .describe("Its interfaces to networks."),
  volumes: listByName(volume, MAX_VOLUMES).optional().describe("Volumes that it may use."),
  location: locationReference.optional().describe("Where it runs. Only on Instances."),
  controller: controller.optional().describe("Written by the controller. Only on Instances."),
});

export const instanceTemplate: z.ZodObject = z.strictObject({
  metadata: embeddedMetadata.optional().describe("Labels and annotations of the Instances."),
  spec: instanceSpec.describe("The spec of the Instances."),
});
