import { readFile } from "node:fs/promises";
import path from "node:path";
import type { Plane } from "@berth/fleet";
import {
  assembleReadDocuments,
  type Documents,
  isConfigFile,
  type LocatedDocument,
  toDocuments,
} from "@berth/host";
import type { KubeObject } from "@berth/kube";
import { architectureRuntimeClasses, footprintRules, isRuleFile, labelKeyProblem } from "@berth/placement";
import { type FolderSnapshot, readFolder } from "@berth/runtime";
import { capabilityNames } from "../capability-names.ts";
import type { CommandDeps } from "../command-deps.ts";
import { labelOptionsOfFlags, type RuleOptions, refuseFaults } from "../config/settings.ts";
import { CommandError, type ExitCode, exitCodes } from "../exit-codes.ts";
import { crds, documentKinds, foreignKinds } from "../kinds.ts";
import { installManifests } from "../manifests.ts";
import { type FleetOfPodsOptions, readFleetOfPods } from "../manifests-fleet.ts";
import { DOCUMENTS_PATH } from "../manifests-pod.ts";
import { type ExtraRights, permissionsOf } from "../manifests-rights.ts";
import { type DataFormat, printData, toYaml } from "../output/data.ts";
import { planeAccess } from "../plane-access.ts";
import { type PodPatch, readPodPatch } from "../pod-patch.ts";

export interface ManifestsOptions
  extends FleetOfPodsOptions,
    Pick<RuleOptions, "allowReserved" | "labelFormat"> {
  readonly what: "install" | "crds" | "runtime-class" | "access";
  /** Of `access`: what the cluster is for the hub. */
  readonly to: Plane;
  /** Architectures of RuntimeClasses. */
  readonly architectures: readonly string[];
  /** Required for installation manifests. */
  readonly image?: string;
  /** Required for RuntimeClasses. */
  readonly handler?: string;
  readonly taintKey?: readonly string[];
  readonly pullSecrets?: boolean;
  readonly workerPools?: boolean;
  readonly fleet?: boolean;
  readonly apiServerCidr?: readonly string[];
  /** `labels,gates`: default all. */
  readonly capabilities?: string;
  /** Default true. */
  readonly confinement?: boolean;
  readonly namespace: string;
  readonly installation: string;
  readonly labelDir?: string;
  /** A file of configuration documents, or a folder of such files. */
  readonly config?: string;
  readonly replicas: string;
  /** File to merge into the pod template. */
  readonly patch?: string;
  readonly output?: DataFormat;
}

/** Prints input for `kubectl apply -f -`: YAML documents, or a List as JSON. */
export async function manifests(options: ManifestsOptions, deps: CommandDeps): Promise<ExitCode> {
  const { what, output, architectures } = options;
  if (what !== "runtime-class" && architectures.length > 0) {
    throw new CommandError(`manifests ${what} takes no architectures`, exitCodes.usage);
  }
  const objects = await objectsOf(options, deps);
  const { stdout } = deps;
  if (output !== undefined && output !== "yaml")
    printData(stdout, { apiVersion: "v1", kind: "List", items: objects }, output);
  // The marker comes first, so that outputs can be put one after the other.
  else stdout.write(objects.map((object) => `---\n${toYaml(object)}`).join(""));
  return exitCodes.done;
}

async function objectsOf(options: ManifestsOptions, deps: CommandDeps): Promise<readonly KubeObject[]> {
  const { workerPools = false, fleet = false } = options;
  const foreign = [...(workerPools ? ["worker-pools"] : []), ...(fleet ? ["fleet"] : [])];
  if (options.what === "crds") return crds(foreignKinds(foreign));
  const { to: plane, namespace, installation, confinement = true } = options;
  if (options.what === "access") return planeAccess({ plane, namespace, installation, confinement });
  return options.what === "install" ? installObjects(options, deps) : runtimeClassesOf(options);
}

/** A value of the node label `kubernetes.io/arch` that is short enough for the name of a class. */
const ARCHITECTURE = /^[a-z0-9](?:[-a-z0-9.]{0,55}[a-z0-9])?$/;

function runtimeClassesOf({
  architectures,
  handler,
  taintKey = [],
}: ManifestsOptions): readonly KubeObject[] {
  const fail = (message: string): never => {
    throw new CommandError(message, exitCodes.usage);
  };
  if (handler === undefined)
    return fail("--handler is required: the one of the container runtime, such as runc");
  if (architectures.length === 0) return fail("name the architectures: amd64, arm64, …");
  for (const name of architectures) if (!ARCHITECTURE.test(name)) fail(`${name} is no architecture`);
  for (const key of taintKey) {
    const problem = labelKeyProblem(key);
    if (problem !== undefined) fail(`--taint-key ${key}: ${problem}`);
  }
  return architectureRuntimeClasses(architectures, { handler, taintKeys: taintKey });
}

async function installObjects(
  { image, namespace, installation, labelDir, config, replicas, ...options }: ManifestsOptions,
  deps: CommandDeps,
): Promise<readonly KubeObject[]> {
  if (image === undefined) {
    throw new CommandError("--image is required: which container image to run", exitCodes.usage);
  }
  if (!/^[1-9]\d?$/.test(replicas)) {
    throw new CommandError(`--replicas ${replicas}: expected a number from 1 to 99`, exitCodes.usage);
  }
  const { folder } = deps;
  const rules =
    labelDir === undefined
      ? new Map<string, string>()
      : textsOf(await readWhole(path.resolve(folder, labelDir), isRuleFile));
  const documents = config === undefined ? undefined : await readInForce(config, folder);
  const fleet = await readFleetOfPods(options, documentsOf(documents), deps);
  const { pullSecrets = false, workerPools = false, confinement = true } = options;
  const patch = options.patch === undefined ? undefined : await readPatch(options.patch, folder);
  const rights: ExtraRights = {
    documents: documentsOf(documents, fleet.ofFlags),
    ...(options.capabilities !== undefined && { capabilities: capabilitiesOf(options.capabilities) }),
    flags: new Set([...(pullSecrets ? ["pullSecrets"] : []), ...(workerPools ? ["workerPools"] : [])]),
  };
  const unusual = new Set(permissionsOf(installation, rights).flatMap((it) => it.unusual ?? []));
  if (unusual.size > 0)
    deps.stderr.write(`berth: ${config} takes rights to ${[...unusual].join("; ")}: they are printed too\n`);
  const common = {
    image,
    namespace,
    installation,
    confinement,
    rights,
    ...fleet.pod,
    flags: [...ruleFlagsOf(options), ...(fleet.pod.flags ?? [])],
    ...(documents && { documents: textsOf(documents.snapshot) }),
    ...(patch && { patch }),
  };
  const { apiServerCidr: apiServerCidrs = [] } = options;
  return installManifests({ ...common, apiServerCidrs, replicas: Number(replicas), rules });
}

/** As `berth run` takes them. @throws CommandError when one is wrong. */
function ruleFlagsOf(options: RuleOptions): readonly string[] {
  const { allowReserved, format } = labelOptionsOfFlags(options);
  return [
    ...allowReserved.map((it) => `--allow-reserved=${it}`),
    ...(format === "Extended" ? ["--label-format=extended"] : []),
  ];
}

/** @throws CommandError for an unknown name. */
function capabilitiesOf(text: string): readonly string[] {
  const given = new Set(text.split(","));
  const found = capabilityNames.optional.filter((it) => given.has(it));
  if (found.length === given.size) return found;
  throw new CommandError(
    `--capabilities ${text}: expected some of ${capabilityNames.optional.join(",")}`,
    exitCodes.usage,
  );
}

/** @throws CommandError when the file cannot be read, or with all its faults. */
async function readPatch(shown: string, folder: string): Promise<PodPatch> {
  const text = await readFile(path.resolve(folder, shown), "utf8").catch((error: NodeJS.ErrnoException) => {
    throw new CommandError(`--patch ${shown}: ${error.message}`, exitCodes.faults);
  });
  const read = readPodPatch(shown, text);
  if ("patch" in read) return read.patch;
  refuseFaults(read.faults);
  return {};
}

interface GivenDocuments {
  readonly path: string;
  /** As the user wrote it. */
  readonly shown: string;
  readonly snapshot: FolderSnapshot;
}

async function readInForce(shown: string, folder: string): Promise<GivenDocuments> {
  const absolute = path.resolve(folder, shown);
  const isGiven = (file: string): boolean => file === path.basename(absolute) && isConfigFile(file);
  const snapshot = await readWhole(absolute, (file) => isGiven(file) || isDocument(file));
  if (snapshot.files.size === 0)
    throw new CommandError(`${shown}: no configuration file (.yaml, .yml) is there`, exitCodes.faults);
  return { path: absolute, shown, snapshot };
}

/** As Berth reads them in its pods. @throws CommandError with all faults: it would not put such documents in force. */
function documentsOf(given: GivenDocuments | undefined, ofFlags: readonly LocatedDocument[] = []): Documents {
  const { documents: settings, faults } = toDocuments(given ? [inPods(given)] : [], documentKinds, ofFlags);
  const { faults: ofFootprints } = assembleReadDocuments(
    footprintRules,
    { settings, hasConfig: true },
    undefined,
  );
  refuseFaults([...faults, ...ofFootprints]);
  return settings;
}

/** At its place in a pod: relative paths in documents start there. */
function inPods({ snapshot, shown, path: given }: GivenDocuments): GivenDocuments {
  const files = new Map([...snapshot.files].filter(([file]) => isConfigFile(file)));
  const name = path.basename(given);
  const place = files.has(name) ? path.posix.join(DOCUMENTS_PATH, name) : DOCUMENTS_PATH;
  return { path: place, shown, snapshot: { ...snapshot, files } };
}

/** A document, or a certificate that it names. Excludes other files: a docker config contains credentials. */
function isDocument(file: string): boolean {
  return /\.(?:ya?ml|pem|crt)$/i.test(file) && isRuleFile(file);
}

/** @throws CommandError when a part of it cannot be read. */
async function readWhole(folder: string, include: (file: string) => boolean): Promise<FolderSnapshot> {
  const snapshot = await readFolder(folder, { include });
  const { root, problems } = snapshot;
  const [problem] = problems;
  if (root !== "read" || problem !== undefined) {
    throw new CommandError(
      `${path.join(folder, problem?.path ?? "")}: ${problem?.problem ?? root}`,
      exitCodes.faults,
    );
  }
  return snapshot;
}

function textsOf({ files }: FolderSnapshot): ReadonlyMap<string, string> {
  return new Map([...files.values()].map((file) => [file.path, file.text ?? ""]));
}
