/** One owner, the server that keeps it, and the reconciler of its hold, on a virtual clock. */
import { ApiError, type KubeObject, type Pod } from "@berth/kube";
import { clusterName, createSilentLogger, createVirtualClock, type EventInput } from "@berth/runtime";
import { clientOf } from "../../node/testing/object-run.ts";
import type { HeldOwner } from "../footprint-observations.ts";
import type { Guard, OwnedObject } from "../hold/decide.ts";
import { HeldOwners } from "../hold/held-owners.ts";
import { createHoldReconciler } from "../hold/reconciler.ts";
import type { HoldLook } from "../hold/watches.ts";
import { footprintOf } from "./footprints.ts";
import { sightOf } from "./pods.ts";

const footprint = footprintOf({ preset: "agent-substrate/pr-134" });
const resource = { group: "ate.dev", version: "v1alpha1", resource: "workerpools" };
export const FINALIZER = "ate.dev/release-node-claims";
const KEY = {
  cluster: clusterName("c"),
  resource: "workerpools.ate.dev",
  namespace: "default",
  name: "pool",
};
export const owned: OwnedObject = {
  resource: { group: "apps", version: "v1", resource: "deployments" },
  namespace: "default",
  name: "pool-deployment",
  uid: "d",
  resourceVersion: "3",
  isDeleting: false,
};

export interface HoldSetup {
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

/** An owner that is deleted, unless `more` says otherwise. */
export function setUp(more: Partial<HeldOwner> = {}): HoldSetup {
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
    observations: { ...sightOf({}), podsOf: () => setup.pods },
    held,
    events: { record: (event) => events.push(event) },
    clock,
  });
  const context = { signal: new AbortController().signal, log: createSilentLogger() };
  const setup: HoldSetup = {
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

/** An owner that lives. */
export function setUpAlive(): HoldSetup {
  const setup = setUp({ finalizers: ["x"] });
  if (setup.owner === undefined) return setup;
  const { deletionTimestamp: _, ...alive } = setup.owner;
  setup.owner = alive;
  return setup;
}
