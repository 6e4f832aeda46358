import path from "node:path";
import type { KubeObject } from "@berth/kube";
import { crds } from "@berth/placement";
import { readFolder } from "@berth/runtime";
import { isRuleFile } from "../config/settings.ts";
import { CommandError, type ExitCode, exitCodes } from "../exit-codes.ts";
import { installManifests } from "../manifests.ts";
import { type DataFormat, printData, toYaml } from "../output/data.ts";
import type { Surroundings } from "../surroundings.ts";

export interface ManifestsOptions {
  readonly what: "install" | "crds";
  /** Required to install. */
  readonly image?: string;
  readonly namespace: string;
  readonly installation: string;
  readonly labelDir?: string;
  readonly replicas: string;
  readonly output?: DataFormat;
}

/** Prints what `kubectl apply -f -` takes: YAML documents, or a List as JSON. */
export async function manifests(options: ManifestsOptions, surroundings: Surroundings): Promise<ExitCode> {
  const { what, output } = options;
  const objects = what === "crds" ? crds() : await installObjects(options, surroundings);
  const { stdout } = surroundings;
  if (output === "json") printData(stdout, { apiVersion: "v1", kind: "List", items: objects }, output);
  else stdout.write(objects.map(toYaml).join("---\n"));
  return exitCodes.done;
}

async function installObjects(
  { image, namespace, installation, labelDir, replicas }: ManifestsOptions,
  { folder }: Surroundings,
): Promise<readonly KubeObject[]> {
  if (image === undefined) {
    throw new CommandError("--image is required: which container image to run", exitCodes.usage);
  }
  if (!/^[1-9]\d?$/.test(replicas)) {
    throw new CommandError(`--replicas ${replicas}: expected a number from 1 to 99`, exitCodes.usage);
  }
  const rules =
    labelDir === undefined ? new Map<string, string>() : await readRuleFiles(path.resolve(folder, labelDir));
  return installManifests({ image, namespace, installation, replicas: Number(replicas), rules });
}

async function readRuleFiles(folder: string): Promise<ReadonlyMap<string, string>> {
  const { root, problems, files } = await readFolder(folder, { include: isRuleFile });
  const [problem] = problems;
  if (root !== "read" || problem !== undefined) {
    throw new CommandError(
      `${path.join(folder, problem?.path ?? "")}: ${problem?.problem ?? root}`,
      exitCodes.faults,
    );
  }
  return new Map([...files.values()].map((file) => [file.path, file.text ?? ""]));
}
