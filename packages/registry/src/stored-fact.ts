/** Facts that outlive the process: plain JSON that users may have edited. */
import { fieldOf } from "./json-document.ts";
import { MAX_INDEX_ENTRIES } from "./manifest.ts";
import { platformKey, toPlatform } from "./normal-platform.ts";
import type { Platform } from "./platform.ts";
import { isDigest, parseReference, referenceText } from "./reference.ts";
import type { ImageReference } from "./types.ts";

/** One image, by tag or by digest. Holds no credential and no asker. */
export interface StoredFact {
  /** `factName` of the image. */
  readonly name: string;
  readonly digest: string;
  readonly mediaType: string;
  readonly platforms: readonly Platform[];
  /** As in `ImageFacts`. */
  readonly isBundle?: true;
  /** When it was last known to be true, ms since 1970. */
  readonly at: number;
}

/**
 * The key of facts: the full name, without the tag where a digest makes it meaningless. Names with the same meaning
 * have the same key.
 */
export function factName(reference: ImageReference): string {
  const { registry, repository, digest } = reference;
  return digest === undefined ? referenceText(reference) : `${registry}/${repository}@${digest}`;
}

/** The fact, or `undefined` if any part of it cannot come from `ImageFactStore`. Never throws. */
export function parseStoredFact(value: unknown): StoredFact | undefined {
  const [name, digest, mediaType, at] = ["name", "digest", "mediaType", "at"].map((field) =>
    fieldOf(value, field),
  );
  if (typeof name !== "string" || typeof digest !== "string" || typeof mediaType !== "string")
    return undefined;
  if (typeof at !== "number" || !Number.isFinite(at) || at < 0) return undefined;
  if (!isDigest(digest) || !/^[\w.+/-]{1,255}$/.test(mediaType)) return undefined;
  const named = digestInName(name);
  if (named === undefined || (named !== "" && named !== digest)) return undefined;
  const platforms = parsePlatforms(fieldOf(value, "platforms"));
  if (platforms === undefined) return undefined;
  const isBundle = fieldOf(value, "isBundle") === true;
  return { name, digest, mediaType, platforms, ...(isBundle && { isBundle }), at };
}

/** Empty for a tag; `undefined` if `factName` would not give this name. */
function digestInName(name: string): string | undefined {
  try {
    const reference = parseReference(name);
    return factName(reference) === name ? (reference.digest ?? "") : undefined;
  } catch {
    return undefined;
  }
}

/** Each as `toPlatform` writes it, without duplicates. */
function parsePlatforms(value: unknown): readonly Platform[] | undefined {
  if (!Array.isArray(value) || value.length > MAX_INDEX_ENTRIES) return undefined;
  const platforms = value.map((stored: unknown) => {
    const platform = toPlatform({
      os: fieldOf(stored, "os"),
      architecture: fieldOf(stored, "architecture"),
      variant: fieldOf(stored, "variant"),
      "os.version": fieldOf(stored, "osVersion"),
    });
    const same =
      platform?.os === fieldOf(stored, "os") &&
      platform?.architecture === fieldOf(stored, "architecture") &&
      platform?.variant === fieldOf(stored, "variant") &&
      platform?.osVersion === fieldOf(stored, "osVersion");
    return same ? platform : undefined;
  });
  const valid = platforms.filter((platform) => platform !== undefined);
  const unique = new Set(valid.map(platformKey));
  return valid.length === platforms.length && unique.size === valid.length ? valid : undefined;
}
