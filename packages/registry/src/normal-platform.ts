/** Converts the platform names of manifests to the values of `kubernetes.io/os` and `kubernetes.io/arch`. */
import { fieldOf } from "./json-document.ts";
import type { Platform } from "./platform.ts";

/** A lower-case label value (and so a taint value). No node can have any other text as its architecture. */
const NAME = /^[a-z0-9](?:[a-z0-9_.-]{0,30}[a-z0-9])?$/;
const OS_VERSION = /^[0-9A-Za-z][0-9A-Za-z_.-]{0,63}$/;

/** Aliases and their architecture and variant: `normalizeArch` of github.com/containerd/platforms. */
const ALIASES: ReadonlyMap<string, readonly [architecture: string, variant?: string]> = new Map([
  ["i386", ["386"]],
  ["x86_64", ["amd64"]],
  ["x86-64", ["amd64"]],
  ["aarch64", ["arm64"]],
  ["armhf", ["arm", "v7"]],
  ["armel", ["arm", "v6"]],
] as const);

/** The default variant of each architecture, so that `arm64/v8` and `arm64` are one platform. */
const USUAL_VARIANT: ReadonlyMap<string, string> = new Map([
  ["amd64", "v1"],
  ["arm64", "v8"],
]);

/**
 * The platform of a manifest or a config in the words of Kubernetes. `undefined` where it states none that a node could
 * have (nothing, `unknown`, or text that no label can hold).
 *
 * Names are those of containerd, except that `arm` without a variant stays without one. containerd reads it as `v7`,
 * which is right for a pull but a guess in a report. A platform with no `os` or an empty one is Linux, as for a runtime
 * on Linux. `osVersion` is kept for Windows, where it decides whether an image runs.
 */
export function toPlatform(value: unknown): Platform | undefined {
  const said = fieldOf(value, "os") ?? "";
  const os = nameOf(said === "" ? "linux" : said);
  const stated = nameOf(fieldOf(value, "architecture"));
  if (os === undefined || stated === undefined) return undefined;
  const [architecture, implied] = ALIASES.get(stated) ?? [stated];
  const variant = implied ?? variantOf(architecture, fieldOf(value, "variant"));
  const osVersion = os === "windows" ? fieldOf(value, "os.version") : undefined;
  return {
    os: os === "macos" ? "darwin" : os,
    architecture,
    ...(variant === undefined ? {} : { variant }),
    ...(typeof osVersion === "string" && OS_VERSION.test(osVersion) ? { osVersion } : {}),
  };
}

/** Whether a platform is stated, even one that no node has. */
export function statesPlatform(value: unknown): boolean {
  return typeof fieldOf(value, "architecture") === "string" && fieldOf(value, "architecture") !== "";
}

/** Equal for equal platforms, and only for these. */
export function platformKey({ os, architecture, variant = "", osVersion = "" }: Platform): string {
  return `${os}/${architecture}/${variant}/${osVersion}`;
}

function nameOf(value: unknown): string | undefined {
  if (typeof value !== "string") return undefined;
  const name = value.toLowerCase();
  return name === "unknown" || !NAME.test(name) ? undefined : name;
}

function variantOf(architecture: string, value: unknown): string | undefined {
  const name = nameOf(value);
  if (name === undefined || architecture === "386") return undefined;
  const variant = architecture.startsWith("arm") && /^[5-8]$/.test(name) ? `v${name}` : name;
  return variant === USUAL_VARIANT.get(architecture) ? undefined : variant;
}
