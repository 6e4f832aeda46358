/**
 * Credentials as Docker keeps them, and kubelet's rules for which of them an image is pulled with
 * (kubernetes/pkg/credentialprovider: config.go, keyring.go). Where kubelet gives up on a whole config for one bad
 * entry, the others count here, and the bad one is told. Pure.
 */
import { fieldOf, isRecord, type JsonLimits, parseJson } from "./json-document.ts";
import type { ImageReference, RegistryCredential } from "./types.ts";

/** As the types of Secrets name them: with `auths` around the entries, or without. */
export type DockerConfigFormat = "dockerconfigjson" | "dockercfg";

/** What a config holds. */
export interface DockerConfig {
  readonly entries: readonly DockerConfigEntry[];
  /** Sentences for whoever wrote it. They name hosts, and hold nothing else of the config. */
  readonly problems: readonly string[];
}

/** One credential and where it is good for. */
export interface DockerConfigEntry {
  /** `ghcr.io`, `registry.example.com:5000`, `*.example.com`: exact but for `*` within a label of the name. */
  readonly host: string;
  /** What the path of the image begins with: `/team`, or empty for all. */
  readonly path: string;
  readonly credential: RegistryCredential;
}

/** 1 MiB is what a Secret can hold; kubelet's own files are limited to ten times that. */
const LIMITS: JsonLimits = { maxBytes: 1024 * 1024, maxDepth: 64 };
/** One per registry or project: the largest in use have some hundreds. */
const MAX_ENTRIES = 1_000;
/** The key of the Hub in a config that `docker login` wrote: `https://index.docker.io/v1/`. */
const HUB_KEY = "index.docker.io";
const HUB = "docker.io";

/** Reads a config. Never throws: what cannot be used is told in `problems`, without anything secret. */
export function parseDockerConfig(text: string, format: DockerConfigFormat): DockerConfig {
  const document = parseJson(new TextEncoder().encode(text), LIMITS);
  if (!document.ok) return { entries: [], problems: [`the docker config is ${document.why}`] };
  const auths = format === "dockercfg" ? document.value : (fieldOf(document.value, "auths") ?? {});
  if (!isRecord(document.value) || !isRecord(auths)) {
    return { entries: [], problems: ["the docker config is no object with an entry for each registry"] };
  }
  const pairs = Object.entries(auths);
  const parsed = pairs.slice(0, MAX_ENTRIES).map(([location, value]) => parseEntry(location, value));
  const problems = parsed.filter((entry) => typeof entry === "string");
  if (pairs.length > MAX_ENTRIES)
    problems.push(`the docker config has more than ${MAX_ENTRIES} entries: the rest is not used`);
  return { entries: parsed.filter((entry) => typeof entry !== "string"), problems };
}

/**
 * The credentials to try for an image, in kubelet's order: those of the most specific place first, and of each place in
 * the order of the configs; each once. Where no place matches, an image of the Hub gets those of `index.docker.io`.
 *
 * `configs` are one keyring. Kubelet has two, the pod's Secrets and then the node's own: ask for each, and try the
 * Secrets' first.
 */
export function credentialsFor(
  configs: readonly DockerConfig[],
  reference: ImageReference,
): readonly RegistryCredential[] {
  const entries = configs.flatMap((config) => config.entries);
  const path = `/${reference.repository}`;
  const matching = entries.filter(
    (entry) => hostMatches(entry.host, reference.registry) && path.startsWith(entry.path),
  );
  const ofTheHub =
    reference.registry === HUB ? entries.filter(({ host, path }) => host === HUB_KEY && path === "") : [];
  const found = matching.length > 0 ? matching.toSorted(moreSpecificFirst) : ofTheHub;
  return withoutDuplicates(found.map(({ credential }) => credential));
}

/**
 * Whether an image is of a registry or of a part of one: `ghcr.io`, `*.example.com`, `docker.io/library`. Hosts match as in
 * docker configs, paths by whole segments: `ghcr.io/team` is not `ghcr.io/team-two`.
 */
export function isOf(place: string, { registry, repository }: ImageReference): boolean {
  const [host = "", ...path] = place.split("/");
  return hostMatches(host, registry) && `${repository}/`.startsWith(path.map((part) => `${part}/`).join(""));
}

/** A sentence where it cannot be used. */
function parseEntry(location: string, value: unknown): DockerConfigEntry | string {
  const place = parseLocation(location);
  if (place === undefined)
    return "an entry of the docker config is for a place that is no host name: it is not used";
  const credential = parseCredential(value);
  if (typeof credential !== "string") return { ...place, credential };
  return `the entry for ${place.host}${place.path} of the docker config ${credential}: it is not used`;
}

/**
 * `https://quay.io/v1/` is all of `quay.io`, as for Docker. Text that could be a password (`user:password@host`) or could
 * not be shown is no place.
 */
function parseLocation(location: string): { readonly host: string; readonly path: string } | undefined {
  const [, host = "", rest = ""] = /^(?:https?:\/\/)?([^/?#]*)([^?#]*)/.exec(location) ?? [];
  if (!/^(?:[\w.*-]+|\[[0-9a-fA-F:]+\])(?::[0-9]+)?$/.test(host) || host.length > 300) return undefined;
  const path = /^\/v[12]\//.test(rest) ? rest.slice(3) : rest;
  if (path === "" || path === "/") return { host, path: "" };
  return /^\/[\w.:/-]{0,300}$/.test(path) ? { host, path } : undefined;
}

/** Half a sentence where there is none. */
function parseCredential(value: unknown): RegistryCredential | string {
  const text = (name: string): string => {
    const field = fieldOf(value, name);
    return typeof field === "string" ? field : "";
  };
  const basic = text("auth") === "" ? [text("username"), text("password")] : decodeAuth(text("auth"));
  if (basic === undefined) return "has an auth that is not the base64 of user:password";
  const [username = "", password = ""] = basic;
  const [identityToken, registryToken] = [text("identitytoken"), text("registrytoken")];
  // It is sent as it is: one with a line break in it would write headers of its own.
  if (/[^\x21-\x7e]/.test(registryToken)) return "has a registrytoken that cannot be sent";
  if (`${username}${password}${identityToken}${registryToken}` === "") {
    return "holds no credential (credential helpers are not run)";
  }
  return {
    ...(username === "" ? {} : { username }),
    ...(password === "" ? {} : { password }),
    ...(identityToken === "" ? {} : { identityToken }),
    ...(registryToken === "" ? {} : { registryToken }),
  };
}

/** Base64 with or without padding, of `user:password`; the password may hold colons. */
function decodeAuth(auth: string): readonly [username: string, password: string] | undefined {
  const base64 = auth.replace(/\s/g, "");
  if (!/^[A-Za-z0-9+/]+={0,2}$/.test(base64)) return undefined;
  const decoded = Buffer.from(base64, "base64").toString("utf8");
  const colon = decoded.indexOf(":");
  return colon < 0 ? undefined : [decoded.slice(0, colon), decoded.slice(colon + 1)];
}

/** Label by label, each exact but for `*`, and the port exactly: `*.example.com` is neither `example.com` nor `a.b.example.com`. */
function hostMatches(glob: string, host: string): boolean {
  const [wanted, actual] = [splitPort(glob), splitPort(host)];
  if (wanted.port !== actual.port || wanted.labels.length !== actual.labels.length) return false;
  return wanted.labels.every((label, index) => labelMatches(label, actual.labels[index] ?? ""));
}

function splitPort(host: string): { readonly labels: readonly string[]; readonly port: string } {
  const [, name = "", port = ""] = /^(\[[^\]]*\]|[^:]*)(?::([0-9]+))?$/.exec(host) ?? [];
  return { labels: name.split("."), port };
}

/** In one pass: a glob of many stars costs no more than its length. */
function labelMatches(glob: string, label: string): boolean {
  const [first = "", ...rest] = glob.split("*");
  const last = rest.pop();
  if (last === undefined) return glob === label;
  if (label.length < first.length + last.length || !label.startsWith(first) || !label.endsWith(last))
    return false;
  let from = first.length;
  for (const part of rest) {
    const at = label.indexOf(part, from);
    if (at < 0) return false;
    from = at + part.length;
  }
  return from <= label.length - last.length;
}

/** Kubelet's: places as text, in reverse, so that `quay.io/coreos` comes before `quay.io`, and `quay.io` before `*.io`. */
function moreSpecificFirst(a: DockerConfigEntry, b: DockerConfigEntry): number {
  const [left, right] = [a.host + a.path, b.host + b.path];
  if (left === right) return 0;
  return left > right ? -1 : 1;
}

function withoutDuplicates(credentials: readonly RegistryCredential[]): readonly RegistryCredential[] {
  const unique = new Map<string, RegistryCredential>();
  for (const credential of credentials) {
    const { username, password, identityToken, registryToken } = credential;
    const key = JSON.stringify([username, password, identityToken, registryToken]);
    if (!unique.has(key)) unique.set(key, credential);
  }
  return [...unique.values()];
}
