/** The base and components of kustomize: what `berth manifests` prints, and what else it prints with a Fleet. */
import { isDeepStrictEqual } from "node:util";
import type { KubeObject } from "@berth/kube";
import { toYaml } from "../../packages/cli/src/output/data.ts";
import { berthWith, itemsOf } from "../../packages/cli/src/testing/harness.ts";
import { VERSION } from "../../packages/cli/src/version.ts";

const INSTALL = `manifests --image localhost/berth:${VERSION} -o json`;
const FEDERATION = "{mode: management, hub: {kubeconfig: /etc/federation/kubeconfig}, projects: self}";
const CELL = "mode: cell, cell: my-cell";
const QUOTA = "quota: {from: Projects, kubeconfig: /etc/quota-credentials/kubeconfig}";

/** By component: the spec of its Fleet, and the component that it stands on. */
export const components: Readonly<Record<string, { readonly fleet: string; readonly on?: string }>> = {
  single: { fleet: "{mode: single}" },
  management: { fleet: "{mode: management, hub: self, projects: self}" },
  "federation-kubeconfig": { fleet: FEDERATION, on: "management" },
  cell: { fleet: `{${CELL}}` },
  "quota-credentials": { fleet: `{${CELL}, ${QUOTA}}`, on: "cell" },
};

/** @param fleet the spec of the document. Absent: there is none. */
export async function printedWith(fleet?: string, line: string = INSTALL): Promise<readonly KubeObject[]> {
  if (fleet === undefined) return itemsOf(await berthWith({}, line));
  const head = "apiVersion: berth.dev/v1alpha1\nkind: Fleet\nmetadata: {name: default}\n";
  const files = { "conf/documents.yaml": `${head}spec: ${fleet}` };
  return itemsOf(await berthWith(files, `${line} --config conf`));
}

/** The text of each file, by its path in the folder `kustomize`. */
export async function kustomizations(): Promise<ReadonlyMap<string, string>> {
  const files = new Map<string, string>();
  const write = (folder: string, kustomization: object, objects: readonly KubeObject[]): void => {
    files.set(`${folder}/kustomization.yaml`, `# Written by \`make generate\`.\n${toYaml(kustomization)}`);
    files.set(`${folder}/objects.yaml`, objects.map((it) => `---\n${toYaml(it)}`).join(""));
  };
  const api = "kustomize.config.k8s.io/v1";
  const base = await printedWith();
  const crds = await printedWith(undefined, "manifests crds -o json");
  write("crds", { apiVersion: `${api}beta1`, kind: "Kustomization", resources: ["objects.yaml"] }, crds);
  write("base", { apiVersion: `${api}beta1`, kind: "Kustomization", resources: ["objects.yaml"] }, base);
  for (const [name, { fleet, on }] of Object.entries(components)) {
    const before = on === undefined ? base : await printedWith(components[on]?.fleet);
    const after = await printedWith(fleet);
    const isNew = (it: KubeObject): boolean => find(before, it) === undefined;
    const patches = after.flatMap((it) => {
      const patch = isNew(it) ? [] : patchOf(find(before, it), it);
      const target = { kind: it.kind, name: it.metadata?.name };
      return patch.length === 0 ? [] : [{ target, patch: toYaml(patch) }];
    });
    const own = on === undefined ? await printedWith(undefined, "manifests crds --fleet -o json") : [];
    const added = [...own.filter((it) => find(crds, it) === undefined), ...after.filter(isNew)];
    const resources = added.length === 0 ? {} : { resources: ["objects.yaml"] };
    write(
      `components/${name}`,
      { apiVersion: `${api}alpha1`, kind: "Component", ...resources, patches },
      added,
    );
    if (added.length === 0) files.delete(`components/${name}/objects.yaml`);
  }
  return files;
}

function find(objects: readonly KubeObject[], { kind, metadata }: KubeObject): KubeObject | undefined {
  return objects.find((it) => it.kind === kind && it.metadata?.name === metadata?.name);
}

interface Change {
  readonly op: "add" | "replace";
  readonly path: string;
  readonly value: unknown;
}

/** A JSON patch that adds and replaces. What grows in a list stands at its end, in any order. */
function patchOf(before: unknown, after: unknown, path = ""): readonly Change[] {
  if (isDeepStrictEqual(before, after)) return [];
  if (Array.isArray(before) && Array.isArray(after)) {
    const more = after.filter((it) => !before.some((one) => isDeepStrictEqual(one, it)));
    if (after.length === before.length + more.length)
      return more.map((value) => ({ op: "add", path: `${path}/-`, value }));
    if (after.length === before.length)
      return after.flatMap((it, at) => patchOf(before[at], it, `${path}/${at}`));
    return [{ op: "replace", path, value: after }];
  }
  if (!isMap(before) || !isMap(after)) return [{ op: "replace", path, value: after }];
  return Object.entries(after).flatMap(([key, value]): readonly Change[] => {
    const at = `${path}/${key.replaceAll("~", "~0").replaceAll("/", "~1")}`;
    return key in before ? patchOf(before[key], value, at) : [{ op: "add", path: at, value }];
  });
}

function isMap(value: unknown): value is Readonly<Record<string, unknown>> {
  return typeof value === "object" && value !== null && !Array.isArray(value);
}
