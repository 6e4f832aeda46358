import { mkdtemp, rm } from "node:fs/promises";
import { tmpdir } from "node:os";
import path from "node:path";
import { findRegistry } from "../assets.ts";
import type { BuildProgress } from "../build.ts";
import { type CertificateAuthority, createAuthority, type KeyPair } from "../certificates.ts";
import { removeAfterUs } from "../process.ts";
import type { ImageBuilder } from "./image-builder.ts";
import { toContent } from "./image-content.ts";
import { RegistryLifecycle } from "./lifecycle.ts";
import { type RegistryRequests, RequestLog } from "./request-log.ts";
import { pushContent } from "./server.ts";
import type { RegistryUser } from "./users.ts";

/** How a registry is reached, and by whom. */
export interface TestRegistryOptions {
  /** Port on 127.0.0.1. Default: a free one. */
  readonly port?: number;
  /**
   * https instead of http: `true` with an authority of its own, else with this one (`cluster.authority`). The
   * certificate is for `127.0.0.1`, `localhost` and `names`. Default false.
   */
  readonly tls?: boolean | CertificateAuthority;
  /** Other names by which clients reach it, such as through a proxy. Default none. */
  readonly names?: readonly string[];
  /** Only these may read, by basic authentication (`REGISTRY_USER` is one to take). Default: everybody may. */
  readonly users?: readonly RegistryUser[];
  /** For it to become ready, not counting a first build. Milliseconds, default 30,000. */
  readonly timeoutMs?: number;
  /** Environment to find the program in (see `assets.ts`). Default that of this process. */
  readonly env?: Readonly<Record<string, string | undefined>>;
  /** Told about once a second while the registry is being built, never otherwise. */
  readonly onProgress?: (progress: BuildProgress) => void;
  readonly signal?: AbortSignal;
}

/** An image in a registry. */
export interface PushedImage {
  /** `127.0.0.1:20001/team/app:1` */
  readonly reference: string;
  /** `127.0.0.1:20001/team/app@sha256:…` */
  readonly pinned: string;
  /** `team/app` */
  readonly repository: string;
  /** Of what the tag names: of the index if there is one. */
  readonly digest: string;
  /** Of the manifests in the index, in its order; none without an index. */
  readonly children: readonly string[];
}

/** A registry of its own. Disposing kills its process, removes its images, and breaks off all connections. */
export interface TestRegistry extends AsyncDisposable {
  /** `127.0.0.1:20001`: what the references of its images begin with. */
  readonly host: string;
  /** `http://127.0.0.1:20001`, or https. */
  readonly url: string;
  /** Whom clients must trust, PEM; `undefined` without TLS. */
  readonly ca: string | undefined;
  /** Log of the process and everything else it has. */
  readonly folder: string;
  /** What clients asked of it since it was started first, stops included. */
  readonly requests: RegistryRequests;
  /** Stores an image; one under the same tag is replaced. Takes some 30 ms. The registry must run. */
  push(image: ImageBuilder): Promise<PushedImage>;
  /** Connections are refused from here on; those that stand are broken off. Does nothing when it is stopped. */
  stop(): Promise<void>;
  /** On the same port with the same images. Does nothing when it runs. */
  start(): Promise<void>;
}

/**
 * A real OCI registry, the reference implementation, on 127.0.0.1. Ready in about 100 ms. It ends with this process,
 * however that ends.
 *
 * @throws MissingAssetsError, BuildFailedError, ComponentFailedError; nothing is left then.
 */
export async function startRegistry(options: TestRegistryOptions = {}): Promise<TestRegistry> {
  const { users = [], timeoutMs = 30_000, signal } = options;
  const program = await findRegistry({
    env: options.env ?? process.env,
    ...(options.onProgress ? { onProgress: options.onProgress } : {}),
    ...(signal ? { signal } : {}),
  });
  await using undo = new AsyncDisposableStack();
  const folder = await mkdtemp(path.join(tmpdir(), "berth-registry-"));
  undo.defer(() => rm(folder, { recursive: true, force: true }));
  undo.use(await removeAfterUs(folder));
  const identity = await identityFor(options.tls ?? false, options.names ?? []);
  const requests = new RequestLog();
  const lifecycle = undo.use(
    new RegistryLifecycle(
      { program, folder, users, timeoutMs, ...(signal ? { signal } : {}) },
      { log: requests, ...(identity === undefined ? {} : { tls: identity.pair }) },
      options.port,
    ),
  );
  await lifecycle.start();
  const host = `127.0.0.1:${lifecycle.port}`;
  const owned = undo.move();
  return {
    host,
    url: `${identity === undefined ? "http" : "https"}://${host}`,
    ca: identity?.ca,
    folder,
    requests,
    push: async (builder) => {
      const image = builder.build();
      const content = toContent(image);
      await pushContent(folder, image, content, users[0]);
      const name = `${host}/${image.repository}`;
      const { digest } = content.root;
      return {
        reference: `${name}:${image.tag}`,
        pinned: `${name}@${digest}`,
        repository: image.repository,
        digest,
        children: content.children.map((child) => child.digest),
      };
    },
    stop: () => lifecycle.stop(),
    start: () => lifecycle.start(),
    [Symbol.asyncDispose]: () => owned.disposeAsync(),
  };
}

interface ServingIdentity {
  readonly ca: string;
  readonly pair: KeyPair;
}

async function identityFor(
  tls: boolean | CertificateAuthority,
  names: readonly string[],
): Promise<ServingIdentity | undefined> {
  if (tls === false) return undefined;
  const authority = tls === true ? await createAuthority() : tls;
  return {
    ca: authority.certificate,
    pair: await authority.issueServing(["127.0.0.1", "localhost", ...names]),
  };
}
