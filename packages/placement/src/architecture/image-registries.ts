/** `ImageRegistries`: how registries are reached, and how long what they said counts. A document of files only; at most one. */
import path from "node:path";
import { type DocumentKind, duration, durationMs, onlyOne } from "@berth/host";
import { parseReference } from "@berth/registry";
import * as z from "zod";

/** How one registry is reached. Whatever is not listed is reached by https, with the authorities of the system. */
export interface RegistrySpec {
  /**
   * As image names have it: `docker.io`, `registry.example:5000`. A host that is listed may be at any address, this machine's
   * included. List token and storage servers in the same way.
   */
  readonly registry: string;
  /**
   * Asked before it, in this order: `https://mirror.example`, with a path that is put before repositories or without.
   * They get no credentials. Default none.
   */
  readonly mirrors: readonly string[];
  /** PEM file of the authorities that it and its mirrors are trusted by, beside those of the system. */
  readonly certificateAuthority?: string | undefined;
  /** It speaks http and not https. Default false; registries of this machine's loopback may speak either. */
  readonly plainHttp: boolean;
}

export interface ImageRegistriesSpec {
  /** Default none. */
  readonly registries: readonly RegistrySpec[];
  /** Images are looked up only of these: `ghcr.io`, `*.example.com`, `docker.io/library`. Default all. */
  readonly allowedRegistries?: readonly string[] | undefined;
  /** A docker config whose credentials are for all pods, as those of a node are. Read again when it changes. Default none. */
  readonly dockerConfig?: string | undefined;
  /** How long a tag stands for what it was found to stand for. Default `6h`. */
  readonly tagTtl: string;
  /** The same for `imagePullPolicy: Always`. Default `5m`. */
  readonly alwaysTtl: string;
  /** Of each request to a registry. Default `10s`. */
  readonly timeout: string;
}

const MAX_REGISTRIES = 64;
const MAX_MIRRORS = 8;
const MAX_ALLOWED = 256;
const LONGEST_TIMEOUT_MS = 300_000;

/** The domain of an image name, as the reference grammar of distribution has it: host or IPv6 address, and port. */
const REGISTRY =
  /^(?:[A-Za-z0-9](?:[-A-Za-z0-9]*[A-Za-z0-9])?(?:\.[A-Za-z0-9](?:[-A-Za-z0-9]*[A-Za-z0-9])?)*|\[[0-9A-Fa-f:]+\])(?::\d{1,5})?$/;

/** A host, in which `*` stands for any part of a label, and port; then path segments. */
const PLACE = /^(?:[A-Za-z0-9.*-]+|\[[0-9A-Fa-f:]+\])(?::\d{1,5})?(?:\/[a-z0-9][a-z0-9._-]*)*$/;

function isMirror(text: string): boolean {
  const url = URL.parse(text);
  if (url === null || (url.protocol !== "https:" && url.protocol !== "http:")) return false;
  return url.username === "" && url.password === "" && !/[?#]/.test(text) && url.hostname !== "";
}

/** Whether images are of it by that name: those of `index.docker.io/a/b` and of `hub/a/b` are of `docker.io`. */
function isNamed(text: string): boolean {
  try {
    return parseReference(`${text}/name/of-image`).registry === text;
  } catch {
    // What is no registry at all is reported already.
    return true;
  }
}

const NOT_NAMED =
  "is in no name of an image: the Hub is docker.io there, and so is what has neither dot nor port";

const registry: z.ZodType<RegistrySpec> = z.strictObject({
  registry: z
    .string()
    .max(255)
    .regex(REGISTRY, "must be a registry as image names have it: docker.io, registry.example:5000")
    .refine(isNamed, NOT_NAMED),
  mirrors: z
    .array(
      z.string().max(512).refine(isMirror, "must be http:// or https:// and a host, without user and query"),
    )
    .max(MAX_MIRRORS)
    .readonly()
    .default([]),
  certificateAuthority: z.string().min(1, "must not be empty").optional(),
  plainHttp: z.boolean().default(false),
});

const place = z
  .string()
  .max(512)
  .regex(PLACE, "must be a registry, with * for parts of its name, and a path or none: *.example.com/team")
  .refine((text) => {
    const [host = ""] = text.split("/");
    return host.includes("*") || isNamed(host);
  }, NOT_NAMED);

const spec: z.ZodType<ImageRegistriesSpec> = z
  .strictObject({
    registries: z.array(registry).max(MAX_REGISTRIES).readonly().default([]),
    allowedRegistries: z.array(place).min(1).max(MAX_ALLOWED).readonly().optional(),
    dockerConfig: z.string().min(1, "must not be empty").optional(),
    tagTtl: duration.default("6h"),
    alwaysTtl: duration.default("5m"),
    timeout: duration.default("10s").refine((text) => {
      const ms = durationMs(text);
      return ms > 0 && ms <= LONGEST_TIMEOUT_MS;
    }, "must be more than 0s and at most 5m"),
  })
  .superRefine(({ registries }, context) => {
    const names = registries.map((one) => one.registry);
    for (const [at, name] of names.entries()) {
      const path = ["registries", at, "registry"];
      if (names.indexOf(name) < at)
        context.addIssue({ code: "custom", message: `${name} is there already`, path });
    }
  });

export const imageRegistriesKind: DocumentKind<ImageRegistriesSpec> = {
  kind: "ImageRegistries",
  spec,
  placed({ registries, dockerConfig, ...given }, { folder }) {
    const at = (file: string): string => path.resolve(folder, file);
    return {
      ...given,
      registries: registries.map(({ certificateAuthority: file, ...one }) => ({
        ...one,
        ...(file !== undefined && { certificateAuthority: at(file) }),
      })),
      ...(dockerConfig !== undefined && { dockerConfig: at(dockerConfig) }),
    };
  },
  tooMany: onlyOne("ImageRegistries"),
};

/** What holds without a document. */
export const defaultImageRegistries: ImageRegistriesSpec = spec.parse({});
