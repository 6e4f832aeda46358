/** Prepares the document `ImageRegistries` for use: reads the files that it names. */
import { readFile } from "node:fs/promises";
import { durationMs } from "@berth/host";
import {
  type CredentialPluginsSpec,
  defaultImageRegistries,
  type ImageRegistriesSpec,
  type RegistrySettings,
  type RegistrySpec,
} from "@berth/placement";
import { createRegistryClient, type RegistryEndpoint, type RegistryEndpoints } from "@berth/registry";
import type { Environment } from "./command-deps.ts";
import { readCredentialProviders } from "./credential-provider-config.ts";
import { CommandError, exitCodes } from "./exit-codes.ts";
import { proxiesOf } from "./proxies.ts";

/**
 * @param environment names proxies, and has the variables that credential plugins get.
 * @throws CommandError when a file of authorities or providers cannot be read or used, or when a name is invalid.
 */
export async function readRegistrySettings(
  spec: ImageRegistriesSpec = defaultImageRegistries,
  environment: Environment = {},
): Promise<RegistrySettings> {
  const { registries, allowedRegistries, dockerConfig, tagTtl, alwaysTtl, timeout } = spec;
  const plugins = spec.credentialPlugins && (await toPlugins(spec.credentialPlugins, environment));
  const pairs = await Promise.all(
    registries.map(async (one) => [one.registry, await toEndpoint(one)] as const),
  );
  const endpoints = Object.fromEntries(pairs);
  await tryOut(endpoints);
  return {
    endpoints,
    ...(allowedRegistries && { allowedRegistries }),
    ...(dockerConfig !== undefined && { dockerConfig }),
    ...(plugins && { credentialPlugins: plugins }),
    proxyFor: proxiesOf(environment),
    tagTtlMs: durationMs(tagTtl),
    alwaysTtlMs: durationMs(alwaysTtl),
    timeoutMs: durationMs(timeout),
  };
}

async function toPlugins(
  { folder, config, environment: names }: CredentialPluginsSpec,
  environment: Environment,
): Promise<NonNullable<RegistrySettings["credentialPlugins"]>> {
  const values = names.flatMap((name) => {
    const value = environment[name];
    return value === undefined ? [] : [[name, value] as const];
  });
  const providers = config === undefined ? [] : await readCredentialProviders(config);
  return { folder, providers, environment: Object.fromEntries(values) };
}

async function toEndpoint({
  registry,
  mirrors,
  certificateAuthority,
  plainHttp,
}: RegistrySpec): Promise<RegistryEndpoint> {
  const ca = certificateAuthority && (await readAuthorities(registry, certificateAuthority));
  return {
    // A user who writes `http://` asks for plain HTTP.
    mirrors: mirrors.map((url) => ({ url, plainHttp: url.startsWith("http:") })),
    ...(ca !== undefined && ca !== "" && { ca }),
    ...(plainHttp && { plainHttp }),
  };
}

/** @throws CommandError when the file cannot be read or has no authority. @param of their purpose, for the message. */
export async function readAuthorities(of: string, file: string): Promise<string> {
  const read = await readFile(file, "utf8").catch((error: NodeJS.ErrnoException) => error);
  const why =
    read instanceof Error
      ? `cannot be read: ${read.code ?? read.message}`
      : read.includes("-----BEGIN CERTIFICATE-----")
        ? undefined
        : "holds no certificate (PEM)";
  if (typeof read === "string" && why === undefined) return read;
  throw new CommandError(`the authorities of ${of}: ${file} ${why ?? ""}`, exitCodes.faults);
}

/** Creating a client opens no connection, but reports invalid settings. */
async function tryOut(endpoints: RegistryEndpoints): Promise<void> {
  try {
    await createRegistryClient({ endpoints })[Symbol.asyncDispose]();
  } catch (error) {
    throw new CommandError(
      `ImageRegistries: ${error instanceof Error ? error.message : "not usable"}`,
      exitCodes.faults,
    );
  }
}
