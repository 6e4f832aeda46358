/** Prepares the document `ImageRegistries` for use: reads the files that it names. */
import { readFile } from "node:fs/promises";
import { durationMs } from "@berth/host";
import {
  defaultImageRegistries,
  type ImageRegistriesSpec,
  type RegistrySettings,
  type RegistrySpec,
} from "@berth/placement";
import { createRegistryClient, type RegistryEndpoint, type RegistryEndpoints } from "@berth/registry";
import { CommandError, exitCodes } from "./exit-codes.ts";

/** @throws CommandError when a file of authorities cannot be read or used, or when a registry name is invalid. */
export async function readRegistrySettings(
  spec: ImageRegistriesSpec = defaultImageRegistries,
): Promise<RegistrySettings> {
  const { registries, allowedRegistries, dockerConfig, tagTtl, alwaysTtl, timeout } = spec;
  const pairs = await Promise.all(
    registries.map(async (one) => [one.registry, await toEndpoint(one)] as const),
  );
  const endpoints = Object.fromEntries(pairs);
  await tryOut(endpoints);
  return {
    endpoints,
    ...(allowedRegistries && { allowedRegistries }),
    ...(dockerConfig !== undefined && { dockerConfig }),
    tagTtlMs: durationMs(tagTtl),
    alwaysTtlMs: durationMs(alwaysTtl),
    timeoutMs: durationMs(timeout),
  };
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
