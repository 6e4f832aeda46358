/** What a real API server says of the rights that holds take. */
import {
  clusterRoleBindings,
  clusterRoles,
  type KubeClient,
  namespaces,
  type PolicyRule,
  roleBindings,
} from "@berth/kube";
import { systemClock } from "@berth/runtime";
import { eventually, sharedTestCluster, type TestCluster } from "@berth/testcluster";
import { beforeAll, describe, expect, it } from "vitest";
import { FINALIZER, footprintsOf, GROUP } from "../testing/hold-world.ts";
import type { Guard } from "./decide.ts";
import { HoldRights } from "./rights.ts";

const rbac = "rbac.authorization.k8s.io";
const subjects = [{ apiGroup: rbac, kind: "User", name: "holder" }];
const [footprint] = footprintsOf({}).footprints;
const guard: Guard = {
  resource: { group: GROUP, version: "v1", resource: "pools" },
  finalizer: FINALIZER,
  footprint,
};
let cluster: TestCluster;

beforeAll(async () => {
  cluster = await sharedTestCluster();
  for (const name of ["shop", "bank"]) await cluster.client.create(namespaces, { metadata: { name } });
}, 60_000);

async function createRole(name: string, verbs: PolicyRule["verbs"]): Promise<void> {
  const rules = [{ apiGroups: ["apps"], resources: ["deployments"], verbs }];
  await cluster.client.create(clusterRoles, { metadata: { name }, rules });
}

const refTo = (name: string) => ({ apiGroup: rbac, kind: "ClusterRole", name });

const missing = (client: KubeClient, namespace: string): Promise<string | undefined> =>
  new HoldRights({ client, clock: systemClock }).missing(guard, namespace, new AbortController().signal);

describe("the server's answers about the rights of holds", () => {
  it("are those of its roles, for all namespaces or for one", async () => {
    const { client } = cluster;
    await using holder = cluster.connect({ user: await cluster.user("holder", ["system:authenticated"]) });
    await createRole("reads", ["list", "watch"]);
    await createRole("deletes", ["delete"]);
    const metadata = { name: "holder" };
    await client.create(clusterRoleBindings, { metadata, roleRef: refTo("reads"), subjects });
    const lack = 'verb "delete" on "deployments.apps" in namespace "shop" is missing';
    await eventually(async () => expect(await missing(holder, "shop")).toBe(lack));
    const only = { metadata, roleRef: refTo("deletes"), subjects };
    await client.create(roleBindings, only, { namespace: "shop" });
    await eventually(async () => expect(await missing(holder, "shop")).toBeUndefined());
    expect(await missing(holder, "bank")).toContain('in namespace "bank"');
    await client.create(clusterRoleBindings, { ...only, metadata: { name: "deleter" } });
    await eventually(async () => expect(await missing(holder, "bank")).toBeUndefined());
  });
});
