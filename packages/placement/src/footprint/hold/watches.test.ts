/** Which holds are in force while documents come, go, and break. */
import { ApiError, type KubeClient, type Resource } from "@berth/kube";
import {
  clusterName,
  createSharedInformers,
  createSilentLogger,
  systemClock,
  whenAborted,
} from "@berth/runtime";
import { describe, expect, it, vi } from "vitest";
import { compileFootprints } from "../compile.ts";
import { documentsOf, footprintsOf } from "../testing/footprints.ts";
import { HeldOwners } from "./held-owners.ts";
import { HoldWatches, type OwnerKey } from "./watches.ts";

const POOLS = "workerpools.ate.dev";
const preset = { preset: "agent-substrate/pr-134" } as const;

/** Nothing is asked before the start. */
const client: Pick<KubeClient, "list" | "watch" | "create"> = {
  create: () => Promise.reject(new Error("not started")),
  list: () => Promise.reject(new Error("not started")),
  watch: () => Promise.reject(new Error("not started")),
};

function aWatch(on = client, onOwner: (key: OwnerKey) => void = () => undefined): HoldWatches {
  const place = { cluster: clusterName("c"), clock: systemClock };
  return new HoldWatches({
    client: on,
    informers: createSharedInformers({ ...place, client: on }),
    ...place,
    log: createSilentLogger(),
    observations: { owners: () => undefined },
    onOwner,
  });
}

const rulesOf = (watches: HoldWatches): readonly (string | undefined)[] =>
  watches.guards(POOLS).map(({ footprint }) => footprint?.rule);

describe("the holds in force", () => {
  it("are those of the footprints", () => {
    const watches = aWatch();
    watches.want(footprintsOf({ f: preset }));
    expect(watches.guards(POOLS)).toMatchObject([
      { finalizer: "ate.dev/release-node-claims", footprint: { rule: "cluster/f" } },
    ]);
    expect(watches.guards("others.ate.dev")).toEqual([]);
    const resource = { group: "ate.dev", version: "v1alpha1", resource: "workerpools" };
    expect(watches.sightOf(resource)).toBe("Unread");
  });

  it("end with the document, and its finalizer is to go", () => {
    const watches = aWatch();
    watches.want(footprintsOf({ f: preset }));
    watches.want(footprintsOf({}));
    expect(rulesOf(watches)).toEqual([undefined]);
  });

  it("are of the first where two hold the same owners by the same finalizer, and of the other after it", () => {
    const watches = aWatch();
    const node = { label: { key: "b.dev/label" }, claims: { annotationPrefix: "b.dev/claim." } };
    watches.want(footprintsOf({ b: preset, a: { ...preset, node } }));
    expect(rulesOf(watches)).toEqual(["cluster/b"]);
    watches.want(footprintsOf({ a: { ...preset, node } }));
    expect(rulesOf(watches)).toEqual(["cluster/a"]);
  });

  it("end when the document holds owners by another finalizer", () => {
    const watches = aWatch();
    watches.want(footprintsOf({ f: preset }));
    const resource = { group: "ate.dev", version: "v1alpha1", resource: "workerpools" };
    watches.want(footprintsOf({ f: { ...preset, hold: { resource, finalizer: "x.test/hold" } } }));
    expect(rulesOf(watches)).toEqual([undefined, "cluster/f"]);
  });

  it("are those of the document that goes before another of its name, and not of both", () => {
    const watches = aWatch();
    const before = footprintsOf({ f: preset });
    watches.want(before);
    const sources = [documentsOf({ f: preset }, "config"), documentsOf({ f: preset })];
    watches.want(compileFootprints({ sources, before: before.footprints }));
    expect(rulesOf(watches)).toEqual(["config/f"]);
  });

  it("go on while the document has a fault, and while its source is read anew", () => {
    const watches = aWatch();
    watches.want(footprintsOf({ f: preset }));
    const fault = {
      name: "f",
      source: "cluster",
      path: [],
      reason: "FootprintInvalid",
      message: "x",
    } as const;
    watches.want({ ...footprintsOf({}), faults: [fault] });
    expect(rulesOf(watches)).toEqual(["cluster/f"]);
    watches.want(footprintsOf({}, { unsettled: "reading" }));
    expect(rulesOf(watches)).toEqual(["cluster/f"]);
    watches.want(footprintsOf({ f: preset }));
    expect(rulesOf(watches)).toEqual(["cluster/f"]);
  });
});

describe("the owners watched", () => {
  it("are those of the version that the document names now: the one before may not be served any more", async () => {
    const asked = new Set<string>();
    const refuse = ({ version }: Pick<Resource, "version">): Promise<never> => {
      asked.add(version);
      return Promise.reject(new ApiError({ kind: "notFound" }, { verb: "watch", resource: "workerpools" }));
    };
    const watches = aWatch({ ...client, list: refuse, watch: refuse });
    const stop = new AbortController();
    const { ended } = await watches.start(stop.signal);
    const holdOf = (version: string) => {
      const resource = { group: "ate.dev", version, resource: "workerpools" };
      return footprintsOf({ f: { ...preset, hold: { resource, finalizer: "x.test/hold" } } });
    };
    watches.want(holdOf("v1alpha1"));
    await vi.waitFor(() => expect([...asked]).toEqual(["v1alpha1"]));
    watches.want(holdOf("v1beta1"));
    await vi.waitFor(() => expect([...asked]).toEqual(["v1alpha1", "v1beta1"]));
    watches.want(holdOf("v1beta1"));
    expect(watches.guards(POOLS)).toMatchObject([
      { resource: { version: "v1beta1" }, footprint: { rule: "cluster/f" } },
    ]);
    stop.abort();
    await ended;
  });
});

describe("owners without the finalizer", () => {
  it("are looked at again when pods have been read, which they wait for; those that have it are not", async () => {
    const finalizers = ["ate.dev/release-node-claims"];
    const deletionTimestamp = "2026-01-01T00:00:00Z";
    const items = [
      { name: "new" },
      { name: "held", finalizers },
      { name: "gone", finalizers: ["x.test/other"], deletionTimestamp },
    ].map((it) => ({ metadata: { namespace: "default", uid: it.name, resourceVersion: "1", ...it } }));
    const looked: string[] = [];
    const stop = new AbortController();
    const watches = aWatch(
      {
        ...client,
        list: (_, options) => {
          const read = items.map((it) => options?.project?.(it as never) ?? it);
          return Promise.resolve({ items: read, metadata: { resourceVersion: "1" } }) as Promise<never>;
        },
        watch: (_, options) =>
          options?.sendInitialEvents === true
            ? Promise.reject(new ApiError({ kind: "unsupported" }, { verb: "watch", resource: POOLS }))
            : whenAborted(stop.signal).then(() => Promise.reject(new Error("stopped"))),
      },
      ({ name }) => looked.push(name),
    );
    watches.want(footprintsOf({ f: preset }));
    const { ended } = await watches.start(stop.signal);
    await vi.waitFor(() => expect(looked).toEqual(["new", "held", "gone"]));
    looked.length = 0;
    watches.lookAgain();
    expect(looked).toEqual(["new"]);
    stop.abort();
    await ended;
  });
});

describe("owners that may not be read", () => {
  const hold = footprintsOf({ f: preset }).footprints[0]?.hold;
  it.each(["forbidden", "notFound"] as const)("%s: are told from those that are not there", async (kind) => {
    const refuse = (): Promise<never> =>
      Promise.reject(new ApiError({ kind }, { verb: "list", resource: POOLS }));
    const watches = aWatch({ ...client, list: refuse, watch: refuse });
    watches.want(footprintsOf({ f: preset }));
    if (hold === undefined) throw new Error("the preset holds nobody");
    const stop = new AbortController();
    const { ended } = await watches.start(stop.signal);
    const said = (): readonly unknown[] => [watches.sightOf(hold.resource), watches.whyUnread(hold)];
    const refused: unknown = expect.stringMatching(
      /^workerpools\.ate\.dev: .*is forbidden: verb .* is missing$/,
    );
    const wanted = { forbidden: ["Unread", refused], notFound: ["Absent", undefined] };
    await vi.waitFor(() => expect(said()).toEqual(wanted[kind]));
    expect(watches.note()).toEqual({ forbidden: refused, notFound: `${POOLS} is not served` }[kind]);
    stop.abort();
    await ended;
  });
});

describe("a right that letting go would lack", () => {
  it("is told as what keeps the hold from being kept, once an owner has needed it", async () => {
    const watches = aWatch({ ...client, create: () => Promise.resolve({ status: {} }) as Promise<never> });
    const { footprints } = footprintsOf({ f: preset });
    watches.want(footprintsOf({ f: preset }));
    const [guard] = watches.guards(POOLS);
    const hold = footprints[0]?.hold;
    if (guard === undefined || hold === undefined) throw new Error("the preset holds nobody");
    expect(watches.whyUnread(hold)).toBeUndefined();
    const lack = 'verb "list" on "deployments.apps" in namespace "shop" is missing';
    expect(await watches.missing(guard, "shop", new AbortController().signal)).toBe(lack);
    expect(watches.whyUnread(hold)).toBe(lack);
  });
});

describe("held owners", () => {
  const entry = (name: string, since: string) => {
    return { name, uid: name, since, pods: [], nodes: [], message: `waits ${since}`, isStuck: false };
  };

  it("are told by footprint, the longest first, and only what is new about them", () => {
    const told: string[] = [];
    const held = new HeldOwners({ onChange: (rule) => told.push(rule) });
    held.put("cluster/f", "1", entry("b", "2026-01-02T00:00:00Z"));
    held.put("cluster/f", "2", entry("a", "2026-01-02T00:00:00Z"));
    held.put("cluster/f", "3", entry("c", "2026-01-01T00:00:00Z"));
    held.put("cluster/f", "3", entry("c", "2026-01-01T00:00:00Z"));
    held.put("cluster/g", "3", undefined);
    expect(held.of("cluster/f").map(({ name }) => name)).toEqual(["c", "a", "b"]);
    expect(told).toHaveLength(3);
    held.clear("3", ["cluster/f"]);
    expect(held.size).toBe(3);
    held.clear("3");
    expect(held.of("cluster/f").map(({ name }) => name)).toEqual(["a", "b"]);
    expect(told).toHaveLength(4);
  });
});
