/**
 * Who Berth is to the API server: a token that is replaced on the disk, and rights that are missing. Afterwards the
 * nodes are exactly right, no label has flapped, and at rest nothing is written.
 */
import { mkdtemp, rm, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import path from "node:path";
import {
  type ClusterRole,
  clusterRoleBindings,
  clusterRoles,
  type KubeClient,
  selfSubjectAccessReviews,
} from "@berth/kube";
import { createJsonLogger } from "@berth/runtime";
import { eventually, startTestCluster, type TestCluster } from "@berth/testcluster";
import { afterAll, beforeAll, describe, expect, it } from "vitest";
import { changeAll, followed, populate } from "./label-faults.ts";
import { RECONNECTED } from "./patience.ts";
import { issueToken, tokenKubeconfig } from "./tokens.ts";

let cluster: TestCluster;
beforeAll(async () => {
  cluster = await startTestCluster({ audit: true, users: [{ name: "worker" }] });
});
afterAll(() => cluster[Symbol.asyncDispose]());

it("the credential is read again from the disk when the token was rotated, however late", async () => {
  await using fixture = await populate(cluster, "token");
  const folder = await mkdtemp(path.join(tmpdir(), "berth-token-"));
  fixture.owns(() => rm(folder, { recursive: true }));
  const file = path.join(folder, "token");
  const issued = [await issueToken(cluster, "token", "first"), await issueToken(cluster, "token", "second")];
  await writeFile(file, issued[0]?.token ?? "");
  const berth = await fixture.start({ kubeconfig: tokenKubeconfig(cluster, file) });
  await fixture.right();
  await issued[0]?.revoke();
  await changeAll(fixture);
  await eventually(async () =>
    expect(await berth.metric("berth_node_writes_total", { result: "failed" })).toBeGreaterThan(1),
  );
  await writeFile(file, issued[1]?.token ?? "");
  await followed(fixture, RECONNECTED);
  await expect(berth.ready()).resolves.toBeUndefined();
});

describe("a right that is missing", () => {
  const rule = (...verbs: string[]): NonNullable<ClusterRole["rules"]>[number] => ({
    apiGroups: [""],
    resources: ["nodes"],
    verbs,
  });
  const always: NonNullable<ClusterRole["rules"]> = [
    { apiGroups: [""], resources: ["namespaces"], verbs: ["get"] },
    { apiGroups: ["events.k8s.io"], resources: ["events"], verbs: ["create", "patch"] },
  ];

  /** The user `worker` may do this with nodes, and nothing else that matters. */
  async function grant(...verbs: string[]): Promise<void> {
    const { client } = cluster;
    const role = {
      metadata: { name: "worker" },
      rules: verbs.length === 0 ? always : [...always, rule(...verbs)],
    };
    await client.apply(clusterRoles, role, { force: true });
    await client.apply(clusterRoleBindings, {
      metadata: { name: "worker" },
      roleRef: { apiGroup: "rbac.authorization.k8s.io", kind: "ClusterRole", name: "worker" },
      subjects: [{ apiGroup: "rbac.authorization.k8s.io", kind: "User", name: "worker" }],
    });
    await using worker = cluster.connect({ user: await cluster.user("worker") });
    await eventually(async () => {
      for (const verb of ["list", "watch", "patch"] as const) {
        expect(await may(worker, verb)).toBe(verbs.includes(verb));
      }
    });
  }

  it.each([
    ["patch", ["get", "list", "watch"]],
    ["watch", ["get", "list", "patch"]],
  ])(
    "is named by verb and resource in readiness and log, and healed by granting it: %s",
    async (verb, others) => {
      await grant(...others);
      await using fixture = await populate(cluster, `rbac-${verb}`);
      const lines: string[] = [];
      const log = createJsonLogger({
        level: "warn",
        destination: { write: (line) => void lines.push(line) },
      });
      const user = await cluster.user("worker");
      // What it has asked for in vain it asks for less and less often: that time passes faster.
      const options = { user, pace: 5, log, healthProbeBindAddress: "127.0.0.1:0" };
      const berth = await fixture.startInProcess(options);
      const named = new RegExp(`"${verb}" on "nodes"|${verb} nodes`);
      const readiness = async (): Promise<string> =>
        (await fetch(`${berth.healthUrl}/readyz?verbose`)).text();
      await eventually(async () => {
        expect(await readiness()).toMatch(named);
        expect(lines.join("\n").replaceAll('\\"', '"')).toMatch(named);
      });
      await grant("get", "list", "watch", "patch");
      await changeAll(fixture);
      await followed(fixture, RECONNECTED);
      // A problem, or a warning.
      await eventually(async () => expect(await readiness()).not.toMatch(/^\[[-!]\]/m));
    },
  );
});

async function may(client: KubeClient, verb: "list" | "watch" | "patch"): Promise<boolean> {
  const spec = { resourceAttributes: { verb, resource: "nodes" } };
  return (await client.create(selfSubjectAccessReviews, { spec })).status?.allowed === true;
}
