/** Whatever happens in whichever order: an owner that is not looked at is one of which nothing has changed. */
import type { Pod } from "@berth/kube";
import * as fc from "fast-check";
import { describe, expect, it } from "vitest";
import { seededRun } from "../../../../runtime/src/testing/property.ts";
import { footprintOf } from "../testing/footprints.ts";
import { makeAteom, sightOf } from "../testing/pods.ts";
import { DeletingOwners } from "./deleting-owners.ts";
import { type HeldPodsSight, podsOfOwner } from "./held-pods.ts";

const resource = { group: "ate.dev", version: "v1alpha1", resource: "workerpools" };
const OWNERS = ["a", "b"] as const;

/** Pods come, change and go, and their owners become known; only owners that are told are looked at. */
class World {
  readonly #footprint;
  readonly #pods = new Map<string, Pod>();
  /** Names of pods whose owners have been read. */
  readonly #known = new Set<string>();
  readonly #seen = new Map<string, Set<string>>(OWNERS.map((uid) => [uid, new Set<string>()]));
  readonly #last = new Map<string, readonly string[] | undefined>();
  readonly #deleting: DeletingOwners<{ uid: string; resource: string; namespace: string }>;
  readonly #sight: HeldPodsSight = {
    ...sightOf({}),
    podsOf: () => [...this.#pods.values()],
    owners: (pod) => (this.#known.has(pod.metadata?.name ?? "") ? sightOf({}).owners(pod) : undefined),
  };

  constructor(preset: "agent-substrate/pr-134" | "agent-substrate/owner-uid") {
    this.#footprint = footprintOf({ preset });
    const guard = { resource, finalizer: "x.test/hold", footprints: [this.#footprint] };
    this.#deleting = new DeletingOwners({
      owners: (pod) => this.#sight.owners(pod),
      guards: () => [guard],
      refsOf: () => undefined,
    });
    for (const uid of OWNERS) {
      this.#deleting.put(uid, { uid, resource: "workerpools.ate.dev", namespace: "default" }, uid);
      this.#look(uid);
    }
  }

  put(name: string, pool: string, phase: string): void {
    const old = this.#pods.get(name);
    const pod = makeAteom(pool, name, { phase });
    this.#pods.set(name, pod);
    if (old !== undefined) this.#tell(this.#deleting.ofPod(old, false));
    this.#tell(this.#deleting.ofPod(pod, false));
  }

  remove(name: string): void {
    const pod = this.#pods.get(name);
    this.#pods.delete(name);
    if (pod !== undefined) this.#tell(this.#deleting.ofPod(pod, true));
  }

  read(name: string): void {
    const pod = this.#pods.get(name);
    this.#known.add(name);
    if (pod !== undefined) this.#tell(this.#deleting.ofPod(pod, false));
    this.#tell(this.#deleting.known());
  }

  /** Those that are still there: of one that has gone it may never be known. */
  readAll(): void {
    for (const name of this.#pods.keys()) if (!this.#known.has(name)) this.read(name);
  }

  /** What each owner was last found to wait for, and what it would be found to wait for now. */
  *views(): Generator<{ readonly last: unknown; readonly now: unknown }> {
    for (const uid of OWNERS) yield { last: this.#last.get(uid), now: this.#find(uid) };
  }

  #tell(keys: readonly { readonly uid: string }[]): void {
    for (const { uid } of keys) this.#look(uid);
  }

  #look(uid: string): void {
    this.#last.set(uid, this.#find(uid));
  }

  #find(uid: string): readonly string[] | undefined {
    const known = this.#seen.get(uid) ?? new Set<string>();
    const { pods, unread } = podsOfOwner(
      this.#footprint,
      { namespace: "default", uid, refsOf: () => undefined, known, isOrphaned: false, isForeground: false },
      this.#sight,
    );
    this.#deleting.looked(uid, { unread, known });
    return pods?.map(({ metadata }) => metadata?.name ?? "").sort();
  }
}

const run = seededRun(300, process.env);

describe("owners that are looked at only when told", () => {
  it.each(["agent-substrate/pr-134", "agent-substrate/owner-uid"] as const)(
    `are found to wait for what a look at all of them would find, %s (${run.name})`,
    run.options,
    (preset) => {
      const name = fc.constantFrom("p1", "p2", "p3", "p4");
      const step = fc.oneof(
        fc.record({
          does: fc.constant("put" as const),
          name,
          pool: fc.constantFrom("a", "b", "other"),
          phase: fc.constantFrom("Running", "Failed"),
        }),
        fc.record({ does: fc.constantFrom("read" as const, "remove" as const), name }),
      );
      fc.assert(
        fc.property(fc.array(step, { maxLength: 30 }), (steps) => {
          const world = new World(preset);
          for (const one of steps) {
            if (one.does === "put") world.put(one.name, one.pool, one.phase);
            else world[one.does](one.name);
          }
          world.readAll();
          for (const { last, now } of world.views()) expect(last).toEqual(now);
        }),
        run.parameters,
      );
    },
  );
});
