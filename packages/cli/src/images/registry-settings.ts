/** The document `ImageRegistries` made ready for use: files that it names are read. */
import { readFile } from "node:fs/promises";
import { durationMs } from "@berth/host";
import {
  createRegistryClient,
  type ImageReference,
  isOf,
  parseReference,
  type RegistryEndpoint,
  type RegistryEndpoints,
  RegistryError,
  referenceText,
} from "@berth/registry";
import {
  defaultImageRegistries,
  type ImageRegistriesSpec,
  type RegistrySpec,
} from "../config/image-registries.ts";
import { CommandError, exitCodes } from "../exit-codes.ts";

export interface RegistrySettings {
  readonly endpoints: RegistryEndpoints;
  /** Of other images nothing is looked up; see `isOf`. Absent: all may be. */
  readonly allowedRegistries?: readonly string[];
  /** Absolute. Read when it is needed. */
  readonly dockerConfig?: string;
  readonly tagTtlMs: number;
  readonly alwaysTtlMs: number;
  /** Of each request. */
  readonly timeoutMs: number;
}

/** A read may take several requests: a token, a manifest, a config, each at a mirror first. */
const REQUESTS_PER_READ = 3;

/** For all the requests that it takes to read an image. Milliseconds. */
export function readMsOf({ timeoutMs }: RegistrySettings): number {
  return REQUESTS_PER_READ * timeoutMs;
}

/** @throws RegistryError `invalidName`; `notAllowed` for an image that must not be looked up. */
export function parseAllowed(image: string, { allowedRegistries }: RegistrySettings): ImageReference {
  const reference = parseReference(image);
  if (allowedRegistries?.some((place) => isOf(place, reference)) ?? true) return reference;
  const message =
    `${referenceText(reference)} is not looked up: the configuration allows only registries that it lists. ` +
    "Use an image of one of them, or have this one added to allowedRegistries in ImageRegistries";
  throw new RegistryError("notAllowed", message, { registry: reference.registry });
}

/** @throws CommandError when a file of authorities cannot be read or is of no use, or a registry has no such name. */
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
    // Whoever writes `http://` means it.
    mirrors: mirrors.map((url) => ({ url, plainHttp: url.startsWith("http:") })),
    ...(ca !== undefined && ca !== "" && { ca }),
    ...(plainHttp && { plainHttp }),
  };
}

/** @throws CommandError when the file cannot be read or holds none. @param of what they are for, in that message. */
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

/** A client opens nothing until it is asked, but says what it cannot work with. */
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
