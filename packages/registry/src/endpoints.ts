/** The addresses of a registry: its mirrors, then the registry itself. */
import { X509Certificate } from "node:crypto";
import { RegistryError } from "./failure.ts";
import type { RegistryCredential } from "./types.ts";

/** A server with copies of a registry's images. Berth asks it before the registry, and skips it on failure. */
export interface RegistryMirror {
  /**
   * `https://mirror.example`. A path goes before the repository, as with `location` in registries.conf:
   * `https://harbor.example/hub` becomes `hub/library/nginx`. `http://` only for a loopback host, or with `plainHttp`.
   */
  readonly url: string;
  /** Allow `http://` for a host that is not loopback. Default `false`. */
  readonly plainHttp?: boolean;
  /** Tried in order. Default: none, because a mirror never receives the registry's credentials. */
  readonly credentials?: readonly RegistryCredential[];
}

/** Connection settings of one registry. */
export interface RegistryEndpoint {
  /** Asked in this order before the registry itself. Default: none. */
  readonly mirrors?: readonly RegistryMirror[];
  /** PEM certificates to trust for this registry, its mirrors and its token service, besides the system's. */
  readonly ca?: string;
  /**
   * Use http, not https, for the registry itself; an attacker on the network can then read the credentials. Default:
   * only for `localhost`, `127.0.0.1` and `::1`, and only where no `ca` is given.
   */
  readonly plainHttp?: boolean;
}

/** By the registry's name in image names: `docker.io`, `ghcr.io`, `localhost:5000`. */
export type RegistryEndpoints = Readonly<Record<string, RegistryEndpoint>>;

/** One server to ask for the images of one registry. */
export interface Endpoint {
  /** Scheme, host and port. */
  readonly origin: string;
  /** For messages: `registry-1.docker.io`, `127.0.0.1:5000`. */
  readonly host: string;
  /** Goes before the repository, with its `/`; empty for the registry itself. */
  readonly prefix: string;
  /** Query of each request: `?ns=docker.io` names the registry for a mirror of several (as containerd does). */
  readonly query: string;
  readonly plainHttp: boolean;
  /** PEM, besides the system's authorities. */
  readonly ca: string | undefined;
  /** `registry`: the caller's credentials. Otherwise those of the mirror. */
  readonly credentials: "registry" | readonly RegistryCredential[];
}

/** The server of the images of `docker.io` (fixed in distribution/reference and every client). */
const HUB = { name: "docker.io", host: "registry-1.docker.io" } as const;

/** `localhost`, `127.0.0.1` and `::1`. containerd and docker use plain http for them by default. */
function isLoopback(hostname: string): boolean {
  return /^(localhost|127\.0\.0\.1|\[::1\])$/.test(hostname);
}

/**
 * Returns the servers in the order to ask them: mirrors, then the registry.
 * @throws RegistryError `invalidName` when the registry's name is no host.
 */
export function endpointsFor(registry: string, config: RegistryEndpoint = {}): readonly Endpoint[] {
  const host = registry === HUB.name ? HUB.host : registry;
  const url = urlOf(`https://${host}`);
  if (url === undefined || url.username !== "" || url.href !== `${url.origin}/`)
    throw new RegistryError("invalidName", `"${registry}" is no host of a registry`, { registry: "" });
  const plainHttp = config.plainHttp ?? (isLoopback(url.hostname) && config.ca === undefined);
  const reached = plainHttp ? new URL(`http://${host}`) : url;
  const itself: Endpoint = {
    origin: reached.origin,
    host: reached.host,
    prefix: "",
    query: "",
    plainHttp,
    ca: config.ca,
    credentials: "registry",
  };
  const mirrors = (config.mirrors ?? []).map((mirror) => toEndpoint(mirror, registry, config.ca));
  return [...mirrors, itself];
}

/**
 * Refuses a configuration whose error would show only when images fail.
 * @throws TypeError that names the registry and the URL.
 */
export function checkEndpoints(endpoints: RegistryEndpoints): void {
  for (const [registry, config] of Object.entries(endpoints)) {
    try {
      endpointsFor(registry, config);
    } catch (error) {
      if (error instanceof RegistryError) throw new TypeError(error.message, { cause: error });
      throw error;
    }
    if (config.ca !== undefined && !isCertificate(config.ca))
      throw new TypeError(`the authority for ${registry} is not a PEM certificate`);
  }
}

function toEndpoint(mirror: RegistryMirror, registry: string, ca: string | undefined): Endpoint {
  const url = urlOf(mirror.url);
  const named = `the mirror "${redacted(url)}" of ${registry}`;
  if (url === undefined || !/^https?:$/.test(url.protocol)) throw new TypeError(`${named} is no http(s) URL`);
  if (url.username !== "" || url.password !== "" || url.search !== "" || url.hash !== "")
    throw new TypeError(`${named} has more than scheme, host and path`);
  const plainHttp = url.protocol === "http:";
  if (plainHttp && mirror.plainHttp !== true && !isLoopback(url.hostname))
    throw new TypeError(`${named} is not https: set plainHttp to allow that`);
  const path = url.pathname.replaceAll(/^\/+|\/+$/g, "");
  return {
    origin: url.origin,
    host: url.host,
    prefix: path === "" ? "" : `${path}/`,
    query: `?ns=${encodeURIComponent(registry)}`,
    plainHttp,
    ca,
    credentials: mirror.credentials ?? [],
  };
}

function isCertificate(pem: string): boolean {
  try {
    return new X509Certificate(pem).subject !== undefined;
  } catch {
    return false;
  }
}

function redacted(url: URL | undefined): string {
  return url === undefined ? "(unreadable)" : `${url.protocol}//${url.host}${url.pathname}`;
}

function urlOf(text: string): URL | undefined {
  return URL.canParse(text) ? new URL(text) : undefined;
}
