/** A client whose requests are written down, for tests. */
import { createRegistryClient, type RegistryClientOptions } from "../client.ts";
import { RegistryError } from "../failure.ts";
import type { RegistryRequest } from "../transport.ts";
import type { ImageFacts, ImageReader, ImageReference, ReadOptions } from "../types.ts";
import { type FaultRegistry, type FaultRegistryOptions, startFaultRegistry } from "./fault-registry.ts";

export interface ClientWorld extends ImageReader, AsyncDisposable {
  /** `manifest 200`, `token -` where there was no answer. */
  readonly asked: readonly string[];
  readonly requests: readonly RegistryRequest[];
}

export function createWorld(options: RegistryClientOptions = {}): ClientWorld {
  const requests: RegistryRequest[] = [];
  const client = createRegistryClient({ ...options, onRequest: (request) => requests.push(request) });
  return {
    requests,
    get asked() {
      return requests.map(({ kind, status }) => `${kind} ${status ?? "-"}`);
    },
    read: (reference, how) => client.read(reference, how),
    digestOf: (reference, how) => client.digestOf(reference, how),
    [Symbol.asyncDispose]: () => client[Symbol.asyncDispose](),
  };
}

export function named(registry: string, repository: string, name: string = "1"): ImageReference {
  return name.includes(":") ? { registry, repository, digest: name } : { registry, repository, tag: name };
}

/** The failure of what has to fail, as a RegistryError. @throws Error when it does not fail, or otherwise. */
export async function failureOf(doing: Promise<unknown>): Promise<RegistryError> {
  try {
    await doing;
  } catch (error) {
    if (error instanceof RegistryError) return error;
    throw new Error("it failed with what is no RegistryError", { cause: error });
  }
  throw new Error("it did not fail");
}

/** The options of a user who lists these registries. */
export function listing(...registries: readonly { readonly host: string }[]): RegistryClientOptions {
  return { endpoints: Object.fromEntries(registries.map(({ host }) => [host, {}])) };
}

/** A client whose configuration lists one registry. What is read is of its tag `1`. */
export interface ListedWorld extends ClientWorld {
  readonly registry: FaultRegistry;
  /** @param how default: without credentials. */
  facts(repository?: string, how?: ReadOptions): Promise<ImageFacts>;
  /** The same, where it has to fail. */
  failure(repository?: string, how?: ReadOptions): Promise<RegistryError>;
}

/** Starts the registry, too; disposal ends both. */
export async function startWorld(
  options: FaultRegistryOptions = {},
  more: RegistryClientOptions = {},
): Promise<ListedWorld> {
  const registry = await startFaultRegistry(options);
  const endpoints = { ...listing(registry).endpoints, ...more.endpoints };
  const world = createWorld({ ...more, endpoints });
  const facts: ListedWorld["facts"] = (repository = "a/b", how = { credentials: [] }) =>
    world.read(named(registry.host, repository), how);
  const end = world[Symbol.asyncDispose];
  return Object.assign(world, {
    registry,
    facts,
    failure: (...about: Parameters<ListedWorld["facts"]>) => failureOf(facts(...about)),
    async [Symbol.asyncDispose]() {
      await end();
      await registry[Symbol.asyncDispose]();
    },
  });
}

/** Two registries, of which `world.registry` is read. @param isListed Whether the other is, too; default true. */
export async function startPair(
  auth?: FaultRegistryOptions["auth"],
  otherAuth?: FaultRegistryOptions["auth"],
  isListed: boolean = true,
): Promise<ListedWorld & { readonly other: FaultRegistry }> {
  const other = await startFaultRegistry(otherAuth && { auth: otherAuth });
  const world = await startWorld(auth && { auth }, isListed ? listing(other) : {});
  const end = world[Symbol.asyncDispose];
  return Object.assign(world, {
    other,
    async [Symbol.asyncDispose]() {
      await end();
      await other[Symbol.asyncDispose]();
    },
  });
}
