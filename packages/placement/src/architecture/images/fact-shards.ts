/** Facts of images as texts for ConfigMaps: a line each, spread over some texts by the name of the image. Pure. */
import { createHash } from "node:crypto";
import type { Platform, StoredFact } from "@berth/registry";

/** Of one ConfigMap. The API server takes 1 MiB, etcd 1.5 MiB; a change of one image rewrites it all. Bytes. */
export const MAX_SHARD_BYTES: number = 256 * 1024;
/** With them 4 MiB, some 10,000 images. */
export const MAX_SHARDS = 16;
/** A text that is larger than this is spread over twice as many. Bytes. */
const CROWDED_BYTES = 192 * 1024;

/**
 * One text for each number from 0 on; `undefined`: no fact belongs there. The same facts make the same texts, in whatever
 * order they come.
 *
 * @param least as many texts as there are already, a power of two: facts stay where they are while there is room.
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

/** How many texts there were, at least, when this was the last of them: the power of two above its number. */
export function countFor(highest: number): number {
  let count = 1;
  while (count <= highest && count < MAX_SHARDS) count *= 2;
  return count;
}

/** One fact; its numbers are made once, for there may be ten thousand. */
interface Line {
  readonly at: number;
  readonly text: string;
  readonly bytes: number;
  /** Of the name: which text it belongs to. */
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

/** What does not fit is left out, the oldest first: it is the likeliest to be of no use any more. */
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

/** Whether two texts of `toShards` hold the same facts, known to be true at whatever times. */
export function isSameButForDates(one: string, other: string): boolean {
  // No quote stands unescaped in a name, so that this can be nothing else.
  const undated = (text: string): string => text.replaceAll(/,"at":\d+,/g, ",");
  return undated(one) === undated(other);
}

/** `["linux","arm","v7"]`: with field names, platforms would be most of the text. */
function formatPlatform({ os, architecture, variant, osVersion }: Platform): readonly string[] {
  if (osVersion !== undefined) return [os, architecture, variant ?? "", osVersion];
  return variant === undefined ? [os, architecture] : [os, architecture, variant];
}

/** Reads one text. Total: whatever somebody has written there, it answers with the lines that are facts, and counts others. */
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
