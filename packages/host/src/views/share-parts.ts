import { createHash } from "node:crypto";
import type { KubeObject, Projection } from "@berth/kube";

/** Parts that are remembered. A part that no cache holds any more is forgotten with its memory. */
const MAX_PARTS = 4096;

/** Replaces a part of an object by an equal part of another object. */
export interface SharedParts {
  /** @param paths of parts that many objects have in common, such as `spec.template`. */
  after<T extends KubeObject>(project: Projection<T>, paths: readonly string[]): Projection<T>;
}

/**
 * Lets equal parts of many cached objects share memory: a thousand objects of one template then hold it once. Nothing may
 * change a cached object.
 */
export function createSharedParts(): SharedParts {
  const known = new Map<string, WeakRef<object>>();
  const share = (part: object): object => {
    const key = createHash("sha256").update(JSON.stringify(part)).digest("base64");
    const seen = known.get(key);
    const found = seen?.deref();
    known.delete(key);
    known.set(key, seen !== undefined && found !== undefined ? seen : new WeakRef(part));
    for (const oldest of known.keys()) {
      if (known.size <= MAX_PARTS) break;
      known.delete(oldest);
    }
    return found ?? part;
  };
  const visit = (at: object, [step = "", ...below]: readonly string[]): void => {
    const part: unknown = Object.hasOwn(at, step) ? Reflect.get(at, step) : undefined;
    if (typeof part !== "object" || part === null) return;
    if (below.length > 0) visit(part, below);
    else Reflect.set(at, step, share(part));
  };
  return {
    after: (project, paths) => {
      const steps = paths.map((path) => path.split("."));
      return (object) => {
        const projected = project(object);
        for (const path of steps) visit(projected, path);
        return projected;
      };
    },
  };
}
