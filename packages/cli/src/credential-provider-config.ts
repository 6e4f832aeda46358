/** The kubelet's CredentialProviderConfig, as a file of its own. */
import { readFile } from "node:fs/promises";
import { type CredentialProvider, parseGoDuration, parsePlace } from "@berth/registry";
import { parse } from "yaml";
import * as z from "zod";
import { CommandError, exitCodes } from "./exit-codes.ts";

const MAX_PROVIDERS = 32;
const MAX_TEXT = 4096;

const duration = z.string().transform((text, context) => {
  const ms = parseGoDuration(text);
  if (ms === undefined)
    context.addIssue({ code: "custom", message: "must be a duration such as 12h or 5m0s" });
  return ms ?? 0;
});

const variables = z
  .array(z.strictObject({ name: z.string().min(1).max(128), value: z.string().max(MAX_TEXT).default("") }))
  .max(64)
  .default([])
  .transform((given) => Object.fromEntries(given.map(({ name, value }) => [name, value])));

/** The protocol has three versions, which differ in their name alone as far as Berth uses them. */
const provider = z
  .strictObject({
    name: z
      .string()
      .regex(
        /^[A-Za-z0-9_][\w.-]{0,127}$/,
        "must be the name of a program in the folder of credentialPlugins",
      ),
    apiVersion: z
      .string()
      .regex(/^credentialprovider\.kubelet\.k8s\.io\/v1(?:alpha1|beta1)?$/, "is not known"),
    matchImages: z
      .array(
        z.string().refine((text) => parsePlace(text) !== undefined, "must be a host, and a path or none"),
      )
      .min(1)
      .max(256),
    defaultCacheDuration: duration,
    args: z.array(z.string().max(MAX_TEXT)).max(64).nullish(),
    env: variables,
    tokenAttributes: z
      .undefined("is not supported: Berth has no permission to make tokens of service accounts")
      .optional(),
  })
  .transform(
    ({ name, apiVersion, matchImages, defaultCacheDuration, args, env }): CredentialProvider => ({
      name,
      apiVersion,
      matchImages,
      defaultCacheMs: defaultCacheDuration,
      args: args ?? [],
      env,
    }),
  );

const config = z.strictObject({
  apiVersion: z.string().regex(/^kubelet\.config\.k8s\.io\/v1(?:alpha1|beta1)?$/, "is not known"),
  kind: z.literal("CredentialProviderConfig"),
  providers: z
    .array(provider)
    .min(1)
    .max(MAX_PROVIDERS)
    .refine((given) => new Set(given.map(({ name }) => name)).size === given.length, "has a name twice"),
});

/** @throws CommandError when the file cannot be read, with all its faults. These repeat no value of the file. */
export async function readCredentialProviders(file: string): Promise<readonly CredentialProvider[]> {
  const refuse = (why: string): never => {
    throw new CommandError(`the credential providers of ${file}: ${why}`, exitCodes.faults);
  };
  const text = await readFile(file, "utf8").catch((error: NodeJS.ErrnoException) =>
    refuse(`the file cannot be read: ${error.code ?? "unknown"}`),
  );
  let document: unknown;
  try {
    document = parse(text, { version: "1.1", logLevel: "error" });
  } catch {
    return refuse("the file is not YAML");
  }
  const parsed = config.safeParse(document);
  if (parsed.success) return parsed.data.providers;
  const faults = parsed.error.issues.map(({ path, message }) => `${path.join(".")}: ${message}`);
  return refuse(faults.slice(0, 10).join("; "));
}
