/** What is carried out, how often, and what becomes of answers that come too late. */
import { ApiError, type KubeObject, type Pod } from "@berth/kube";
import { clusterName, createSilentLogger, createVirtualClock, type EventInput } from "@berth/runtime";
import { describe, expect, it } from "vitest";
import { reasons } from "../../api/reasons.ts";
import { clientOf } from "../../node/testing/object-run.ts";
import type { HeldOwner } from "../footprint-sight.ts";
import { footprintOf } from "../testing/footprints.ts";
import { makeAteom, sightOf } from "../testing/pods.ts";
import type { Guard, OwnedObject } from "./decide.ts";
import { HeldOwners } from "./held-owners.ts";
import { createHoldReconciler } from "./reconciler.ts";
import type { HoldLook } from "./watches.ts";

const footprint = footprintOf({ preset: "agent-substrate/pr-134" });
const resource = { group: "ate.dev", version: "v1alpha1", resource: "workerpools" };
const FINALIZER = "ate.dev/release-node-claims";
const KEY = {
  cluster: clusterName("c"),
  resource: "workerpools.ate.dev",
  namespace: "default",
  name: "pool",
};
const owned: OwnedObject = {
  resource: { group: "apps", version: "v1", resource: "deployments" },
  namespace: "default",
  name: "pool-deployment",
  uid: "d",
  resourceVersion: "3",
  isDeleting: false,
};

interface Setup {
  owner: HeldOwner | undefined;
  pods: readonly Pod[] | undefined;
  owned: readonly OwnedObject[];
  fails: ApiError | undefined;
  mayRead: boolean;
  /** What may not be deleted, by name. */
  refused: (name: string) => boolean;
  /** The right that letting an owner go would lack. */
  missing: string | undefined;
  /** The finalizer that it is missing for. */
  lacking: string;
  guards: readonly Guard[];
  readonly requests: string[];
  readonly events: EventInput[];
  readonly held: HeldOwners;
  readonly looks: HoldLook[];
  /** Names of what was asked to be deleted, in order. */
  readonly deleted: () => readonly string[];
  readonly look: () => Promise<unknown>;
  readonly clock: ReturnType<typeof createVirtualClock>;
}

function setUp(more: Partial<HeldOwner> = {}): Setup {
  const clock = createVirtualClock();
  const requests: string[] = [];
  const events: EventInput[] = [];
  const held = new HeldOwners({ onChange: () => undefined });
  const deleted = new Date(clock.now()).toISOString();
  const base: HeldOwner = {
    resource,
    namespace: "default",
    name: "pool",
    uid: "a",
    resourceVersion: "7",
    finalizers: ["x", FINALIZER, "y"],
    deletionTimestamp: deleted,
    ...more,
  };
  const answer = (text: string): Promise<KubeObject> => {
    requests.push(text);
    if (setup.fails !== undefined && !(setup.mayRead && text.startsWith("get")))
      return Promise.reject(setup.fails);
    const metadata = { namespace: "default", name: "pool", uid: "a" };
    return Promise.resolve({ apiVersion: "ate.dev/v1alpha1", kind: "WorkerPool", metadata });
  };
  const reconcile = createHoldReconciler({
    client: clientOf({
      get: ({ name }) => answer(`get ${name}`),
      patch: (name, { body }) => answer(`patch ${name} ${JSON.stringify(body)}`),
      delete: async (name, options) => {
        const { propagationPolicy, preconditions } = options ?? {};
        await answer(
          `delete ${name} ${propagationPolicy} ${preconditions?.uid} ${preconditions?.resourceVersion}`,
        );
        if (setup.refused(name))
          throw new ApiError({ kind: "forbidden" }, { verb: "delete", resource: "deployments.apps" });
      },
    }),
    watches: {
      guards: () => setup.guards,
      owner: () => setup.owner,
      owned: () => setup.owned,
      refsOf: () => undefined,
      missing: ({ finalizer }) => Promise.resolve(setup.lacking === finalizer ? setup.missing : undefined),
      looked: (_key, look) => void setup.looks.push(look),
    },
    sight: { ...sightOf({}), podsOf: () => setup.pods },
    held,
    events: { record: (event) => events.push(event) },
    clock,
  });
  const context = { signal: new AbortController().signal, log: createSilentLogger() };
  const setup: Setup = {
    owner: base,
    pods: [],
    owned: [],
    fails: undefined,
    mayRead: false,
    refused: () => false,
    missing: undefined,
    lacking: FINALIZER,
    guards: [{ resource, finalizer: FINALIZER, footprint }],
    requests,
    events,
    held,
    looks: [],
    clock,
    deleted: () =>
      requests.flatMap((request) => (request.startsWith("delete ") ? [request.split(" ")[1] ?? ""] : [])),
    look: () => reconcile(KEY, context),
  };
  return setup;
}

describe("the reconciler of owners", () => {
  it("takes its finalizer off, and keeps those of others in their order", async () => {
    const setup = setUp();
    await setup.look();
    const metadata = { uid: "a", resourceVersion: "7", finalizers: ["x", "y"] };
    expect(setup.requests).toEqual([`patch pool ${JSON.stringify({ metadata })}`]);
  });

  /** An owner that lives. */
  function setUpAlive(): Setup {
    const setup = setUp({ finalizers: ["x"] });
    if (setup.owner === undefined) return setup;
    const { deletionTimestamp: _, ...alive } = setup.owner;
    setup.owner = alive;
    return setup;
  }

  it("puts none on that it could not take off: not before pods are seen, nor while a right is missing", async () => {
    const setup = setUpAlive();
    setup.pods = undefined;
    expect(await setup.look()).toBeUndefined();
    setup.pods = [];
    setup.missing = 'verb "delete" on "deployments.apps" is missing';
    expect(await setup.look()).toEqual({ recheckAfterMs: 30_000 });
    await setup.look();
    expect(setup.requests).toEqual([]);
    setup.missing = undefined;
    expect(await setup.look()).toBeUndefined();
    expect(setup.requests.at(-1)).toContain("patch pool");
  });

  it("puts it behind those of others", async () => {
    const setup = setUpAlive();
    await setup.look();
    const metadata = { uid: "a", resourceVersion: "7", finalizers: ["x", FINALIZER] };
    expect(setup.requests).toEqual([`patch pool ${JSON.stringify({ metadata })}`]);
  });

  it("deletes what is owned once, of the version that it has seen, in the background", async () => {
    const setup = setUp();
    setup.owned = [owned];
    await setup.look();
    await setup.look();
    expect(setup.requests).toEqual(["delete pool-deployment Background d 3"]);
  });

  it("deletes another version when the one that it has seen is no more", async () => {
    const setup = setUp();
    setup.owned = [owned];
    setup.fails = new ApiError({ kind: "conflict", causes: [] }, { verb: "delete", resource: "x" });
    await setup.look();
    setup.fails = undefined;
    setup.owned = [{ ...owned, resourceVersion: "4" }];
    await setup.look();
    expect(setup.requests).toEqual([
      "delete pool-deployment Background d 3",
      "delete pool-deployment Background d 4",
    ]);
  });

  it("says of what is held that a right is missing, and tries again", async () => {
    const setup = setUp();
    setup.owned = [owned];
    setup.mayRead = true;
    setup.fails = new ApiError({ kind: "forbidden" }, { verb: "delete", resource: "deployments.apps" });
    expect(await setup.look()).toEqual({ recheckAfterMs: 10_000 });
    expect(await setup.look()).toEqual({ recheckAfterMs: 10_000 });
    const [entry] = setup.held.of("cluster/f");
    expect(entry?.message).toMatch(/^what it owns: deployments default\/pool-deployment; delete deployments/);
    setup.fails = undefined;
    setup.owned = [];
    await setup.look();
    expect(setup.requests.at(-1)).toContain("patch pool");
  });

  it("F-B1 deletes what it may, though something before it may not be deleted, and says what was refused", async () => {
    const setup = setUp();
    setup.owned = [owned, { ...owned, name: "far", uid: "e", namespace: "elsewhere" }];
    setup.refused = (name) => name === "pool-deployment";
    expect(await setup.look()).toEqual({ recheckAfterMs: 10_000 });
    expect(setup.deleted()).toEqual(["pool-deployment", "far"]);
    expect(setup.held.of("cluster/f")[0]?.message).toContain("delete deployments.apps");
    await setup.look();
    expect(setup.deleted().slice(2)).toEqual(["pool-deployment"]);
  });

  it("F-E12 tells once of an owner whose pod is stuck", async () => {
    const setup = setUp();
    const pod = makeAteom("a", "p");
    const at = new Date(setup.clock.now()).toISOString();
    setup.pods = [{ ...pod, metadata: { ...pod.metadata, deletionTimestamp: at } }];
    expect(await setup.look()).toEqual({ recheckAfterMs: 10_000 });
    expect(setup.events).toEqual([]);
    await setup.clock.advance(30_000);
    await setup.look();
    await setup.look();
    expect(setup.events).toMatchObject([
      { reason: reasons.OwnerHeld, type: "Warning", regarding: { kind: "WorkerPool", name: "pool" } },
    ]);
    expect(setup.held.of("cluster/f")).toMatchObject([
      { name: "default/pool", pods: ["default/p"], isStuck: true },
    ]);
  });

  it("forgets what it held of an owner that is gone", async () => {
    const setup = setUp();
    setup.pods = [makeAteom("a", "p")];
    await setup.look();
    expect(setup.held.size).toBe(1);
    setup.owner = undefined;
    await setup.look();
    expect(setup.held.size).toBe(0);
  });
});
