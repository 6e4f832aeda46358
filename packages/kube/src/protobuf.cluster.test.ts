/** Nodes in protobuf, as a real API server writes them, beside the same Nodes in JSON. */
import { aNode, sharedTestCluster } from "@berth/testcluster";
import { expect, it } from "vitest";
import type { Projection, WatchEvent, WatchStream } from "./client.ts";
import { nodes } from "./generated/resources.ts";
import type { Node } from "./generated/wire.ts";
import { allOf } from "./protobuf/testing/encode.ts";
import { errorOf } from "./testing/api-error.ts";

const cluster = await sharedTestCluster();
const { client } = cluster;

const asJson: Projection<Node> = ({
  apiVersion = "v1",
  kind = "Node",
  metadata = {},
  spec = {},
  status = {},
}) => {
  const { managedFields: _, ...kept } = metadata;
  const { conditions = [], capacity = {}, allocatable = {}, nodeInfo, addresses } = status;
  const read = {
    conditions,
    capacity,
    allocatable,
    ...(nodeInfo && { nodeInfo }),
    ...(addresses && { addresses }),
  };
  return { apiVersion, kind, metadata: kept, spec, status: read };
};
const asProtobuf: Projection<Node> = Object.assign(
  () => {
    throw new Error("it is read as JSON");
  },
  {
    fields: {
      metadata: allOf(
        "name namespace uid resourceVersion generation labels annotations creationTimestamp deletionTimestamp " +
          "finalizers deletionGracePeriodSeconds ownerReferences generateName",
      ),
      spec: allOf("taints unschedulable podCIDR podCIDRs providerID"),
      status: allOf("conditions capacity allocatable nodeInfo addresses"),
    },
  },
);

const owner = { apiVersion: "v1", kind: "Namespace", name: "x", uid: "u", blockOwnerDeletion: false };
const made = [
  aNode("plain"),
  aNode("usual").realistic(),
  aNode("leaving")
    .labelled({ zone: "eu-1a", empty: "" })
    .with((node) => ({
      ...node,
      metadata: {
        ...node.metadata,
        annotations: { note: "größer als 日本", long: "x".repeat(3000) },
        finalizers: ["berth.test/keep"],
        ownerReferences: [owner],
      },
      spec: {
        unschedulable: true,
        podCIDR: "10.0.1.0/24",
        podCIDRs: ["10.0.1.0/24"],
        taints: [
          { key: "a", effect: "NoExecute", timeAdded: "2026-01-02T03:04:05Z" },
          { key: "b", value: "", effect: "NoSchedule" },
        ],
      },
    })),
];

const iterators = new Map<WatchStream<Node>, AsyncIterator<WatchEvent<Node>>>();

/** The next events, up to one of this type. */
async function read(watch: WatchStream<Node>, last: string): Promise<readonly WatchEvent<Node>[]> {
  const events = iterators.get(watch) ?? watch[Symbol.asyncIterator]();
  iterators.set(watch, events);
  const seen: WatchEvent<Node>[] = [];
  for (let next = await events.next(); next.done !== true; next = await events.next()) {
    seen.push(next.value);
    if (next.value.type === last) break;
  }
  return seen;
}

it("are the same objects in lists, page by page, and in watches", async () => {
  for (const node of made) await client.create(nodes, node.build());
  await client.delete(nodes, { name: "leaving" });
  const list = async (project: Projection<Node>): Promise<readonly Node[]> => {
    const found: Node[] = [];
    for await (const page of client.pages(nodes, { limit: 2, project })) found.push(...page.items);
    return found;
  };
  const listed = await list(asJson);
  expect(listed.map((node) => node.metadata?.name)).toEqual(["leaving", "plain", "usual"]);
  expect(await list(asProtobuf)).toEqual(listed);

  const watches = await Promise.all(
    [asJson, asProtobuf].map((project) => client.watch(nodes, { project, sendInitialEvents: true })),
  );
  const [json = [], protobuf = []] = await Promise.all(watches.map((watch) => read(watch, "BOOKMARK")));
  expect(json.map(({ type }) => type)).toEqual([...listed.map(() => "ADDED"), "BOOKMARK"]);
  expect(protobuf.slice(0, -1)).toEqual(json.slice(0, -1));
  expect(protobuf.at(-1)).toMatchObject({ type: "BOOKMARK", initialEventsEnd: true });
  const finalizers = { metadata: { finalizers: null } };
  await client.patch(nodes, { name: "plain" }, { type: "merge", body: { spec: { unschedulable: true } } });
  await client.patch(nodes, { name: "leaving" }, { type: "merge", body: finalizers });
  const [changed, same] = await Promise.all(watches.map((watch) => read(watch, "DELETED")));
  expect(changed?.map(({ type }) => type)).toEqual(["MODIFIED", "DELETED"]);
  expect(same).toEqual(changed);
  for (const watch of watches) await watch[Symbol.asyncDispose]();
});

it("that are refused fail as in JSON", async () => {
  for (const options of [{ continue: "no token" }, { labelSelector: "((" }]) {
    const [json, protobuf] = await Promise.all(
      [asJson, asProtobuf].map((project) => errorOf(client.list(nodes, { project, ...options }))),
    );
    expect(json?.failure).toMatchObject({ kind: "invalid" });
    expect(protobuf?.failure).toEqual(json?.failure);
    expect(protobuf?.message).toBe(json?.message);
  }
});
