/** What a request does to the objects of a real API server. `T-n`: see "Traps" in the README of this package. */
import { aNode, aPod, eventually, sharedTestCluster } from "@berth/testcluster";
import { afterAll, beforeAll, describe, expect, it } from "vitest";
import type { KubeClient, Patch } from "./client.ts";
import { bearerToken } from "./credential.ts";
import {
  configMaps,
  customResourceDefinitions,
  leases,
  namespaces,
  nodes,
  podDisruptionBudgets,
  pods,
  selfSubjectReviews,
} from "./generated/resources.ts";
import type { ConfigMap, Node } from "./generated/wire.ts";
import type { KubeObject } from "./object.ts";
import { defineResource, type Resource } from "./resource.ts";
import { connect } from "./rest-client.ts";
import { failureOf } from "./testing/api-error.ts";

let client: KubeClient;

/** A custom resource whose schema keeps every field, as a newer server keeps fields that we have never heard of. */
interface Widget extends KubeObject {
  readonly spec?: { readonly size?: number; readonly [field: string]: unknown };
  readonly status?: Readonly<Record<string, unknown>>;
}
const widgets: Resource<Widget> = defineResource<Widget>({
  group: "kube-test.berth.dev",
  version: "v1",
  plural: "widgets",
  kind: "Widget",
  namespaced: false,
});

beforeAll(async () => {
  const cluster = await sharedTestCluster();
  client = connect({ server: cluster.url, ca: cluster.ca, credential: bearerToken(cluster.adminToken) });
  const open = { type: "object", "x-kubernetes-preserve-unknown-fields": true } as const;
  await client.create(customResourceDefinitions, {
    metadata: { name: "widgets.kube-test.berth.dev" },
    spec: {
      group: widgets.group,
      names: { plural: widgets.plural, kind: widgets.kind },
      scope: "Cluster",
      versions: [
        {
          name: "v1",
          served: true,
          storage: true,
          subresources: { status: {} },
          schema: { openAPIV3Schema: { type: "object", properties: { spec: open, status: open } } },
        },
      ],
    },
  });
  await eventually(() => client.list(widgets));
});

afterAll(() => client.close());

/** A namespace of its own for each test. The cluster ends with this file, so nobody removes it. */
async function createNamespace(): Promise<string> {
  const made = await client.create(namespaces, { metadata: { generateName: "rest-" } });
  return made.metadata?.name ?? "";
}

async function createNode(name: string): Promise<Node> {
  return client.create(nodes, aNode(name).build());
}

describe("T-9 fields that we do not know", () => {
  const future = { futureField137: { nested: [1, { deep: true }], text: "ü" }, size: 1 };

  it("survive a read, a merge patch, an apply and a replace", async () => {
    const of = { name: "future" };
    await client.create(widgets, { metadata: of, spec: future });
    expect((await client.get(widgets, of)).spec).toEqual(future);
    const body = { spec: { size: 2 } };
    expect((await client.patch(widgets, of, { type: "merge", body })).spec).toEqual({ ...future, size: 2 });
    const applied = await client.apply(
      widgets,
      { metadata: of, spec: { size: 3 } },
      { force: true, fieldManager: "other" },
    );
    expect(applied.spec).toEqual({ ...future, size: 3 });
    const replaced = await client.replace(widgets, { ...applied, spec: { ...applied.spec, size: 4 } });
    expect(replaced.spec).toEqual({ ...future, size: 4 });
  });

  it("survive in items of a list, which lack apiVersion and kind on the wire", async () => {
    const namespace = await createNamespace();
    await client.create(configMaps, { metadata: { name: "a", namespace }, data: { a: "1" } });
    const { items } = await client.list(configMaps, { namespace });
    const item: ConfigMap = items[0] ?? {};
    expect(item.kind).toBeUndefined();
    expect((await client.replace(configMaps, { ...item, data: { a: "2" } })).data).toEqual({ a: "2" });
  });
});

describe("T-13 patches", () => {
  it.each<[string, Patch, readonly string[] | undefined]>([
    ["merge replaces a list", { type: "merge", body: { metadata: { finalizers: ["t/b"] } } }, ["t/b"]],
    ["merge removes with null", { type: "merge", body: { metadata: { finalizers: null } } }, undefined],
    ["strategic merges", { type: "strategic", body: { metadata: { finalizers: ["t/b"] } } }, ["t/b", "t/a"]],
    [
      "json edits a list",
      { type: "json", body: [{ op: "add", path: "/metadata/finalizers/-", value: "t/c" }] },
      ["t/a", "t/c"],
    ],
  ])("%s", async (_, patch, finalizers) => {
    const namespace = await createNamespace();
    const of = { namespace, name: "patched" };
    await client.create(configMaps, { metadata: { ...of, finalizers: ["t/a"] } });
    await client.patch(configMaps, of, patch);
    expect((await client.get(configMaps, of)).metadata?.finalizers).toEqual(finalizers);
  });

  it("apply creates, keeps what others own, and removes what it no longer applies", async () => {
    const namespace = await createNamespace();
    const metadata = { namespace, name: "applied" };
    const created = await client.apply(configMaps, { metadata, data: { a: "1", b: "1" } });
    expect(created.metadata?.managedFields).toMatchObject([{ manager: "kube-client", operation: "Apply" }]);
    await client.apply(configMaps, { metadata, data: { c: "1" } }, { fieldManager: "other" });
    expect((await client.apply(configMaps, { metadata, data: { a: "2" } })).data).toEqual({ a: "2", c: "1" });
  });

  it("apply names the manager it conflicts with, and takes over when told to", async () => {
    const namespace = await createNamespace();
    const metadata = { namespace, name: "contested" };
    await client.apply(configMaps, { metadata, data: { a: "theirs" } }, { fieldManager: "their-controller" });
    const ours = { metadata, data: { a: "ours" } };
    const message = expect.stringContaining("their-controller") as string;
    const causes = [{ reason: "FieldManagerConflict", message, field: ".data.a" }];
    expect(await failureOf(client.apply(configMaps, ours))).toEqual({ kind: "conflict", causes });
    expect((await client.apply(configMaps, ours, { force: true })).data).toEqual({ a: "ours" });
  });

  it("the status subresource takes the status and nothing else", async () => {
    const of = { name: "with-status" };
    await client.create(widgets, { metadata: of, spec: { size: 1 }, status: { dropped: true } });
    expect((await client.get(widgets, of)).status).toBeUndefined();
    const body = { spec: { size: 9 }, status: { ready: true } };
    const options = { subresource: "status" };
    const patched = await client.patch(widgets, of, { type: "merge", body }, options);
    expect(patched).toMatchObject({ spec: { size: 1 }, status: { ready: true } });
    const applied = await client.apply(widgets, { metadata: of, status: { observed: 1 } }, options);
    expect(applied.status).toEqual({ ready: true, observed: 1 });
    const replaced = await client.replace(widgets, { ...applied, status: { only: 1 } }, options);
    expect(replaced).toMatchObject({ spec: { size: 1 }, status: { only: 1 } });
    expect((await client.get(widgets, of, options)).status).toEqual({ only: 1 });
  });

  it("leaves the objects it is given as they were", async () => {
    const namespace = await createNamespace();
    const given = Object.freeze({ metadata: Object.freeze({ namespace, name: "frozen" }) });
    const before = JSON.stringify(given);
    await client.create(configMaps, given);
    await client.apply(configMaps, given);
    await client.replace(configMaps, given);
    expect(JSON.stringify(given)).toBe(before);
  });
});

describe("T-5 T-18 what is read", () => {
  it("is the same from get, list, create and watch: plain JSON with times as text", async () => {
    const created = await createNode("same");
    const got = await client.get(nodes, { name: "same" });
    const listed = (await client.list(nodes, { fieldSelector: "metadata.name=same" })).items[0];
    await using stream = await client.watch(nodes, {
      fieldSelector: "metadata.name=same",
      sendInitialEvents: true,
    });
    const first = await stream[Symbol.asyncIterator]().next();
    expect(got).toEqual(created);
    expect({ apiVersion: "v1", kind: "Node", ...listed }).toEqual(got);
    expect(first.value).toEqual({ type: "ADDED", object: got });
    expect(got.metadata?.creationTimestamp).toMatch(/^\d{4}-\d\d-\d\dT\d\d:\d\d:\d\dZ$/);
    expect(Object.getPrototypeOf(got)).toBe(Object.prototype);
  });

  it("keeps the microseconds of a Lease through a read and a replace", async () => {
    const namespace = await createNamespace();
    const renewTime = "2026-01-02T03:04:05.000006Z";
    const lease = await client.create(leases, {
      metadata: { namespace, name: "l" },
      spec: { holderIdentity: "me", leaseDurationSeconds: 15, renewTime },
    });
    expect(lease.spec?.renewTime).toBe(renewTime);
    const again = await client.replace(leases, lease);
    expect(again.spec?.renewTime).toBe(renewTime);
  });
});

describe("T-15 metadata only", () => {
  it("is what a read, a list and a watch carry when asked for it, bookmarks included", async () => {
    await createNode("partial");
    const scope = { fieldSelector: "metadata.name=partial", metadataOnly: true };
    const listed = (await client.list(nodes, scope)).items[0];
    expect(listed).toMatchObject({ kind: "PartialObjectMetadata", metadata: { name: "partial" } });
    expect(await client.get(nodes, { name: "partial" }, { metadataOnly: true })).toEqual(listed);
    await using stream = await client.watch(nodes, { ...scope, sendInitialEvents: true });
    const events = stream[Symbol.asyncIterator]();
    const added = await events.next();
    expect(added.value).toEqual({ type: "ADDED", object: listed });
    expect(Object.keys(listed ?? {}).toSorted()).toEqual(["apiVersion", "kind", "metadata"]);
    const bookmark = await events.next();
    expect(bookmark.value).toMatchObject({ type: "BOOKMARK", initialEventsEnd: true });
  });
});

it("dry run answers as the write would, and stores nothing", async () => {
  const namespace = await createNamespace();
  const of = { namespace, name: "dry" };
  const dryRun = { dryRun: true };
  const created = await client.create(configMaps, { metadata: of, data: { a: "1" } }, dryRun);
  expect(created.metadata?.uid).toBeTruthy();
  expect(await failureOf(client.get(configMaps, of))).toEqual({ kind: "notFound" });
  await client.create(configMaps, { metadata: of, data: { a: "1" } });
  const stored = await client.get(configMaps, of);
  const body = { data: { a: "2" } };
  expect((await client.patch(configMaps, of, { type: "merge", body }, dryRun)).data).toEqual(body.data);
  expect((await client.replace(configMaps, { ...stored, ...body }, dryRun)).data).toEqual(body.data);
  expect(
    (await client.apply(configMaps, { metadata: of, ...body }, { ...dryRun, force: true })).data,
  ).toEqual(body.data);
  await client.delete(configMaps, of, dryRun);
  await client.deleteCollection(configMaps, { namespace }, dryRun);
  expect(await client.get(configMaps, of)).toEqual(stored);
  const refused = client.create(configMaps, { metadata: { namespace, name: "Not A Name" } }, dryRun);
  expect(await failureOf(refused)).toMatchObject({ kind: "invalid" });
});

describe("what the server refuses", () => {
  it.each(["merge", "strategic"] as const)(
    "a %s patch for an object that was made again under the same name: uidMismatch",
    async (type) => {
      const name = `again-${type}`;
      const { metadata } = await createNode(name);
      await client.delete(nodes, { name });
      await createNode(name);
      const body = { metadata: { uid: metadata?.uid, labels: { a: "b" } } };
      const patched = client.patch(nodes, { name }, { type, body });
      expect(await failureOf(patched)).toEqual({ kind: "uidMismatch" });
      expect((await client.get(nodes, { name })).metadata?.labels).not.toHaveProperty("a");
    },
  );

  it("a patch or replace of an old version: conflict", async () => {
    const old = await createNode("old");
    await client.patch(nodes, { name: "old" }, { type: "merge", body: { metadata: { labels: { a: "b" } } } });
    const { uid, resourceVersion } = old.metadata ?? {};
    const body = { metadata: { uid, resourceVersion, labels: { a: "c" } } };
    for (const type of ["merge", "strategic"] as const)
      expect(await failureOf(client.patch(nodes, { name: "old" }, { type, body }))).toMatchObject({
        kind: "conflict",
      });
    expect(await failureOf(client.replace(nodes, old))).toMatchObject({ kind: "conflict" });
  });

  it("a patch of what is not there: notFound; a second create: alreadyExists; bad content: invalid", async () => {
    const patch = { type: "merge", body: {} } as const;
    expect(await failureOf(client.patch(nodes, { name: "none" }, patch))).toEqual({ kind: "notFound" });
    await createNode("twice");
    expect(await failureOf(createNode("twice"))).toEqual({ kind: "alreadyExists" });
    const body = { metadata: { labels: { "not a key": "not a value!" } } };
    expect(await failureOf(client.patch(nodes, { name: "twice" }, { type: "merge", body }))).toMatchObject({
      kind: "invalid",
      causes: expect.arrayContaining([
        expect.objectContaining({ reason: "FieldValueInvalid", field: "metadata.labels" }),
      ]) as unknown,
    });
    const wrongType = { metadata: { labels: 7 } };
    expect(
      await failureOf(client.patch(nodes, { name: "twice" }, { type: "merge", body: wrongType })),
    ).toMatchObject({ kind: "invalid" });
  });

  it("an API, a path or a method that it does not have", async () => {
    const unknown = defineResource({
      group: "gone.berth.dev",
      version: "v1",
      plural: "things",
      kind: "Thing",
      namespaced: false,
    });
    expect(await failureOf(client.list(unknown))).toEqual({ kind: "notFound" });
    expect(await failureOf(client.read("/no/such/path"))).toEqual({ kind: "notFound" });
    expect(await failureOf(client.list(selfSubjectReviews))).toEqual({ kind: "unsupported" });
  });

  it("names that cannot be asked for are refused by rejecting, not by throwing", async () => {
    const none = { kind: "invalid", causes: [] };
    for (const name of ["", ".", ".."]) {
      expect(await failureOf(client.get(nodes, { name }))).toEqual(none);
      expect(await failureOf(client.delete(nodes, { name }))).toEqual(none);
    }
    expect(await failureOf(client.get(pods, { name: "a" }))).toEqual(none);
    expect(await failureOf(client.replace(configMaps, {}))).toEqual(none);
    expect(await failureOf(client.apply(configMaps, { metadata: { name: "a" } }))).toEqual(none);
    // A slash or a question mark stays part of the name.
    expect(await failureOf(client.get(nodes, { name: "a/b?c=d#e" }))).toEqual({ kind: "notFound" });
  });
});

describe("delete", () => {
  it("happens only to the object it is meant for", async () => {
    const namespace = await createNamespace();
    const of = { namespace, name: "guarded" };
    const { metadata } = await client.create(configMaps, { metadata: of });
    for (const preconditions of [{ uid: "00000000-0000-0000-0000-000000000000" }, { resourceVersion: "1" }]) {
      const { kind } = await failureOf(client.delete(configMaps, of, { preconditions }));
      expect(kind).toBe("conflict");
    }
    const { uid = "", resourceVersion = "" } = metadata ?? {};
    await client.delete(configMaps, of, { preconditions: { uid, resourceVersion } });
    expect(await failureOf(client.delete(configMaps, of))).toEqual({ kind: "notFound" });
  });

  it("leaves an object with finalizers, marked with how it is to end", async () => {
    const namespace = await createNamespace();
    const of = { namespace, name: "finalized" };
    await client.create(configMaps, { metadata: { ...of, finalizers: ["t/a"] } });
    await client.delete(configMaps, of, { propagationPolicy: "Foreground" });
    const { metadata } = await client.get(configMaps, of);
    expect(metadata?.deletionTimestamp).toBeTruthy();
    expect(metadata?.finalizers).toEqual(["t/a", "foregroundDeletion"]);
  });

  it("of a collection takes what the selector takes, in one namespace", async () => {
    const [here, there] = [await createNamespace(), await createNamespace()];
    for (const namespace of [here, there]) {
      for (const kind of ["red", "blue"]) {
        await client.create(configMaps, { metadata: { namespace, name: kind, labels: { kind } } });
      }
    }
    await client.deleteCollection(configMaps, { namespace: here, labelSelector: "kind in (red, green),!x" });
    const left = async (namespace: string): Promise<readonly (string | undefined)[]> =>
      (await client.list(configMaps, { namespace })).items.map(({ metadata }) => metadata?.name);
    expect(await left(here)).toEqual(["blue"]);
    expect(await left(there)).toEqual(["blue", "red"]);
  });
});

describe("eviction", () => {
  it("is answered at once when a budget forbids it, with the time the server wants us to wait", async () => {
    const namespace = await createNamespace();
    await client.create(podDisruptionBudgets, {
      metadata: { namespace, name: "none" },
      spec: { minAvailable: 1, selector: { matchLabels: { app: "a" } } },
    });
    const of = { namespace, name: "evicted" };
    await client.create(pods, aPod("evicted").in(namespace).on("n").labelled({ app: "a" }).build());
    const { status } = aPod("evicted").in(namespace).ready().build();
    await client.patch(pods, of, { type: "merge", body: { status } }, { subresource: "status" });
    // Without a disruption controller nothing works the budget out, and the server says: try again in 10 s.
    const error = await client
      .create<KubeObject>(
        pods,
        { apiVersion: "policy/v1", kind: "Eviction", metadata: of },
        { subresource: "eviction", timeoutMs: 5000 },
      )
      .catch((reason: unknown) => reason);
    expect(error).toMatchObject({
      failure: { kind: "tooManyRequests", causes: [{ reason: "DisruptionBudget" }] },
      retry: "backoff",
      retryAfterMs: 10_000,
    });
  });
});

describe("pages", () => {
  it("come in order, none twice, each of the size asked for, with items as projected", async () => {
    const namespace = await createNamespace();
    const names = Array.from({ length: 7 }, (_, index) => `page-${index}`);
    for (const name of names)
      await client.create(configMaps, { metadata: { namespace, name }, data: { big: "x".repeat(1000) } });
    const project = ({ metadata }: ConfigMap): ConfigMap => ({ metadata: { name: metadata?.name ?? "" } });
    const seen: (readonly ConfigMap[])[] = [];
    for await (const { items } of client.pages(configMaps, { namespace, limit: 3, project }))
      seen.push(items);
    expect(seen.map(({ length }) => length)).toEqual([3, 3, 1]);
    expect(seen.flat()).toEqual(names.map((name) => ({ metadata: { name } })));
  });

  it("can begin at a continue token, and stop early", async () => {
    const namespace = await createNamespace();
    for (const name of ["a", "b", "c"]) await client.create(configMaps, { metadata: { namespace, name } });
    const first = await client.list(configMaps, { namespace, limit: 1 });
    expect(first.metadata.remainingItemCount).toBe(2);
    const token = first.metadata.continue ?? "";
    for await (const page of client.pages(configMaps, { namespace, limit: 1, continue: token })) {
      expect(page.items.map(({ metadata }) => metadata?.name)).toEqual(["b"]);
      break;
    }
  });
});
