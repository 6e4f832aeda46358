/** Writes the templates of the chart from what `berth manifests` prints. */
import { readFileSync } from "node:fs";
import { join } from "node:path";
import { fleetKind } from "@berth/fleet";
import { footprintPresets, workerPoolsKind } from "@berth/placement";
import { OF_PROJECTS } from "../../packages/cli/src/instance-confinement.ts";
import { crds, foreignKinds } from "../../packages/cli/src/kinds.ts";
import { toYaml } from "../../packages/cli/src/output/data.ts";
import { presets } from "../../packages/placement/src/footprint/presets.ts";
import { root } from "../run-tool.ts";
import { dashboard, monitoringTemplate } from "./monitoring.ts";
import { chartObjects, runtimeClasses, switches } from "./objects.ts";
import { schemaText } from "./schema.ts";
import { type Entry, symbolic } from "./symbolic.ts";
import { printTemplate } from "./template.ts";
import { ofChart } from "./values.ts";

const NOTE = "{{- /* Written by `make generate`. */}}\n";
const HEAD = `${NOTE}{{- $b := include "berth.facts" $ | fromJson }}\n`;

/** The text of each generated file, by its path in the chart. */
export function generated(): ReadonlyMap<string, string> {
  const all = symbolic(switches, chartObjects);
  const byFile = Map.groupBy("list" in all ? all.list : [], fileOf);
  return new Map([
    ...[...byFile].map(
      ([file, objects]) => [`templates/${file}`, HEAD + printTemplate(objects, ofChart)] as const,
    ),
    ["templates/runtimeclass.yaml", runtimeClassTemplate()],
    ["templates/crds.yaml", HEAD + crdTemplates()],
    ["templates/_defaults.tpl", NOTE + defaults()],
    ["templates/monitoring.yaml", HEAD + monitoringTemplate()],
    ["files/dashboard.json", dashboard()],
    ["values.schema.json", schemaText],
  ]);
}

function fileOf({ key }: Entry): string {
  const [kind = "", name = ""] = key.split("/");
  return name.endsWith("-cleanup") ? "cleanup.yaml" : `${kind.toLowerCase()}.yaml`;
}

function runtimeClassTemplate(): string {
  const all = symbolic(["taintKeys"], runtimeClasses);
  const range = "{{- range $architecture := $.Values.runtimeClasses.architectures | uniq | sortAlpha }}\n";
  return `${NOTE}${range}${printTemplate("list" in all ? all.list : [], ofChart)}{{- end }}\n`;
}

/** They stay when the chart is uninstalled. Those that the cluster has from elsewhere are left alone. */
function crdTemplates(): string {
  const groups = [
    { when: "$.Values.crds.install", of: crds() },
    ...["worker-pools", "fleet"].map((name) => {
      const value = name === "fleet" ? "or $.Values.crds.fleet $b.is.fleet" : "$.Values.crds.workerPools";
      const own = new Set(crds().map(({ metadata }) => metadata?.name));
      const of = crds(foreignKinds([name])).filter(({ metadata }) => !own.has(metadata?.name));
      return { when: `and $.Values.crds.install (${value})`, of };
    }),
  ];
  const one = ({ metadata, ...crd }: ReturnType<typeof crds>[number]): string => {
    const annotations = { ...metadata?.annotations, "helm.sh/resource-policy": "keep" };
    const text = toYaml({ ...crd, metadata: { ...metadata, annotations } }).replaceAll("{{", '{{ "{{" }}');
    return `{{- if include "berth.takesCrd" (list $ "${metadata?.name}") }}\n---\n${text}{{- end }}\n`;
  };
  return groups.map(({ when, of }) => `{{- if ${when} }}\n${of.map(one).join("")}{{- end }}\n`).join("");
}

/** What Berth takes for fields that a document leaves out. */
function defaults(): string {
  const { mode: _mode, ...fleet } = fleetKind.spec.parse({ mode: "single" });
  const { wait, ...pools } = workerPoolsKind.spec.parse({ wait: {} });
  const held = footprintPresets.flatMap((name) => {
    const { hold } = presets[name].spec;
    return hold === undefined ? [] : [[name, hold]];
  });
  const values = { fleet, pools, wait, presets: Object.fromEntries(held), ofProjects: OF_PROJECTS };
  const labels = ["accelerators/edgetpu", "accelerators/ncs2"].map((file) => [
    file,
    readFileSync(join(root, "examples/labels", file), "utf8"),
  ]);
  const define = (name: string, value: object): string =>
    `{{- define "berth.${name}" -}}\n${JSON.stringify(value, undefined, 2)}\n{{- end }}\n`;
  return define("defaults", values) + define("originalLabels", Object.fromEntries(labels));
}
