/** Rules about `spec.template.spec.runtime`. */
import type { Catalog } from "../fleet/document.ts";
import { imageOf, populatorOf } from "./disk.ts";
import type { Faults } from "./fault.ts";
import type { Field } from "./field.ts";
import { nameFaults, portName } from "./names.ts";
import { resourceFaults } from "./resources.ts";

export type Volumes = ReadonlyMap<string, Field>;

export interface RuntimeContext {
  readonly catalog: Catalog;
  /** Gate `ContainerResources` of the Fleet. Default false. */
  readonly containerResources?: boolean | undefined;
  /** By name. */
  readonly volumes: Volumes;
}

export function* runtimeFaults(runtime: Field, context: RuntimeContext): Faults {
  const { catalog, volumes } = context;
  const resources = runtime.get("resources");
  const type = resources.get("instanceType");
  if (!Object.hasOwn(catalog, type.text))
    yield (resources.isSet ? type : resources).notSupported(Object.keys(catalog).toSorted());
  const requests = resources.get("requests");
  if (requests.isSet) yield requests.forbidden("not implemented");
  const [sandbox, machine] = [runtime.get("sandbox"), runtime.get("virtualMachine")];
  if (sandbox.isSet) yield* sandboxFaults(sandbox, context);
  if (!machine.isSet) {
    if (!sandbox.isSet) yield runtime.required("must specify a runtime");
  } else if (sandbox.isSet) yield machine.forbidden("may not specify more than 1 runtime");
  else yield* machineFaults(machine, volumes);
}

/** The names of volumes that a container or the virtual machine attaches. */
export function attachedNames(runtime: Field): ReadonlySet<string> {
  const attachments = users(runtime).flatMap((it) => it.get("volumeAttachments").items());
  return new Set(attachments.map((it) => it.get("name").text));
}

function* users(runtime: Field): Generator<Field, void, undefined> {
  yield* runtime.get("sandbox").get("containers").items();
  yield runtime.get("virtualMachine");
}

function* sandboxFaults(sandbox: Field, { volumes, containerResources }: RuntimeContext): Faults {
  const containers = sandbox.get("containers");
  if (containers.size === 0) yield containers.required();
  const names = new Set<string>();
  for (const container of containers.items()) {
    yield* nameFaults(container.get("name"), names);
    if (container.get("image").text === "") yield container.get("image").required();
    const resources = container.get("resources");
    if (containerResources) yield* resourceFaults(resources);
    else if (resources.isSet) yield resources.forbidden("not implemented");
    yield* attachmentFaults(container.get("volumeAttachments"), volumes);
    yield* portFaults(container.get("ports"));
  }
  for (const secret of sandbox.get("imagePullSecrets").items())
    if (secret.get("name").text === "") yield secret.get("name").required();
}

function* machineFaults(machine: Field, volumes: Volumes): Faults {
  const attachments = machine.get("volumeAttachments");
  if (attachments.size === 0) yield attachments.required();
  yield* attachmentFaults(attachments, volumes);
  const [first] = attachments.items();
  const boot = first?.get("name");
  const volume = boot && volumes.get(boot.text);
  if (boot !== undefined && volume !== undefined && !imageOf(volume.get("disk")).isSet)
    yield boot.required("the first volume must be a disk with an image populator: the machine boots from it");
  yield* portFaults(machine.get("ports"));
}

function* attachmentFaults(attachments: Field, volumes: Volumes): Faults {
  const paths = new Set<string>();
  for (const attachment of attachments.items()) {
    const [name, mount] = [attachment.get("name"), attachment.get("mountPath")];
    const volume = volumes.get(name.text);
    if (volume === undefined) yield name.notFound();
    if (mount.text === "") continue;
    if (volume?.get("disk").isSet) yield* mountFaults(mount, volume.get("disk"));
    yield* mount.unique(paths);
  }
}

/** Only a populator makes a filesystem to mount. */
function* mountFaults(mount: Field, disk: Field): Faults {
  if (!disk.get("template").isSet) {
    yield mount.internal("the disk has no template");
    return;
  }
  const populator = populatorOf(disk);
  if (!populator.get("image").isSet && !populator.get("filesystem").isSet) yield mount.notFound();
}

function* portFaults(ports: Field): Faults {
  const names = new Set<string>();
  for (const port of ports.items()) {
    yield* nameFaults(port.get("name"), names, portName);
    const number = port.get("port");
    if (number.integer < 1 || number.integer > 65_535)
      yield number.invalid("must be between 1 and 65535, inclusive", number.value ?? 0);
  }
}
