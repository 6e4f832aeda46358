/** For tests of what stands above a reader: requests that end when, and as, a test says. Speaks to no registry. */
import { RegistryError, type RegistryFailureKind } from "../failure.ts";
import { factName } from "../stored-fact.ts";
import type { ImageFacts, ImageReader, ImageReference, ReadOptions, RegistryCredential } from "../types.ts";

/** A request that has not ended. */
export interface ScriptedRequest {
  readonly kind: "read" | "digestOf";
  /** `factName` of the image. */
  readonly name: string;
  readonly registry: string;
  readonly credentials: readonly RegistryCredential[];
  readonly signal: AbortSignal | undefined;
  /** Ends it. A digest alone answers both kinds of request. */
  answer(digest: string, architectures?: readonly string[]): void;
  fail(kind: RegistryFailureKind, retryAfterMs?: number): void;
  throw(error: unknown): void;
}

/** Counts requests, holds each until it is told how to end it, and remembers how many there ever were at once. */
export class ScriptedReader implements ImageReader {
  /** In the order in which they came. */
  readonly pending: ScriptedRequest[] = [];
  readonly counts = { read: 0, digestOf: 0 };
  mostAtOnce = 0;
  mostPerRegistry = 0;
  mostPerName = 0;

  async read(reference: ImageReference, options: ReadOptions): Promise<ImageFacts> {
    return this.#hold("read", reference, options, (facts) => facts);
  }

  async digestOf(reference: ImageReference, options: ReadOptions): Promise<string | undefined> {
    return this.#hold("digestOf", reference, options, ({ digest }) => digest);
  }

  /** The oldest request; there has to be one. */
  next(): ScriptedRequest {
    const [first] = this.pending;
    if (first === undefined) throw new Error("nothing was asked");
    return first;
  }

  #hold<T>(
    kind: "read" | "digestOf",
    reference: ImageReference,
    { credentials, signal }: ReadOptions,
    of: (facts: ImageFacts) => T,
  ): Promise<T> {
    const { promise, resolve, reject } = Promise.withResolvers<T>();
    const { registry } = reference;
    const end = (how: () => void): void => {
      const at = this.pending.indexOf(request);
      if (at >= 0) this.pending.splice(at, 1);
      how();
    };
    const fail = (failed: RegistryFailureKind, retryAfterMs?: number): void => {
      const details = { registry, ...(retryAfterMs === undefined ? {} : { retryAfterMs }) };
      end(() => reject(new RegistryError(failed, `${failed}, as the test says`, details)));
    };
    const request: ScriptedRequest = {
      kind,
      name: factName(reference),
      registry,
      credentials,
      signal,
      answer: (digest, architectures = ["amd64"]) =>
        end(() => resolve(of(imageFacts(digest, architectures)))),
      fail,
      throw: (error) => end(() => reject(error instanceof Error ? error : new Error(String(error)))),
    };
    signal?.addEventListener("abort", () => fail("aborted"), { once: true });
    this.counts[kind] += 1;
    this.pending.push(request);
    this.#measure(request);
    return promise;
  }

  #measure({ registry, name }: ScriptedRequest): void {
    const where = (is: (request: ScriptedRequest) => boolean): number => this.pending.filter(is).length;
    this.mostAtOnce = Math.max(this.mostAtOnce, this.pending.length);
    this.mostPerRegistry = Math.max(
      this.mostPerRegistry,
      where((other) => other.registry === registry),
    );
    this.mostPerName = Math.max(
      this.mostPerName,
      where((other) => other.name === name),
    );
  }
}

/** Facts of an index of Linux images. */
export function imageFacts(digest: string, architectures: readonly string[] = ["amd64"]): ImageFacts {
  return {
    digest,
    mediaType: "application/vnd.oci.image.index.v1+json",
    platforms: architectures.map((architecture) => ({ os: "linux", architecture })),
  };
}

/** A digest of one hexadecimal. */
export function aDigest(digit: number | string): string {
  return `sha256:${`${digit}`.repeat(64)}`;
}
