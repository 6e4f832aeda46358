/** A client whose requests are written down, for tests. */
import { createRegistryClient, type RegistryClientOptions } from "../client.ts";
import { RegistryError } from "../failure.ts";
import type { RegistryRequest } from "../transport.ts";
import type { ImageReader, ImageReference } from "../types.ts";

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
