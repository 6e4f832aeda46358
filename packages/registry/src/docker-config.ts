/**
 * Docker's format for credentials, and kubelet's rules for the credentials of an image
 * (kubernetes/pkg/credentialprovider: config.go, keyring.go). Kubelet rejects a whole config for one bad entry. Here
 * the other entries count, and the bad one is reported. Pure.
 */
import { fieldOf, isRecord, type JsonLimits, parseJson } from "./json-document.ts";
import type { ImageReference, RegistryCredential } from "./types.ts";

/** Named as the types of Secrets: with `auths` as a wrapper, or without. */
export type DockerConfigFormat = "dockerconfigjson" | "dockercfg";

/** The parsed config. */
export interface DockerConfig {
  readonly entries: readonly DockerConfigEntry[];
  /** Sentences for the author of the config. They name hosts, and quote nothing else of the config. */
  readonly problems: readonly string[];
  /** Programs that have the credentials of a host. Run only those of a config that the operator wrote. */
  readonly helpers?: readonly DockerConfigHelper[];
}

/** `credHelpers: { "gcr.io": "gcloud" }`: the program `docker-credential-gcloud` has the credential. */
export interface DockerConfigHelper {
  readonly host: string;
  readonly name: string;
}

/** A registry or a part of one. */
export interface Place {
  /** `ghcr.io`, `registry.example.com:5000`, `*.example.com`: exact but for `*` within a label of the name. */
  readonly host: string;
  /** Required start of the image's path: `/team`, or empty for all. */
  readonly path: string;
}

/** One credential and the place that it is for. */
export interface DockerConfigEntry extends Place {
  readonly credential: RegistryCredential;
}

/** 1 MiB is the limit of a Secret; kubelet's own files may be ten times as large. */
const LIMITS: JsonLimits = { maxBytes: 1024 * 1024, maxDepth: 64 };
/** One per registry or project: the largest real configs have some hundreds. */
const MAX_ENTRIES = 1_000;
/** The key of the Docker Hub in a config that `docker login` wrote: `https://index.docker.io/v1/`. */
const HUB_KEY = "index.docker.io";
const HUB = "docker.io";

/** Parses a config. Never throws: `problems` lists entries that cannot be used, without secrets. */
export function parseDockerConfig(text: string, format: DockerConfigFormat): DockerConfig {
  const document = parseJson(new TextEncoder().encode(text), LIMITS);
  if (!document.ok) return { entries: [], problems: [`the docker config is ${document.why}`] };
  const auths = format === "dockercfg" ? document.value : (fieldOf(document.value, "auths") ?? {});
  if (!isRecord(document.value) || !isRecord(auths)) {
    return { entries: [], problems: ["the docker config is no object with an entry for each registry"] };
  }
  const { helpers, problems } = helpersOf(document.value);
  const isEmpty = (value: unknown): boolean => isRecord(value) && Object.keys(value).length === 0;
  // `docker login` leaves an empty entry for a host with a helper.
  const pairs = Object.entries(auths).filter(
    ([location, value]) =>
      !isEmpty(value) || helpers.every(({ host }) => host !== parsePlace(location)?.host),
  );
  const config = entriesOf(pairs);
  return {
    entries: config.entries,
    problems: [...config.problems, ...problems],
    ...(helpers.length > 0 && { helpers }),
  };
}

/** The name of a helper becomes a part of a file name. */
const HELPER = /^[A-Za-z0-9][\w.-]{0,63}$/;

function helpersOf(document: unknown): Required<Pick<DockerConfig, "helpers" | "problems">> {
  const given = fieldOf(document, "credHelpers") ?? {};
  const pairs = isRecord(given) ? Object.entries(given).slice(0, MAX_ENTRIES) : [];
  const helpers = pairs.flatMap(([location, name]) => {
    const host = parsePlace(location)?.host;
    return host !== undefined && typeof name === "string" && HELPER.test(name) ? [{ host, name }] : [];
  });
  if (isRecord(given) && helpers.length === Object.keys(given).length) return { helpers, problems: [] };
  return { helpers, problems: ["the credHelpers of the docker config have an entry that cannot be used"] };
}

/** The entries by place. Bad ones become problems. */
export function entriesOf(
  pairs: readonly (readonly [place: string, value: unknown])[],
): Pick<DockerConfig, "entries" | "problems"> {
  const parsed = pairs.slice(0, MAX_ENTRIES).map(([location, value]) => parseEntry(location, value));
  const problems = parsed.filter((entry) => typeof entry === "string");
  if (pairs.length > MAX_ENTRIES)
    problems.push(`the docker config has more than ${MAX_ENTRIES} entries: the rest is not used`);
  return { entries: parsed.filter((entry) => typeof entry !== "string"), problems };
}

/**
 * The credentials to try for an image, in kubelet's order: the most specific place first, then the order of the
 * configs; each once. If no place matches, an image of the Docker Hub gets those of `index.docker.io`.
 *
 * `configs` are one keyring. Kubelet has two, the pod's Secrets and then the node's own. Call this for each, and try
 * the Secrets' credentials first.
 */
export function credentialsFor(
  configs: readonly DockerConfig[],
  reference: ImageReference,
): readonly RegistryCredential[] {
  const entries = configs.flatMap((config) => config.entries);
  const matching = entries.filter((entry) => isPlaceOf(entry, reference));
  const ofTheHub =
    reference.registry === HUB ? entries.filter(({ host, path }) => host === HUB_KEY && path === "") : [];
  const found = matching.length > 0 ? matching.toSorted(moreSpecificFirst) : ofTheHub;
  return withoutDuplicates(found.map(({ credential }) => credential));
}

/**
 * Whether an image belongs to a registry or a part of one: `ghcr.io`, `*.example.com`, `docker.io/library`. Hosts match
 * as in docker configs, paths by whole segments: `ghcr.io/team` is not `ghcr.io/team-two`.
 */
export function isOf(place: string, { registry, repository }: ImageReference): boolean {
  const [host = "", ...path] = place.split("/");
  return hostMatches(host, registry) && `${repository}/`.startsWith(path.map((part) => `${part}/`).join(""));
}

/** Whether an image belongs to a place as in docker configs and `matchImages`: `/team` is also the start of `/team-two`. */
export function isPlaceOf({ host, path }: Place, { registry, repository }: ImageReference): boolean {
  return hostMatches(host, registry) && `/${repository}`.startsWith(path);
}

/** The entry, or a sentence why it cannot be used. */
function parseEntry(location: string, value: unknown): DockerConfigEntry | string {
  const place = parsePlace(location);
  if (place === undefined)
    return "an entry of the docker config is for a place that is no host name: it is not used";
  const credential = parseCredential(value);
  if (typeof credential !== "string") return { ...place, credential };
  return `the entry for ${place.host}${place.path} of the docker config ${credential}: it is not used`;
}

/**
 * `https://quay.io/v1/` means all of `quay.io`, as for Docker. Rejects text that may be a password
 * (`user:password@host`) or cannot be shown.
 */
export function parsePlace(location: string): Place | undefined {
  const [, host = "", rest = ""] = /^(?:https?:\/\/)?([^/?#]*)([^?#]*)/.exec(location) ?? [];
  if (!/^(?:[\w.*-]+|\[[0-9a-fA-F:]+\])(?::[0-9]+)?$/.test(host) || host.length > 300) return undefined;
  const path = /^\/v[12]\//.test(rest) ? rest.slice(3) : rest;
  if (path === "" || path === "/") return { host, path: "" };
  return /^\/[\w.:/-]{0,300}$/.test(path) ? { host, path } : undefined;
}

/** The credential, or half a sentence why there is none. */
function parseCredential(value: unknown): RegistryCredential | string {
  const text = (name: string): string => {
    const field = fieldOf(value, name);
    return typeof field === "string" ? field : "";
  };
  const basic = text("auth") === "" ? [text("username"), text("password")] : decodeAuth(text("auth"));
  if (basic === undefined) return "has an auth that is not the base64 of user:password";
  const [username = "", password = ""] = basic;
  const [identityToken, registryToken] = [text("identitytoken"), text("registrytoken")];
  // The token is sent unchanged, so a line break in it could add headers.
  if (/[^\x21-\x7e]/.test(registryToken)) return "has a registrytoken that cannot be sent";
  if (`${username}${password}${identityToken}${registryToken}` === "") {
    return "holds no credential";
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

/** Compares label by label: `*` matches within one label (`*.example.com` not `a.b.example.com`). Ports are exact. */
function hostMatches(glob: string, host: string): boolean {
  const [wanted, actual] = [splitPort(glob), splitPort(host)];
  if (wanted.port !== actual.port || wanted.labels.length !== actual.labels.length) return false;
  return wanted.labels.every((label, index) => labelMatches(label, actual.labels[index] ?? ""));
}

function splitPort(host: string): { readonly labels: readonly string[]; readonly port: string } {
  const [, name = "", port = ""] = /^(\[[^\]]*\]|[^:]*)(?::([0-9]+))?$/.exec(host) ?? [];
  return { labels: name.split("."), port };
}

/** In one pass: a glob with many stars costs no more than its length. */
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

/** Kubelet's order: places as text, reversed, so `quay.io/coreos` is before `quay.io`, and that before `*.io`. */
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
