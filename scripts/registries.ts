/** `make registries`: pushes a small image to registries that you are logged in to, and reads it as Berth does. Opt-in. */
import { access, mkdtemp, readFile, rm } from "node:fs/promises";
import { homedir, tmpdir } from "node:os";
import { delimiter, join } from "node:path";
import {
  CredentialPlugins,
  createRegistryClient,
  credentialsFor,
  parseDockerConfig,
  parseReference,
} from "@berth/registry";
import { checkRegistry } from "./registries/check.ts";

const { env } = process;
const places = process.argv.slice(2);
if (places.length === 0) {
  console.error('registries: name them: make registries ARGS="HOST/NAMESPACE …"');
  process.exit(2);
}
const file = join(env["DOCKER_CONFIG"] ?? join(homedir(), ".docker"), "config.json");
const config = parseDockerConfig(await readFile(file, "utf8").catch(() => "{}"), "dockerconfigjson");
const folder = await mkdtemp(join(tmpdir(), "berth-registries-"));
for (const place of places) {
  try {
    const host = parseReference(`${place}/x`).registry;
    const endpoints = /^(?:localhost|127\.)/.test(host) ? { [host]: {} } : {};
    await using reader = createRegistryClient({ userAgent: "berth-registries/1", endpoints });
    const credentials = await credentialsOf(place);
    for (const line of await checkRegistry(place, { reader, credentials, env, folder }))
      console.log(`ok    ${line}`);
  } catch (error) {
    console.error(`FAILED ${place}: ${error instanceof Error ? error.message : String(error)}`);
    process.exitCode = 1;
  }
}
await rm(folder, { recursive: true });

/** As Berth finds them: in the docker config, or from the helper that it names. */
async function credentialsOf(place: string) {
  const reference = parseReference(`${place}/x`);
  const { helpers = [] } = config;
  const environment = Object.fromEntries(
    Object.entries(env).flatMap(([key, value]) => (value === undefined ? [] : [[key, value]])),
  );
  const [helper] = helpers;
  using plugins = new CredentialPlugins({
    folder: helper === undefined ? "/" : await folderOf(`docker-credential-${helper.name}`),
    providers: [],
    environment,
    clock: { monotonic: () => performance.now() },
  });
  const helped = await plugins.ofHelpers(helpers, reference);
  for (const problem of helped.problems) console.error(problem);
  return credentialsFor([helped, config], reference);
}

async function folderOf(program: string): Promise<string> {
  for (const path of (env["PATH"] ?? "").split(delimiter)) {
    const isThere = await access(join(path, program)).then(
      () => true,
      () => false,
    );
    if (isThere) return path;
  }
  throw new Error(`${program}, which ${file} names, is not in PATH`);
}
