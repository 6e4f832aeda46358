/** Where a registry is reached: its mirrors, then itself. */
import { X509Certificate } from "node:crypto";
import { RegistryError } from "./failure.ts";
import type { RegistryCredential } from "./types.ts";

/** A server that has copies of a registry's images. Asked before the registry, and skipped when it fails. */
export interface RegistryMirror {
  /**
   * `https://mirror.example`. A path is put before the repository, as by `location` in registries.conf:
   * `https://harbor.example/hub` is asked for `hub/library/nginx`. `http://` only of a loopback host, or with `plainHttp`.
   */
  readonly url: string;
  /** Allow `http://` for a host that is not loopback. Default `false`. */
  readonly plainHttp?: boolean;
  /** Tried in order. Default: none, for a registry's credentials are not sent to its mirrors. */
  readonly credentials?: readonly RegistryCredential[];
}

/** How one registry is reached. */
export interface RegistryEndpoint {
  /** Asked in this order before the registry itself. Default: none. */
  readonly mirrors?: readonly RegistryMirror[];
  /** PEM certificates to trust for this registry, its mirrors and its token service, besides those of the system. */
  readonly ca?: string;
  /**
   * Speak http and not https to the registry itself: whoever is on the path can read the credentials.
   * Default: only to `localhost`, `127.0.0.1` and `::1`, and only where no `ca` is given.
   */
  readonly plainHttp?: boolean;
}

/** By the registry's name in image names: `docker.io`, `ghcr.io`, `localhost:5000`. */
export type RegistryEndpoints = Readonly<Record<string, RegistryEndpoint>>;

/** One server to ask for the images of one registry. */
export interface Endpoint {
  /** Scheme, host and port. */
  readonly origin: string;
  /** As people know it: `registry-1.docker.io`, `127.0.0.1:5000`. */
  readonly host: string;
  /** Put before the repository, with its `/`; empty for the registry itself. */
  readonly prefix: string;
  /** Added to each request: `?ns=docker.io` tells a mirror of several registries which one is meant (containerd does so). */
  readonly query: string;
  readonly plainHttp: boolean;
  /** PEM besides the system's. */
  readonly ca: string | undefined;
  /** `registry`: the caller's credentials. Else those of the mirror. */
  readonly credentials: "registry" | readonly RegistryCredential[];
}

/** Where the images of `docker.io` are (distribution/reference and every client know it by heart). */
const HUB = { name: "docker.io", host: "registry-1.docker.io" } as const;

/** `localhost`, `127.0.0.1` and `::1`, the hosts that containerd and docker speak plain http to unasked. */
function isLoopback(hostname: string): boolean {
  return /^(localhost|127\.0\.0\.1|\[::1\])$/.test(hostname);
}

/**
 * In the order to ask them: mirrors, then the registry.
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
 * Refuses a configuration that would only show as failing images.
 * @throws TypeError saying which registry and which URL.
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
      throw new TypeError(`what is to be trusted for ${registry} is no PEM certificate`);
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
