import path from "node:path";
import type { KubeObject } from "@berth/kube";
import { architectureRuntimeClasses, crds, type FootprintPreset, labelKeyProblem } from "@berth/placement";
import { readFolder } from "@berth/runtime";
import { isRuleFile } from "../config/settings.ts";
import { CommandError, type ExitCode, exitCodes } from "../exit-codes.ts";
import { footprintDocument } from "../footprint-document.ts";
import { installManifests } from "../manifests.ts";
import { type DataFormat, printData, toYaml } from "../output/data.ts";
import type { Surroundings } from "../surroundings.ts";

export interface ManifestsOptions {
  readonly what: "install" | "crds" | "runtime-class" | "footprint";
  /** Of RuntimeClasses. */
  readonly architectures: readonly string[];
  /** Required to install. */
  readonly image?: string;
  /** Required for RuntimeClasses. */
  readonly handler?: string;
  readonly taintKey?: readonly string[];
  readonly pullSecrets?: boolean;
  readonly workerPools?: boolean;
  /** Required for a footprint. */
  readonly preset?: FootprintPreset;
  /** Of the footprint's document. Default from the preset. */
  readonly name?: string;
  /** `app=web,tier=front`: labels of the pods that need the agent, where a preset cannot know them. */
  readonly podLabels?: string;
  /** The same for the drivers of volumes. */
  readonly csiDriver?: readonly string[];
  readonly namespace: string;
  readonly installation: string;
  readonly labelDir?: string;
  /** A folder of configuration documents. */
  readonly config?: string;
  readonly replicas: string;
  readonly output?: DataFormat;
}

/** Prints what `kubectl apply -f -` takes: YAML documents, or a List as JSON. */
export async function manifests(options: ManifestsOptions, surroundings: Surroundings): Promise<ExitCode> {
  const { what, output, architectures } = options;
  if (what !== "runtime-class" && architectures.length > 0) {
    throw new CommandError(`manifests ${what} takes no architectures`, exitCodes.usage);
  }
  const objects = await objectsOf(options, surroundings);
  const { stdout } = surroundings;
  if (output === "json") printData(stdout, { apiVersion: "v1", kind: "List", items: objects }, output);
  else stdout.write(objects.map(toYaml).join("---\n"));
  return exitCodes.done;
}

async function objectsOf(
  options: ManifestsOptions,
  surroundings: Surroundings,
): Promise<readonly KubeObject[]> {
  if (options.what === "crds") return crds();
  if (options.what === "footprint") return [footprintDocument(options)];
  return options.what === "install" ? installObjects(options, surroundings) : runtimeClassesOf(options);
}

/** As nodes have it in `kubernetes.io/arch`, and short enough for the name of a class. */
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
  { folder }: Surroundings,
): Promise<readonly KubeObject[]> {
  if (image === undefined) {
    throw new CommandError("--image is required: which container image to run", exitCodes.usage);
  }
  if (!/^[1-9]\d?$/.test(replicas)) {
    throw new CommandError(`--replicas ${replicas}: expected a number from 1 to 99`, exitCodes.usage);
  }
  const rules =
    labelDir === undefined
      ? new Map<string, string>()
      : await readFiles(path.resolve(folder, labelDir), isRuleFile);
  const documents = config && (await readFiles(path.resolve(folder, config), isDocument));
  const { pullSecrets = false, workerPools = false } = options;
  const common = {
    image,
    namespace,
    installation,
    pullSecrets,
    workerPools,
    ...(documents && { documents }),
  };
  return installManifests({ ...common, replicas: Number(replicas), rules });
}

/** Documents, and the certificates that they name. Not what else there is: a docker config has credentials. */
function isDocument(file: string): boolean {
  return /\.(?:ya?ml|pem|crt)$/i.test(file) && isRuleFile(file);
}

async function readFiles(
  folder: string,
  include: (file: string) => boolean,
): Promise<ReadonlyMap<string, string>> {
  const { root, problems, files } = await readFolder(folder, { include });
  const [problem] = problems;
  if (root !== "read" || problem !== undefined) {
    throw new CommandError(
      `${path.join(folder, problem?.path ?? "")}: ${problem?.problem ?? root}`,
      exitCodes.faults,
    );
  }
  return new Map([...files.values()].map((file) => [file.path, file.text ?? ""]));
}
