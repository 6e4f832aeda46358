/** What a footprint says of itself where Berth lacks rights, on a real API server with RBAC. */

import { daemonSets, nodes, pods } from "@berth/kube";
import type { LogFields, Logger } from "@berth/runtime";
import { aNode, eventually, type TestCluster } from "@berth/testcluster";
import { beforeAll, describe, expect, it } from "vitest";
import { startBerth } from "../composition.ts";
import { testFolder } from "../testing/harness.ts";
import {
  agentOf,
  allOf,
  aPool,
  aUsedNode,
  conditionOf,
  footprintCluster,
  grant,
  podOf,
  statusOf,
  writeFootprint,
} from "./testing/footprint-cluster.ts";

let cluster: TestCluster;

beforeAll(async () => {
  cluster = await footprintCluster();
});

const USER = "footprints-without-pools";

const text = (pattern: RegExp): unknown => expect.stringMatching(pattern);

describe("a footprint whose owners may not be read", () => {
  it("says which right is missing, and not that nothing is pending; the process stays ready", async () => {
    const { client } = cluster;
    await grant(cluster, { name: "all-but-pools", user: USER }, allOf("berth.dev"));
    const pool = await aPool(cluster, "p");
    await client.create(nodes, aNode("n1").build());
    const pod = podOf(pool, "ateom", "n1").labelled({ "ate.dev/worker-pool": "p" });
    await client.create(pods, pod.build(), { namespace: "default" });
    await writeFootprint(cluster, "atelet", { preset: "agent-substrate/owner-uid" });
    await using asUser = cluster.connect({ user: await cluster.user(USER, ["system:authenticated"]) });
    await using berth = await startBerth({ client: asUser });
    await eventually(async () => {
      expect(await conditionOf(cluster, "AgentPlaced", "atelet")).toMatchObject({
        status: "Unknown",
        reason: "FootprintUnknown",
        message: text(/^it is not known yet of one node .*: get workerpools\.ate\.dev "p".*forbidden/s),
      });
      expect(await conditionOf(cluster, "OwnersHeld", "atelet")).toMatchObject({
        status: "Unknown",
        reason: "FootprintHindered",
        message: text(
          /^the hold of workerpools\.ate\.dev cannot be kept: workerpools\.ate\.dev: \w+ workerpools\.ate\.dev is forbidden/s,
        ),
      });
      expect((await statusOf(cluster, "atelet")).nodes).toMatchObject({ labelled: 0, unknown: 1 });
    });
    expect((await statusOf(cluster, "atelet")).nodes).not.toHaveProperty("pending");
    expect(berth.problems()).toEqual([]);
    const { body } = await berth.metrics.expose();
    expect(body.split("\n")).toContain("berth_footprints_hindered 1");
    // Read, but not changed: the finalizer cannot be put on.
    await grant(
      cluster,
      { name: "read-pools", user: USER },
      { apiGroups: ["ate.dev"], resources: ["*"], verbs: ["get", "list", "watch"] },
    );
    await eventually(
      async () =>
        expect(await conditionOf(cluster, "OwnersHeld", "atelet")).toMatchObject({
          status: "Unknown",
          message: text(/cannot be kept: patch workerpools\.ate\.dev "p" in "default".*forbidden/s),
        }),
      { timeoutMs: 20_000, everyMs: 200 },
    );
    expect(berth.problems()).toEqual([]);
  });
});

const FILE = `apiVersion: berth.dev/v1alpha1
kind: NodeFootprint
metadata: {name: logs}
spec:
  preset: log
  workloads: [{podSelector: {matchLabels: {logs: "yes"}}}]
  agent: {daemonSet: {namespace: default, name: logs}}
`;

/** Keeps what is told of footprints. */
function aLog(): { readonly log: Logger; readonly told: readonly string[] } {
  const told: string[] = [];
  const write =
    (level: string) =>
    (noun: string, { name, condition, status, reason }: LogFields = {}): void => {
      if (noun === "node footprint" && String(name).startsWith("config/"))
        told.push([level, name, condition, status, reason].join(" "));
    };
  const log: Logger = {
    debug: write("debug"),
    info: write("info"),
    warn: write("warn"),
    error: write("error"),
    with: () => log,
  };
  return { log, told };
}

describe("a footprint in a file", () => {
  it("has its conditions logged, each once and as it changes, from the first that is known", async () => {
    const { client } = cluster;
    const { log, told } = aLog();
    await aUsedNode(cluster, "n2");
    await using folder = await testFolder({ "berth.yaml": FILE });
    await using asBerth = cluster.connect();
    await using _berth = await startBerth({
      client: asBerth,
      log,
      config: [{ path: `${folder.path}/berth.yaml`, shown: "berth.yaml" }],
    });
    const first = [
      "info config/logs Ready True FootprintInForce",
      "warn config/logs AgentPlaced False DaemonSetMissing",
    ];
    await eventually(() => expect(told.toSorted()).toEqual(first.toSorted()));
    await client.create(daemonSets, agentOf({ "footprint.berth.dev/logs": "true" }, "logs"));
    await eventually(() => expect(told).toHaveLength(3));
    expect(told.at(-1)).toBe("info config/logs AgentPlaced True AgentPlaced");
  });
});

const POOLS = `apiVersion: berth.dev/v1alpha1
kind: WorkerPools
metadata: {name: default}
spec: {}
`;

describe("WorkerPools that may not be read", () => {
  it("are told of by the informer's metrics, and keep the process ready for what else it does", async () => {
    const user = "pools-without-rights";
    await grant(cluster, { name: "no-pools", user }, allOf("berth.dev"));
    await using folder = await testFolder({ "berth.yaml": POOLS });
    await using asUser = cluster.connect({ user: await cluster.user(user, ["system:authenticated"]) });
    await using berth = await startBerth({
      client: asUser,
      config: [{ path: `${folder.path}/berth.yaml`, shown: "berth.yaml" }],
    });
    const lines = async (): Promise<readonly string[]> => {
      const { body } = await berth.metrics.expose();
      return body.split("\n").filter((line) => line.includes("workerpools.ate.dev"));
    };
    await eventually(async () =>
      expect(await lines()).toEqual(
        expect.arrayContaining([
          text(/^berth_informer_failures_total\{.*forbidden.*\} [1-9]/),
          text(/^berth_informer_synced\{.*\} 0$/),
        ]),
      ),
    );
    await eventually(() => expect(berth.problems()).toEqual([]));
  });
});
