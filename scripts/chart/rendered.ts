/** What helm makes of the chart. */
import { execFileSync } from "node:child_process";
import { join } from "node:path";
import { readYaml } from "@berth/host";
import type { KubeObject } from "@berth/kube";
import { root } from "../run-tool.ts";
import { helmFolder } from "./helm.ts";

export const CHART: string = join(root, "charts/berth");

/** @throws Error with helm's own message. */
export function helm(args: readonly string[], input = ""): string {
  try {
    return execFileSync(join(helmFolder(), "helm"), args, {
      input,
      encoding: "utf8",
      stdio: "pipe",
      maxBuffer: 1e8,
    });
  } catch (error) {
    throw new Error(String(Object(error).stderr), { cause: error });
  }
}

/** The objects of a release named berth in berth-system, hooks included. */
export function rendered(values: object, ...args: readonly string[]): readonly KubeObject[] {
  const given = ["template", "berth", CHART, "--namespace", "berth-system", "--values", "-", ...args];
  const { documents, problems } = readYaml(helm(given, JSON.stringify(values)));
  if (problems.length > 0) throw new Error(JSON.stringify(problems));
  return documents.map(({ value }) => value as KubeObject);
}
