/** Shares the time for lookups between namespaces, in pieces that are too short to delay anything else. */
import type { Pod } from "@berth/kube";
import { FIT_AGAIN_MS, type Placed } from "./decide.ts";
import { type FitResult, fitSteps, type Ground, goOn, MAX_COMPARISONS, tooMuch } from "./fit.ts";
import type { Steps } from "./fit-topology.ts";
import { ownerOf } from "./ledger.ts";

/** In one pass: less than 5 ms. */
export const PASS_COMPARISONS = 20_000;

interface Lookup {
  readonly key: string;
  readonly steps: Steps<FitResult>;
  /** UIDs of the pods that had their place already when it began. */
  readonly placed: ReadonlySet<string | undefined>;
  /** Comparisons. */
  left: number;
}

export class FitLookups {
  readonly #ground: Ground;
  /** Owners whose pods no other node took, until a node changes. */
  readonly #unfit = new Map<string, { readonly found: FitResult; readonly atMs: number }>();
  /** By namespace, the one that goes on in a later pass. */
  readonly #open = new Map<string, Lookup>();
  /** Namespaces that have used up a pass. They wait until the others have used up one each, or have enough of one. */
  readonly #served = new Set<string>();
  /** Namespaces that have asked in this pass. */
  readonly #asking = new Set<string>();
  #left = 0;
  #nowMs = 0;

  constructor(ground: Ground) {
    this.#ground = ground;
  }

  begin(nowMs: number): void {
    if (this.#left > 0 || this.#asking.isSubsetOf(this.#served)) this.#served.clear();
    for (const namespace of this.#open.keys()) if (!this.#asking.has(namespace)) this.#open.delete(namespace);
    this.#asking.clear();
    this.#left = PASS_COMPARISONS;
    this.#nowMs = nowMs;
  }

  nodeChanged(): void {
    this.#unfit.clear();
  }

  /** As `findFit`. @returns undefined when the lookup goes on, or begins, in a later pass. */
  find(pod: Pod, how: "True" | "PendingOk", placed: readonly Placed[]): FitResult | undefined {
    const owner = `${how} ${ownerOf(pod)}`;
    const known = this.#unfit.get(owner);
    if (known !== undefined && this.#nowMs - known.atMs < FIT_AGAIN_MS) return known.found;
    const { namespace = "", uid = "" } = pod.metadata ?? {};
    this.#asking.add(namespace);
    if (this.#left <= 0 || this.#served.has(namespace)) return undefined;
    const key = `${how} ${uid}`;
    const open = this.#open.get(namespace);
    const lookup =
      open?.key === key ? open : this.#start(key, fitSteps(pod, how, this.#ground, placed), placed);
    const budget = Math.min(this.#left, lookup.left);
    const { found, left } = goOn(lookup.steps, budget);
    this.#left -= budget - left;
    lookup.left -= budget - left;
    const result = found ?? (lookup.left <= 0 ? tooMuch : undefined);
    if (result === undefined) {
      this.#open.set(namespace, lookup);
      this.#served.add(namespace);
      return undefined;
    }
    this.#open.delete(namespace);
    if ("reason" in result) this.#unfit.set(owner, { found: result, atMs: this.#nowMs });
    // A pod that goes since the lookup began may take that very place.
    const isTaken =
      "node" in result &&
      placed.some((it) => it.node === result.node && !lookup.placed.has(it.pod.metadata?.uid));
    return isTaken ? undefined : result;
  }

  #start(key: string, steps: Steps<FitResult>, placed: readonly Placed[]): Lookup {
    const uids = placed.map(({ pod }) => pod.metadata?.uid);
    return { key, steps, placed: new Set(uids), left: MAX_COMPARISONS };
  }
}
