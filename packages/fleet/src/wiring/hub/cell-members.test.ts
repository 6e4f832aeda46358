import { Buffer } from "node:buffer";
import type { Secret } from "@berth/kube";
import { clusterName } from "@berth/runtime";
import { afterEach, expect, it, vi } from "vitest";
import type { Cell } from "../../api/cell.ts";
import { aCell } from "../../hub/testing/fixtures.ts";
import { CellMembers } from "./cell-members.ts";
import type { Planes } from "./planes.ts";
import { Objects } from "./testing/objects.ts";

const own = clusterName("hub");
let stopping = new AbortController();
afterEach(() => stopping.abort());

async function following() {
  stopping = new AbortController();
  const [cells, secrets] = [new Objects<Cell>(own), new Objects<Secret>(own)];
  const joined = new Map<string, object>();
  const identified = { get: () => ({ identity: "uid-hub" }) };
  const planes = {
    own: { name: own },
    hub: { set: identified, name: own },
    projects: { get: () => ({ identity: "uid-project" }) },
    projectNamed: new Map([["web", { cluster: own, path: "acme/web" }]]),
    cells: {
      join: (name: string, access: object) => joined.set(name, access),
      leave: (name: string) => Promise.resolve(joined.delete(name)),
    },
    views: { cells: cells.view, secrets: secrets.view },
  } as unknown as Planes;
  const members = new CellMembers({
    planes,
    home: "berth-system",
    userAgent: "berth",
    onChange: () => undefined,
  });
  await members.component().start(stopping.signal);
  const look = (): void => members.look();
  const add = (name: string, token: string, uid = `uid-${name}`): Cell => {
    const { cell } = aCell(name, { spec: { uid } });
    const made = {
      ...cell,
      metadata: { ...cell.metadata, creationTimestamp: `2026-01-0${cells.size + 1}T00:00:00Z` },
    };
    cells.set(made);
    give(name, token);
    return made;
  };
  const give = (name: string, token: string): void => {
    const kubeconfig = JSON.stringify({
      apiVersion: "v1",
      kind: "Config",
      "current-context": "c",
      contexts: [{ name: "c", context: { cluster: "c", user: "u" } }],
      clusters: [{ name: "c", cluster: { server: "https://cell.test:6443" } }],
      users: [{ name: "u", user: { token } }],
    });
    secrets.set({
      metadata: { namespace: "berth-system", name },
      data: { kubeconfig: Buffer.from(kubeconfig).toString("base64") },
    });
  };
  const state = (): object =>
    Object.fromEntries(
      [...cells.view.list(own)].map(({ metadata }) => {
        const name = metadata?.name ?? "";
        return [name, members.problemOf(name)?.reason ?? (joined.has(name) ? "joined" : "away")];
      }),
    );
  return { cells, add, give, look, state };
}

it("a Cell may have the cluster and the credential of one that has just gone", async () => {
  const { cells, add, look, state } = await following();
  const gone = add("a", "t");
  look();
  await vi.waitFor(() => expect(state()).toEqual({ a: "joined" }));
  cells.delete(gone);
  add("b", "t", "uid-a");
  look();
  await vi.waitFor(() => expect(state()).toEqual({ b: "joined" }));
});

it("two Cells may change their credentials with each other, and one has none of another", async () => {
  const { add, give, look, state } = await following();
  add("a", "t1");
  add("b", "t2");
  look();
  await vi.waitFor(() => expect(state()).toEqual({ a: "joined", b: "joined" }));
  give("a", "t2");
  give("b", "t1");
  look();
  await vi.waitFor(() => expect(state()).toEqual({ a: "joined", b: "joined" }));
  give("b", "t2");
  look();
  await vi.waitFor(() => expect(state()).toEqual({ a: "joined", b: "SecretInvalid" }));
});

it.each([
  ["another Cell", "uid-a"],
  ["the hub", "uid-hub"],
  ["a project", "uid-project"],
])("a Cell that is %s is no cell", async (_, uid) => {
  const { add, look, state } = await following();
  add("a", "t1");
  add("b", "t2", uid);
  look();
  await vi.waitFor(() => expect(state()).toEqual({ a: "joined", b: "DuplicateIdentity" }));
});
