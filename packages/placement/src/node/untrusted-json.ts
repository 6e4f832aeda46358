/** Readers of untrusted JSON. They never throw: a field of the wrong type reads as absent or empty. */
import * as z from "zod";

export type Json = Readonly<Record<string, unknown>>;

/** Reads an own property. `null` means absent, as everywhere in the API. */
export function field(value: unknown, name: string): unknown {
  return isRecord(value) && Object.hasOwn(value, name) ? (value[name] ?? undefined) : undefined;
}

/** `""` for any value that is not a string. */
export function textField(value: unknown, name: string): string {
  const text = field(value, name);
  return typeof text === "string" ? text : "";
}

/** Empty for any value that is not a list. */
export function listField(value: unknown, name: string): readonly unknown[] {
  const list = field(value, name);
  return Array.isArray(list) ? list : [];
}

/** For labels and annotations. Returns only entries with a string value. */
export function textMapField(value: unknown, name: string): Readonly<Record<string, string>> {
  const map = field(value, name);
  if (!isRecord(map)) return {};
  return Object.fromEntries(
    Object.entries(map).filter((it): it is [string, string] => typeof it[1] === "string"),
  );
}

export function isRecord(value: unknown): value is Json {
  return typeof value === "object" && value !== null && !Array.isArray(value);
}

/** A field of a schema. `null` is the same as an absent field. */
export const absentOr = <T extends z.ZodType>(schema: T) =>
  schema
    .nullish()
    .transform((value) => value ?? undefined)
    .optional();

export const sentText = absentOr(z.string());
/** For labels and annotations. */
export const sentTexts = absentOr(z.record(z.string(), z.string()));
