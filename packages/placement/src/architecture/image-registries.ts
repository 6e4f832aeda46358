/** `ImageRegistries`: how Berth reaches registries, and how long their answers count. Only in files; at most one. */
import path from "node:path";
import { type DocumentKind, duration, durationMs, onlyOne } from "@berth/host";
import { parseReference } from "@berth/registry";
import * as z from "zod";

const MAX_REGISTRIES = 64;
const MAX_MIRRORS = 8;
const MAX_ALLOWED = 256;
const MAX_VARIABLES = 64;
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

/** Do full image names use this registry name? `index.docker.io/a/b` and `hub/a/b` are images of `docker.io`. */
function isNamed(text: string): boolean {
  try {
    return parseReference(`${text}/name/of-image`).registry === text;
  } catch {
    // The regular expression has already reported a text that is no registry.
    return true;
  }
}

const NOT_NAMED =
  "never names a registry in an image name: use docker.io for the Hub, and for a name with neither dot nor port";

/** How Berth reaches one registry. It reaches all others by https, with the certificate authorities of the system. */
const registry = z.strictObject({
  // A listed host may have any address, even one of this machine. List token and storage servers in the same way.
  registry: z
    .string()
    .max(255)
    .regex(REGISTRY, "must be a registry as image names have it: docker.io, registry.example:5000")
    .refine(isNamed, NOT_NAMED),
  // Berth asks these first, in this order: `https://mirror.example/path`. Mirrors get no credentials.
  mirrors: z
    .array(
      z.string().max(512).refine(isMirror, "must be http:// or https:// and a host, without user and query"),
    )
    .max(MAX_MIRRORS)
    .readonly()
    .default([]),
  // PEM file of certificate authorities for it and its mirrors, in addition to those of the system.
  certificateAuthority: z.string().min(1, "must not be empty").optional(),
  // Registries on the loopback of this machine may use http in any case.
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

// Berth runs these programs without a shell, and gives them only the environment that is named here.
const credentialPlugins = z.strictObject({
  // Folder of the programs: those of `config`, and `docker-credential-NAME` for `credHelpers` of the docker config.
  folder: z.string().min(1, "must not be empty"),
  // A CredentialProviderConfig, as the kubelet has it. Berth reads it when it starts.
  config: z.string().min(1, "must not be empty").optional(),
  // Names of variables of Berth's environment that the programs get.
  environment: z
    .array(
      z
        .string()
        .max(128)
        .regex(/^[A-Za-z_]\w*$/, "must be the name of a variable: AWS_ROLE_ARN"),
    )
    .max(MAX_VARIABLES)
    .readonly()
    .default([]),
});
export type CredentialPluginsSpec = z.infer<typeof credentialPlugins>;

const spec = z
  .strictObject({
    registries: z.array(registry).max(MAX_REGISTRIES).readonly().default([]),
    // Berth looks up images only from these: `ghcr.io`, `*.example.com`, `docker.io/library`. Default all.
    allowedRegistries: z.array(place).min(1).max(MAX_ALLOWED).readonly().optional(),
    // A docker config with credentials for all pods, as a node has. Berth reloads it on changes.
    dockerConfig: z.string().min(1, "must not be empty").optional(),
    // Programs with credentials for all pods, as a node has.
    credentialPlugins: credentialPlugins.optional(),
    // How long Berth trusts what a registry said about a tag; `alwaysTtl`: the same for `imagePullPolicy: Always`.
    tagTtl: duration.default("6h"),
    alwaysTtl: duration.default("5m"),
    // Of each request to a registry.
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
        context.addIssue({ code: "custom", message: `${name} is listed twice`, path });
    }
  });

export type RegistrySpec = z.infer<typeof registry>;
export type ImageRegistriesSpec = z.infer<typeof spec>;

export const imageRegistriesKind: DocumentKind<ImageRegistriesSpec> = {
  kind: "ImageRegistries",
  spec,
  besides: ["kubelet.config.k8s.io"],
  placed({ registries, dockerConfig, credentialPlugins: plugins, ...given }, { folder }) {
    const at = (file: string): string => path.resolve(folder, file);
    return {
      ...given,
      registries: registries.map(({ certificateAuthority: file, ...one }) => ({
        ...one,
        ...(file !== undefined && { certificateAuthority: at(file) }),
      })),
      ...(dockerConfig !== undefined && { dockerConfig: at(dockerConfig) }),
      ...(plugins && {
        credentialPlugins: {
          ...plugins,
          folder: at(plugins.folder),
          ...(plugins.config !== undefined && { config: at(plugins.config) }),
        },
      }),
    };
  },
  tooMany: onlyOne("ImageRegistries"),
};

/** The settings without a document. */
export const defaultImageRegistries: ImageRegistriesSpec = spec.parse({});
