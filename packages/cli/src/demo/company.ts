/** The registry of a company: it wants a login that a credential plugin has, and only a proxy finds it. */
import { chmod, mkdir, writeFile } from "node:fs/promises";
import { join } from "node:path";
import { configMaps, events, nodes, pods, type Resource } from "@berth/kube";
import { type ImageBuilder, REGISTRY_USER, startForwardProxy, type TestRegistry } from "@berth/testcluster";
import type { Scene } from "./story.ts";

export const COMPANY_HOST = "registry.demo.example";

const REGISTRIES = `apiVersion: berth.dev/v1alpha1
kind: ImageRegistries
metadata:
  name: demo
spec:
  registries:
    - registry: ${COMPANY_HOST}
      certificateAuthority: ../plugins/ca.pem
  credentialPlugins:
    folder: ../plugins
    config: ../plugins/credential-providers.json
    environment: [PATH]
`;

const PROVIDERS = {
  apiVersion: "kubelet.config.k8s.io/v1",
  kind: "CredentialProviderConfig",
  providers: [
    {
      name: "demo-credentials",
      apiVersion: "credentialprovider.kubelet.k8s.io/v1",
      matchImages: [COMPANY_HOST],
      defaultCacheDuration: "1h",
    },
  ],
};

const ANSWER = {
  apiVersion: "credentialprovider.kubelet.k8s.io/v1",
  kind: "CredentialProviderResponse",
  cacheKeyType: "Registry",
  auth: { [COMPANY_HOST]: { username: REGISTRY_USER.name, password: REGISTRY_USER.password } },
};

/** Where Berth writes what it says. What users write and the API server adds is there as well. */
const PLACES: readonly Resource[] = [configMaps, events, nodes, pods];

/** After all others. */
export const COMPANY_SCENES: readonly Scene[] = [
  {
    title: "All images came with a login, through a proxy. Where is the password that the plugin gave?",
    act: async ({ client, hasPrinted, berth }) => {
      const { password } = REGISTRY_USER;
      const texts = await Promise.all([
        ...PLACES.map(async (resource) => JSON.stringify((await client.list(resource)).items)),
        berth(["explain", "pod", "default/sensor"]),
      ]);
      if (hasPrinted(password) || texts.some((text) => text.includes(password)))
        throw new Error("Berth has shown the password");
    },
    expected: "it is in no log and no output of Berth, and in no Event, node, pod or ConfigMap",
    seen: () => undefined,
  },
];

export interface Company extends AsyncDisposable {
  /** For Berth's environment: `HTTPS_PROXY`. */
  readonly environment: { readonly HTTPS_PROXY: string };
  /** @returns the name of the image. */
  push(image: ImageBuilder): Promise<string>;
}

/** @param folder has the folder `config`, and gets `plugins`. @param registry wants a login, by `COMPANY_HOST` too. */
export async function openCompany(folder: string, registry: TestRegistry): Promise<Company> {
  const proxy = await startForwardProxy({ hosts: { [`${COMPANY_HOST}:443`]: registry.host } });
  const plugins = join(folder, "plugins");
  await mkdir(plugins);
  await writeFile(join(folder, "config/image-registries.yaml"), REGISTRIES);
  await writeFile(join(plugins, "ca.pem"), registry.ca ?? "");
  await writeFile(join(plugins, "credential-providers.json"), JSON.stringify(PROVIDERS));
  const program = join(plugins, "demo-credentials");
  await writeFile(program, `#!/bin/sh\ncat > /dev/null\necho '${JSON.stringify(ANSWER)}'\n`);
  await chmod(program, 0o700);
  return {
    environment: { HTTPS_PROXY: proxy.url },
    async push(image) {
      const { reference } = await registry.push(image);
      return reference.replace(registry.host, COMPANY_HOST);
    },
    [Symbol.asyncDispose]: () => proxy[Symbol.asyncDispose](),
  };
}
