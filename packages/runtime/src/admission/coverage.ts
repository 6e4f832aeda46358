import { createHash } from "node:crypto";

/**
 * Does `live` have every field of `desired`? An object may have more fields, because the server and other controllers
 * add some. A list whose items have names (webhooks, containers) may have more items, in any order, as apply merges
 * such lists. Any other list must have the same length and order. A field that is `undefined` or `null`, and an empty
 * list, may be absent: the server omits them.
 */
export function covers(live: unknown, desired: unknown): boolean {
  if (desired === undefined || desired === null) return live === undefined || live === null;
  if (Array.isArray(desired)) return coversList(Array.isArray(live) ? live : [], desired, live);
  if (!isRecord(desired)) return live === desired;
  if (!isRecord(live)) return false;
  return Object.entries(desired).every(
    ([field, value]) => value === undefined || covers(ownValue(live, field), value),
  );
}

function coversList(live: readonly unknown[], desired: readonly unknown[], original: unknown): boolean {
  if (desired.length === 0) return live.length === 0 && (Array.isArray(original) || original === undefined);
  if (desired.every(isNamed)) {
    return desired.every((item) =>
      live.some((other) => isNamed(other) && other.name === item.name && covers(other, item)),
    );
  }
  return live.length === desired.length && desired.every((item, index) => covers(live[index], item));
}

/** Equal for equal JSON, whatever the order of its fields; 32 hexadecimal digits. */
export function fingerprint(value: unknown): string {
  const text = JSON.stringify(value, (_, part: unknown) =>
    isRecord(part) ? Object.fromEntries(Object.entries(part).sort(([a], [b]) => (a < b ? -1 : 1))) : part,
  );
  return createHash("sha256").update(text).digest("hex").slice(0, 32);
}

type Fields = Readonly<Record<string, unknown>>;

function isRecord(value: unknown): value is Fields {
  return typeof value === "object" && value !== null && !Array.isArray(value);
}

function isNamed(value: unknown): value is Fields & { readonly name: string } {
  return isRecord(value) && typeof ownValue(value, "name") === "string";
}

function ownValue(record: Fields, field: string): unknown {
  return Object.hasOwn(record, field) ? record[field] : undefined;
}
