/** Readers of JSON that somebody sent: `undefined` for what is not as the API has it, and never an error. */

export type Json = Readonly<Record<string, unknown>>;

/** `null` stands for absent, as everywhere in the API. Only what the object has itself counts. */
export function field(value: unknown, name: string): unknown {
  return isRecord(value) && Object.hasOwn(value, name) ? (value[name] ?? undefined) : undefined;
}

/** `""` for what is no text. */
export function textField(value: unknown, name: string): string {
  const text = field(value, name);
  return typeof text === "string" ? text : "";
}

/** Empty for what is no list. */
export function listField(value: unknown, name: string): readonly unknown[] {
  const list = field(value, name);
  return Array.isArray(list) ? list : [];
}

/** Labels, annotations: the entries whose value is a text. */
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
