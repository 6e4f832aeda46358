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
  const share = (part: object, text: string): object => {
    const key = createHash("sha256").update(text).digest("base64");
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
  return {
    after: (project, paths) => {
      const all = paths.map((path) => new SharedPath(path.split("."), share));
      return (object) => {
        const projected = project(object);
        for (const path of all) path.visit(projected);
        return projected;
      };
    },
  };
}

/** One part of each object of a kind. */
class SharedPath {
  readonly #steps: readonly string[];
  readonly #share: (part: object, text: string) => object;
  /** Of the object before: in a list, most have the parts of their neighbour. */
  #last: { readonly text: string; readonly part: WeakRef<object> } | undefined;

  constructor(steps: readonly string[], share: (part: object, text: string) => object) {
    this.#steps = steps;
    this.#share = share;
  }

  visit(object: object): void {
    let at = object;
    for (const [index, step] of this.#steps.entries()) {
      const part: unknown = Object.hasOwn(at, step) ? Reflect.get(at, step) : undefined;
      if (typeof part !== "object" || part === null) return;
      if (index === this.#steps.length - 1) Reflect.set(at, step, this.#shared(part));
      at = part;
    }
  }

  #shared(part: object): object {
    const text = JSON.stringify(part);
    const last = this.#last?.text === text ? this.#last.part.deref() : undefined;
    if (last !== undefined) return last;
    const shared = this.#share(part, text);
    this.#last = { text, part: new WeakRef(shared) };
    return shared;
  }
}
