import path from "node:path";
import { readFolder } from "@berth/runtime";
import { isRuleFile } from "../config/settings.ts";
import { CommandError, type ExitCode, exitCodes } from "../exit-codes.ts";
import { installManifests } from "../manifests.ts";
import { type DataFormat, printData, toYaml } from "../output/data.ts";
import type { Surroundings } from "../surroundings.ts";

export interface ManifestsOptions {
  readonly image: string;
  readonly namespace: string;
  readonly installation: string;
  readonly labelDir?: string;
  readonly replicas: string;
  readonly output?: DataFormat;
}

/** Prints what `kubectl apply -f -` installs: YAML documents, or a List as JSON. */
export async function manifests(
  options: ManifestsOptions,
  { stdout, folder }: Surroundings,
): Promise<ExitCode> {
  const { image, namespace, installation, labelDir, output } = options;
  const replicas = Number(options.replicas);
  if (!/^[1-9]\d?$/.test(options.replicas)) {
    throw new CommandError(`--replicas ${options.replicas}: expected a number from 1 to 99`, exitCodes.usage);
  }
  const rules =
    labelDir === undefined ? new Map<string, string>() : await readRuleFiles(path.resolve(folder, labelDir));
  const objects = installManifests({ image, namespace, installation, replicas, rules });
  if (output === "json") printData(stdout, { apiVersion: "v1", kind: "List", items: objects }, output);
  else stdout.write(objects.map(toYaml).join("---\n"));
  return exitCodes.done;
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
