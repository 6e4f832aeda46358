/**
 * Parses image names as container runtimes do: the grammar of github.com/distribution/reference (regexp.go) and its
 * rules for short names (normalize.go). containerd, CRI-O and kubelet use the same rules.
 */
import { RegistryError } from "./failure.ts";
import type { ImageReference } from "./types.ts";

const HUB = "docker.io";
/** The first name of the Docker Hub, still used in image names and in docker configs. */
const LEGACY_HUB = "index.docker.io";
const OFFICIAL = "library/";
const DEFAULT_TAG = "latest";
/** `RepositoryNameTotalLengthMax` of distribution/reference. It does not count the registry. */
const MAX_REPOSITORY_LENGTH = 255;
/** A host of 253, a port, a repository of 255, a tag of 128 and a sha512 digest are less than half of this. */
const MAX_NAME_LENGTH = 2_048;
const MAX_QUOTED_LENGTH = 200;

const PATH_COMPONENT = "[a-z0-9]+(?:(?:[._]|__|-+)[a-z0-9]+)*";
const HOST_LABEL = "(?:[a-zA-Z0-9]|[a-zA-Z0-9][a-zA-Z0-9-]*[a-zA-Z0-9])";
const ADDRESS_6 = "\\[[a-fA-F0-9:]+\\]";
const HEX_64 = /^[a-f0-9]{64}$/;
/** In the grammar a host with an underscore is no host name, but passes as part of the path. So it does here. */
const REGISTRY = new RegExp(
  `^(?:(?:${HOST_LABEL}(?:\\.${HOST_LABEL})*|${ADDRESS_6})(?::[0-9]+)?|${PATH_COMPONENT})$`,
);
const REPOSITORY = new RegExp(`^${PATH_COMPONENT}(?:/${PATH_COMPONENT})*$`);
const TAG = /^\w[\w.-]{0,127}$/;
/** The algorithms that the OCI image specification registers, "Registered Algorithms". */
const DIGEST = /^(?:sha256:[a-f0-9]{64}|sha512:[a-f0-9]{128})$/;

/** Whether `text` is a digest that names content: `sha256:` or `sha512:` and its lower-case hexadecimals. */
export function isDigest(text: string): boolean {
  return DIGEST.test(text);
}

/**
 * Parses an image name and completes it: `nginx` is `nginx` of `docker.io/library`, tag `latest`. A tag beside a digest
 * is kept but has no effect: the digest counts.
 *
 * @throws RegistryError `invalidName`, with a sentence that names the invalid part.
 */
export function parseReference(name: string): ImageReference {
  if (name === "") throw invalid(name, "it is empty");
  if (name.length > MAX_NAME_LENGTH) throw invalid(name, `it is longer than ${MAX_NAME_LENGTH} characters`);
  if (HEX_64.test(name))
    throw invalid(name, "64 hexadecimals are the id of an image on one machine, not a name");
  const { registry, rest } = splitRegistry(name);
  const { repository, tag, digest } = splitRest(rest);
  if (!REGISTRY.test(registry)) throw invalid(name, `${quoted(registry)} is no host name of a registry`);
  checkRepository(name, repository);
  if (tag !== undefined && !TAG.test(tag)) {
    throw invalid(name, `the tag ${quoted(tag)} is not valid: at most 128 letters, digits, "_", "." and "-"`);
  }
  if (digest !== undefined && !isDigest(digest)) {
    throw invalid(
      name,
      `the digest ${quoted(digest)} is not valid: "sha256:" and 64, or "sha512:" and 128 lower-case hexadecimals`,
    );
  }
  if (digest !== undefined) return { registry, repository, ...(tag === undefined ? {} : { tag }), digest };
  return { registry, repository, tag: tag ?? DEFAULT_TAG };
}

/** The full name: `docker.io/library/nginx:latest`, `ghcr.io/a/b@sha256:…`, or with both tag and digest. */
export function referenceText({ registry, repository, tag, digest }: ImageReference): string {
  const tagged = tag === undefined ? "" : `:${tag}`;
  return `${registry}/${repository}${tagged}${digest === undefined ? "" : `@${digest}`}`;
}

/** The text before the first slash is a registry if it cannot be part of a Docker Hub repository. */
function splitRegistry(name: string): { readonly registry: string; readonly rest: string } {
  const slash = name.indexOf("/");
  if (slash < 0) return { registry: HUB, rest: OFFICIAL + name };
  const first = name.slice(0, slash);
  const isRegistry = first === "localhost" || /[.:]/.test(first) || first.toLowerCase() !== first;
  const registry = !isRegistry || first === LEGACY_HUB ? HUB : first;
  const rest = isRegistry ? name.slice(slash + 1) : name;
  return { registry, rest: registry === HUB && !rest.includes("/") ? OFFICIAL + rest : rest };
}

/** `repository[:tag][@digest]`. Tags and repositories hold no `@`, and repositories no `:`. */
function splitRest(rest: string): {
  readonly repository: string;
  readonly tag: string | undefined;
  readonly digest: string | undefined;
} {
  const at = rest.indexOf("@");
  const named = at < 0 ? rest : rest.slice(0, at);
  const colon = named.indexOf(":");
  return {
    repository: colon < 0 ? named : named.slice(0, colon),
    tag: colon < 0 ? undefined : named.slice(colon + 1),
    digest: at < 0 ? undefined : rest.slice(at + 1),
  };
}

function checkRepository(name: string, repository: string): void {
  if (repository.length > MAX_REPOSITORY_LENGTH) {
    throw invalid(name, `its repository is longer than ${MAX_REPOSITORY_LENGTH} characters`);
  }
  if (REPOSITORY.test(repository)) return;
  if (REPOSITORY.test(repository.toLowerCase())) {
    throw invalid(name, `its repository ${quoted(repository)} has to be in lower case`);
  }
  if (repository === "") throw invalid(name, "it names no repository");
  throw invalid(
    name,
    `its repository ${quoted(repository)} is not valid: lower-case letters and digits, separated by "/", "." "_", "__" or "-"`,
  );
}

function invalid(name: string, why: string): RegistryError {
  return new RegistryError("invalidName", `${quoted(name)} is not an image name: ${why}`, { registry: "" });
}

/** Escapes any text for use in one line. */
function quoted(text: string): string {
  return JSON.stringify(text.length > MAX_QUOTED_LENGTH ? `${text.slice(0, MAX_QUOTED_LENGTH)}…` : text);
}
