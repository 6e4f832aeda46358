/** `berth image`: shows the facts of an image as a running Berth would read them. */

import { counted, formatColumns } from "@berth/host";
import {
  type FoundCredentials,
  type ImageAccess,
  imageRegistriesKind,
  PullCredentials,
  parseAllowed,
  type RegistrySettings,
  readMsOf,
} from "@berth/placement";
import {
  createRegistryClient,
  type ImageFacts,
  type ImageReference,
  RegistryError,
  type RegistryRequest,
  referenceText,
} from "@berth/registry";
import type { CommandDeps } from "../command-deps.ts";
import { loadSettings, type RuleOptions } from "../config/settings.ts";
import type { ConnectionOptions } from "../connection.ts";
import { CommandError, type ExitCode, exitCodes } from "../exit-codes.ts";
import { type DataFormat, printData } from "../output/data.ts";
import { readRegistrySettings } from "../registry-settings.ts";
import { openSession } from "../session.ts";
import { VERSION } from "../version.ts";

export interface ImageInspectOptions extends ConnectionOptions, Pick<RuleOptions, "config"> {
  readonly image: string;
  /** `namespace/name` of Secrets in the cluster. Default none: the command sends no request to the cluster. */
  readonly pullSecret?: readonly string[];
  readonly output?: DataFormat;
}

/** Asks the registry of an image for its platforms, and prints the registry that answered. */
export async function inspect(options: ImageInspectOptions, deps: CommandDeps): Promise<ExitCode> {
  const { stdout, stderr, folder } = deps;
  const access = accessOf(options.pullSecret ?? []);
  const settings = await loadSettings({ config: options.config ?? [] }, folder);
  const registries = await readRegistrySettings(settings.specOf(imageRegistriesKind), deps.environment);
  const reference = parse(options.image, registries);
  const { credentials, problems, commonProblems } = await findCredentials(
    { options, reference, access, registries },
    deps,
  );
  for (const problem of [...problems, ...commonProblems]) stderr.write(`${problem}\n`);
  const read = await ask(reference, { registries, credentials }, deps);
  const shown = { name: referenceText(reference), ...read };
  if (options.output) printData(stdout, shown, options.output);
  else stdout.write(format(shown));
  return exitCodes.done;
}

function parse(image: string, registries: RegistrySettings): ImageReference {
  try {
    return parseAllowed(image, registries);
  } catch (error) {
    if (!(error instanceof RegistryError)) throw error;
    throw new CommandError(error.message, error.kind === "invalidName" ? exitCodes.usage : exitCodes.failed);
  }
}

/** Secrets of several namespaces. Each is used as for a pod of its namespace. */
function accessOf(pullSecrets: readonly string[]): readonly ImageAccess[] {
  return pullSecrets.map((given) => {
    const [namespace = "", name = "", ...rest] = given.split("/");
    if (namespace === "" || name === "" || rest.length > 0)
      throw new CommandError(`--pull-secret ${given}: expected namespace/name`, exitCodes.usage);
    return { namespace, serviceAccount: "", secrets: [name] };
  });
}

interface Wanted {
  readonly options: ImageInspectOptions;
  readonly reference: ImageReference;
  readonly access: readonly ImageAccess[];
  readonly registries: RegistrySettings;
}

/** Credentials of the Secrets, then those for all pods. */
async function findCredentials(
  { options, reference, access, registries }: Wanted,
  deps: CommandDeps,
): Promise<Omit<FoundCredentials, "failedPrograms">> {
  const { clock } = deps;
  const found: FoundCredentials[] = [];
  if (access.length > 0) {
    await using session = await openSession(options, deps);
    using ofSecrets = new PullCredentials({ client: session.client, clock });
    for (const one of access) found.push(await ofSecrets.find(one, reference));
  }
  using common = new PullCredentials({ clock, ...registries });
  found.push(await common.find({ namespace: "", serviceAccount: "", secrets: [] }, reference));
  return {
    credentials: found.flatMap(({ credentials }) => credentials),
    problems: found.flatMap(({ problems }) => problems),
    commonProblems: found.flatMap(({ commonProblems }) => commonProblems),
  };
}

interface ReadImage extends ImageFacts {
  /** The registry or mirror that answered. */
  readonly registry: string;
  /** Number of requests to any host, including tokens and redirects. */
  readonly requests: number;
}

async function ask(
  reference: ImageReference,
  {
    registries,
    credentials,
  }: Pick<FoundCredentials, "credentials"> & { readonly registries: RegistrySettings },
  { clock, signal }: CommandDeps,
): Promise<ReadImage> {
  const requests: RegistryRequest[] = [];
  await using client = createRegistryClient({
    endpoints: registries.endpoints,
    ...(registries.proxyFor && { proxyFor: registries.proxyFor }),
    requestMs: registries.timeoutMs,
    readMs: readMsOf(registries),
    userAgent: `berth/${VERSION}`,
    program: "Berth",
    settings: "the document ImageRegistries",
    clock,
    onRequest: (request) => void requests.push(request),
  });
  try {
    const facts = await client.read(reference, { credentials, signal });
    const answered = requests.findLast(({ kind, status = 0 }) => kind === "manifest" && status < 300);
    return { ...facts, registry: answered?.registry ?? reference.registry, requests: requests.length };
  } catch (error) {
    if (!(error instanceof RegistryError)) throw error;
    const isRefused = error.kind === "unauthorized" || error.kind === "forbidden";
    const hint = isRefused && credentials.length === 0 ? "; here --pull-secret NAMESPACE/NAME names one" : "";
    const exitCode = error.kind === "invalidName" ? exitCodes.usage : exitCodes.failed;
    const why = requests.findLast((request) => request.why !== undefined)?.why;
    throw new CommandError(
      `${error.message}${why === undefined || error.message.includes(why) ? "" : ` (${why})`}${hint}`,
      exitCode,
    );
  }
}

function format({
  name,
  digest,
  mediaType,
  platforms,
  registry,
  requests,
}: ReadImage & { readonly name: string }): string {
  const facts = formatColumns([
    ["Name:", name],
    ["Digest:", digest],
    ["Media type:", mediaType],
    ["Answered by:", `${registry}, after ${counted(requests, "request")}`],
  ]);
  const hasVersions = platforms.some(({ osVersion }) => osVersion !== undefined);
  const rows = platforms.map(({ os, architecture, variant = "", osVersion = "" }) => [
    os,
    architecture,
    variant,
    ...(hasVersions ? [osVersion] : []),
  ]);
  const heading = ["OS", "ARCHITECTURE", "VARIANT", ...(hasVersions ? ["OS VERSION"] : [])];
  return `${facts}\n${formatColumns([heading, ...rows])}`;
}
