import type { ClusterName } from "../key.ts";

/** Which clusters have an object of a `namespace/name`. Most have one: a set for each would take more than all else. */
export class Holders {
  readonly #of = new Map<string, ClusterName | Set<ClusterName>>();

  add(path: string, cluster: ClusterName): void {
    const known = this.#of.get(path);
    if (known === undefined) this.#of.set(path, cluster);
    else if (typeof known === "object") known.add(cluster);
    else if (known !== cluster) this.#of.set(path, new Set([known, cluster]));
  }

  delete(path: string, cluster: ClusterName): void {
    const known = this.#of.get(path);
    if (known === cluster) this.#of.delete(path);
    else if (typeof known === "object" && known.delete(cluster) && known.size === 0) this.#of.delete(path);
  }

  /** The cluster has left. */
  leave(cluster: ClusterName): void {
    for (const path of this.#of.keys()) this.delete(path, cluster);
  }

  get(path: string): readonly ClusterName[] {
    const known = this.#of.get(path);
    return known === undefined ? [] : typeof known === "object" ? [...known] : [known];
  }
}
