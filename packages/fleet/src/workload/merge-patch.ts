import { isDeepStrictEqual } from "node:util";

/** The JSON merge patch (RFC 7386) from one value to another; `undefined` when they are equal. */
export function mergePatchOf(from: unknown, to: unknown): unknown {
  if (!isRecord(from) || !isRecord(to)) return isDeepStrictEqual(from, to) ? undefined : to;
  const changes = Object.keys({ ...from, ...to }).flatMap((key) => {
    const [before, after] = [own(from, key), own(to, key)];
    const change =
      after === undefined ? (before === undefined ? undefined : null) : mergePatchOf(before, after);
    return change === undefined ? [] : [[key, change] as const];
  });
  return changes.length === 0 ? undefined : Object.fromEntries(changes);
}

/** The value after a JSON merge patch (RFC 7386). */
export function applyMergePatch(to: unknown, patch: unknown): unknown {
  if (!isRecord(patch)) return patch;
  const from = isRecord(to) ? to : {};
  const kept = Object.entries(from).filter(([key]) => !Object.hasOwn(patch, key));
  const changed = Object.entries(patch).flatMap(([key, value]) =>
    value === null ? [] : [[key, applyMergePatch(own(from, key), value)] as const],
  );
  return Object.fromEntries([...kept, ...changed]);
}

/** A user may choose keys such as `__proto__` and `constructor`. */
function own(from: Readonly<Record<string, unknown>>, key: string): unknown {
  return Object.hasOwn(from, key) ? from[key] : undefined;
}

function isRecord(value: unknown): value is Readonly<Record<string, unknown>> {
  return typeof value === "object" && value !== null && !Array.isArray(value);
}
