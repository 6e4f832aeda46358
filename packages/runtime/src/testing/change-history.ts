import { compareResourceVersions, type KubeObject, pathOf } from "@berth/kube";
import type { Change } from "../lister.ts";

/**
 * A subscriber for tests: keeps what it was told, and notes every change that does not continue it. Of an object it
 * accepts one `added`, then `updated` from the state told last to a later version, and at most one `deleted`; of two
 * objects of one name, the end of the first before the beginning of the second.
 */
export class ChangeHistory<T extends KubeObject> {
  /** In words, in order: `added a`, `added a (initial)`, `updated a`, `deleted a`. */
  readonly log: string[] = [];
  readonly violations: string[] = [];
  /** What a cache built from the changes alone holds, by `namespace/name`. */
  readonly objects: Map<string, T> = new Map();
  readonly #ended = new Set<string>();
  readonly #comesBack: boolean;

  /** @param comesBack an object that was deleted may be added again, as one that leaves a scope and comes back. */
  constructor({ comesBack = false }: { readonly comesBack?: boolean } = {}) {
    this.#comesBack = comesBack;
  }

  onChange(change: Change<T>): void {
    const name = change.object.metadata?.name ?? "";
    this.log.push(`${change.type} ${name}${change.type === "added" && change.initial ? " (initial)" : ""}`);
    const violation = this.#violationOf(change);
    if (violation !== undefined)
      this.violations.push(`${this.log.at(-1)}, change ${this.log.length}: ${violation}`);
    const key = pathOf(change.object.metadata);
    if (change.type === "deleted") {
      this.objects.delete(key);
      this.#ended.add(change.object.metadata?.uid ?? "");
    } else this.objects.set(key, change.object);
  }

  #violationOf(change: Change<T>): string | undefined {
    const known = this.objects.get(pathOf(change.object.metadata));
    const { uid = "", resourceVersion } = change.object.metadata ?? {};
    if (this.#ended.has(uid) && !this.#comesBack) return "its end was told before";
    if (change.type === "added")
      return known === undefined ? undefined : "the end of the object before it was not told";
    if (known?.metadata?.uid !== uid) return "its beginning was not told";
    if (change.type === "deleted") return undefined;
    if (change.old !== known) return "it does not start from the state told last";
    const order = compareResourceVersions(resourceVersion ?? "", known.metadata.resourceVersion ?? "");
    return order === undefined || order <= 0 ? "that version, or a later one, was told before" : undefined;
  }
}
