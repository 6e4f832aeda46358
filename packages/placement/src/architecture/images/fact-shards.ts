/** Turns image facts into texts for ConfigMaps: one line each, spread over texts by image name. Pure. */
import { createHash } from "node:crypto";
import type { Platform, StoredFact } from "@berth/registry";

/** Limit of one text, bytes. The API server allows 1 MiB, etcd 1.5 MiB. One changed image rewrites the whole text. */
export const MAX_SHARD_BYTES: number = 256 * 1024;
/** Together 4 MiB, about 10,000 images. */
export const MAX_SHARDS = 16;
/** If a text is larger than this, Berth doubles the number of texts. Bytes. */
const CROWDED_BYTES = 192 * 1024;

/**
 * Returns one text for each number from 0; `undefined`: no fact belongs there. The same facts in any order give the
 * same texts.
 *
 * @param least the present number of texts, a power of two: facts stay in their text while there is room.
 */
export function toShards(facts: Iterable<StoredFact>, least = 1): readonly (string | undefined)[] {
  const lines = Array.from(facts, toLine);
  for (let count = least; ; count *= 2) {
    const parts = Array.from({ length: count }, (): Line[] => []);
    for (const one of lines) parts[one.hash % count]?.push(one);
    if (count < MAX_SHARDS && parts.some((part) => bytesOf(part) > CROWDED_BYTES)) continue;
    return parts.map((part) => (part.length === 0 ? undefined : toText(part)));
  }
}

/** The least number of texts if this was the last one: the power of two above its number. */
export function countFor(highest: number): number {
  let count = 1;
  while (count <= highest && count < MAX_SHARDS) count *= 2;
  return count;
}

/** One fact, with its numbers computed once: there may be ten thousand facts. */
interface Line {
  readonly at: number;
  readonly text: string;
  readonly bytes: number;
  /** Hash of the name. It selects the text. */
  readonly hash: number;
}

function toLine({ name, digest, mediaType, platforms, isBundle, at }: StoredFact): Line {
  const shown = { name, digest, mediaType, at, platforms: platforms.map(formatPlatform), isBundle };
  const text = `${JSON.stringify(shown)}\n`;
  const hash = createHash("sha256").update(name).digest().readUInt32BE(0);
  return { at, text, bytes: Buffer.byteLength(text), hash };
}

function bytesOf(lines: readonly Line[]): number {
  return lines.reduce((sum, { bytes }) => sum + bytes, 0);
}

/** Drops facts that do not fit, the oldest first: they are the least likely to be useful. */
function toText(lines: readonly Line[]): string {
  return (bytesOf(lines) <= MAX_SHARD_BYTES ? lines : latest(lines))
    .map(({ text }) => text)
    .sort(compare)
    .join("");
}

function latest(lines: readonly Line[]): readonly Line[] {
  let left = MAX_SHARD_BYTES;
  return lines
    .toSorted((a, b) => b.at - a.at || compare(a.text, b.text))
    .filter(({ bytes }) => {
      if (bytes > left) return false;
      left -= bytes;
      return true;
    });
}

function compare(a: string, b: string): number {
  return a < b ? -1 : a > b ? 1 : 0;
}

/** Do two texts of `toShards` hold the same facts, apart from their dates? */
export function isSameButForDates(one: string, other: string): boolean {
  // JSON escapes quotes in names, so this pattern matches only the date field.
  const undated = (text: string): string => text.replaceAll(/,"at":\d+,/g, ",");
  return undated(one) === undated(other);
}

/** `["linux","arm","v7"]`: with field names, platforms would be most of the text. */
function formatPlatform({ os, architecture, variant, osVersion }: Platform): readonly string[] {
  if (osVersion !== undefined) return [os, architecture, variant ?? "", osVersion];
  return variant === undefined ? [os, architecture] : [os, architecture, variant];
}

/** Reads one text. Total: returns the lines that are facts, and counts the others. A user may have edited the text. */
export function readShard(text: string): {
  readonly facts: readonly StoredFact[];
  readonly garbage: number;
} {
  const lines = text.split("\n").filter((line) => line.trim() !== "");
  const facts = lines.map(readFact).filter((fact) => fact !== undefined);
  return { facts, garbage: lines.length - facts.length };
}

function readFact(line: string): StoredFact | undefined {
  let value: unknown;
  try {
    value = JSON.parse(line);
  } catch {
    return undefined;
  }
  if (typeof value !== "object" || value === null) return undefined;
  const { name, digest, mediaType, at, platforms, isBundle } = value as Readonly<Record<string, unknown>>;
  if (typeof name !== "string" || typeof digest !== "string" || typeof mediaType !== "string")
    return undefined;
  if (typeof at !== "number" || !Number.isSafeInteger(at) || !Array.isArray(platforms)) return undefined;
  const read = platforms.map(readPlatform).filter((one) => one !== undefined);
  if (read.length !== platforms.length) return undefined;
  return { name, digest, mediaType, at, platforms: read, ...(isBundle === true && { isBundle }) };
}

function readPlatform(value: unknown): Platform | undefined {
  if (!Array.isArray(value) || value.length > 4 || !value.every((part) => typeof part === "string"))
    return undefined;
  const [os = "", architecture = "", variant = "", osVersion = ""] = value;
  if (os === "" || architecture === "") return undefined;
  return { os, architecture, ...(variant !== "" && { variant }), ...(osVersion !== "" && { osVersion }) };
}
