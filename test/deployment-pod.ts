/** A pod of a printed Deployment or Job, as a kubelet would start it: its arguments, and its mounts as folders of this machine. */
import { mkdir, writeFile } from "node:fs/promises";
import path from "node:path";
import {
  type ConfigMap,
  configMaps,
  type Deployment,
  isApiError,
  type Job,
  type KubeClient,
  type KubeObject,
  type Resource,
  type Secret,
  secrets,
} from "@berth/kube";

type Files = ReadonlyMap<string, string>;
/** A volume, or one source of a projected one. */
interface Source {
  readonly configMap?: Reference;
  readonly secret?: Reference & { readonly secretName?: string };
}
interface Reference {
  readonly name?: string;
  readonly optional?: boolean;
  readonly items?: readonly { readonly key: string; readonly path: string }[];
}

/**
 * Writes the mounted files below `root`, as they are in the cluster now.
 * @returns the arguments. There and in files, the paths of mounts are those of this machine: a pod has a root of its own.
 */
export async function argumentsOfPod(
  { metadata, spec }: Deployment | Job,
  client: KubeClient,
  root: string,
): Promise<readonly string[]> {
  const { containers: [container] = [], volumes = [] } = spec?.template.spec ?? {};
  const mounts = container?.volumeMounts ?? [];
  const here = (text: string): string =>
    mounts.reduce(
      (done, { mountPath }) =>
        done.replaceAll(new RegExp(`(^|[= ])${mountPath}(?=/|$)`, "gm"), `$1${root}${mountPath}`),
      text,
    );
  for (const { name, mountPath } of mounts) {
    const volume = volumes.find((it) => it.name === name) ?? {};
    const { projected = { sources: [volume] } } = volume as {
      readonly projected?: { readonly sources: readonly Source[] };
    };
    await mkdir(path.join(root, mountPath), { recursive: true });
    for (const source of projected.sources)
      for (const [file, text] of await filesOf(source, client, metadata?.namespace ?? "")) {
        const target = path.join(root, mountPath, file);
        await mkdir(path.dirname(target), { recursive: true });
        await writeFile(target, here(text), { mode: 0o600 });
      }
  }
  return (container?.args ?? []).map(here);
}

async function filesOf({ configMap, secret }: Source, client: KubeClient, namespace: string): Promise<Files> {
  const of = configMap ?? secret ?? {};
  const name = of.name ?? secret?.secretName ?? "";
  const read = async <T extends KubeObject>(resource: Resource<T>): Promise<T | undefined> =>
    client.get(resource, { namespace, name }).catch((error: unknown) => {
      if (of.optional === true && isApiError(error, "notFound")) return undefined;
      throw error;
    });
  const data: Readonly<Record<string, string>> =
    secret === undefined
      ? ((await read<ConfigMap>(configMaps))?.data ?? {})
      : Object.fromEntries(
          Object.entries((await read<Secret>(secrets))?.data ?? {}).map(([key, text]) => [
            key,
            Buffer.from(text, "base64").toString("utf8"),
          ]),
        );
  const items = of.items ?? Object.keys(data).map((key) => ({ key, path: key }));
  return new Map(
    items.flatMap(({ key, path: shown }) => (data[key] === undefined ? [] : [[shown, data[key]]])),
  );
}
