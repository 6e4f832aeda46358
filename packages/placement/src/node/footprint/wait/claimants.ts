/**
 * Whether a container that no footprint in force wants may be taken off a Deployment. Nothing on a Deployment says which
 * document has put it there, and one with a fault, or one that has not been read, may want it still.
 */
import { type ObjectKey, toKeyText } from "@berth/runtime";
import type { FootprintSource } from "../compile.ts";
import type { Footprints } from "../footprint.ts";

/** By name of a container the rules of the footprints that want it. */
export type WantedBy = ReadonlyMap<string, ReadonlySet<string>>;

export type KnownFootprints = Pick<Footprints, "footprints" | "faults"> & {
  readonly policy: Pick<Footprints["policy"], "sourcesRead">;
};

/** The source that may be there and not be read: of the other, files are read always. */
const CLUSTER: FootprintSource = "cluster";

/**
 * While a document is not in force for a fault, which it is after a restart, only those containers are free that others
 * alone were seen to want. Without memory, the default, none is then; and none while footprints of the cluster may not be read.
 */
export function isFree(
  container: string,
  footprints: KnownFootprints,
  wantedBy: WantedBy = new Map(),
): boolean {
  if (!footprints.policy.sourcesRead.has(CLUSTER)) return false;
  const unheard = unheardRules(footprints);
  const rules = wantedBy.get(container);
  return unheard.size === 0 || (rules !== undefined && unheard.isDisjointFrom(rules));
}

/** Documents with a fault of whose name no footprint is in force: what they want is not known. */
function unheardRules({ footprints, faults }: KnownFootprints): ReadonlySet<string> {
  const heard = new Set(footprints.map(({ name }) => name));
  return new Set(
    faults.flatMap(({ source, footprint }) => (heard.has(footprint) ? [] : [`${source}/${footprint}`])),
  );
}

/** What was decided of a Deployment: `wantedBy` is absent while it cannot be told. */
export interface DecidedWants {
  readonly wantedBy?: WantedBy;
  readonly kept: readonly string[];
  readonly taken: readonly string[];
}

/**
 * What is to be remembered after another look. Of a container that is wanted: by whom now, and who wanted it before and is
 * not heard any more. Of one that is not, what was known, for as long as it stands as ours.
 */
export function claimantsAfter(
  before: WantedBy,
  { wantedBy: now, kept, taken }: DecidedWants,
  footprints: KnownFootprints,
): WantedBy {
  if (now === undefined) return before;
  const unheard = unheardRules(footprints);
  const left = [...kept, ...taken].flatMap((name) => {
    const rules = before.get(name);
    return rules === undefined ? [] : [[name, rules] as const];
  });
  const wanted = [...now].map(
    ([name, rules]) => [name, rules.union(unheard.intersection(before.get(name) ?? new Set()))] as const,
  );
  return new Map([...left, ...wanted]);
}

/** By whom containers of Deployments were wanted while this process has looked at them; of those that wait, until they are gone. */
export class WaitClaimants {
  readonly #known = new Map<string, { readonly uid: string; readonly wantedBy: WantedBy }>();

  of(key: ObjectKey, uid: string): WantedBy {
    const known = this.#known.get(toKeyText(key));
    return known?.uid === uid ? known.wantedBy : new Map();
  }

  note(key: ObjectKey, uid: string, wantedBy: WantedBy): void {
    if (wantedBy.size === 0) this.forget(key);
    else this.#known.set(toKeyText(key), { uid, wantedBy });
  }

  forget(key: ObjectKey): void {
    this.#known.delete(toKeyText(key));
  }
}
