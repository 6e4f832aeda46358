/** What a footprint does with the DaemonSet of its agent, and says of it, on a real API server. Nothing schedules pods here. */

import { daemonSets, defineResource, type KubeObject, type PolicyRule } from "@berth/kube";
import { type NodeFootprintSpec, nodeFootprints } from "@berth/placement";
import { eventually, type TestCluster } from "@berth/testcluster";
import { afterEach, beforeAll, describe, expect, it } from "vitest";
import { hurriedClock } from "../../../runtime/src/testing/hurried-clock.ts";
import {
  aBerth,
  agentOf,
  aUsedNode,
  clear,
  conditionOf,
  footprintCluster,
  grant,
  LABEL,
  NAMESPACE,
  statusOf,
  writeFootprint,
} from "./testing/footprint-cluster.ts";

const USER = "berth-without-patch";
const AGENT = { namespace: "default", name: "agent" };
const MANAGED: NodeFootprintSpec = {
  preset: "log",
  workloads: [{ podSelector: { matchLabels: { logs: "yes" } } }],
  release: { delay: "0s" },
  agent: { daemonSet: AGENT, nodeSelector: "Manage" },
};

let cluster: TestCluster;

beforeAll(async () => {
  cluster = await footprintCluster(NAMESPACE);
  await grant(cluster, { name: "all-but-agents", user: USER }, ...ALL_BUT_AGENTS);
});
afterEach(() => clear(cluster));

const ALL_BUT_AGENTS: readonly PolicyRule[] = [
  {
    apiGroups: ["", "berth.dev", "events.k8s.io", "apiextensions.k8s.io", "admissionregistration.k8s.io"],
    resources: ["*"],
    verbs: ["*"],
  },
  { apiGroups: ["apps"], resources: ["*"], verbs: ["get", "list", "watch"] },
];

const write = (spec: NodeFootprintSpec): Promise<object> => writeFootprint(cluster, "agent", spec);
const placed = (): Promise<unknown> => conditionOf(cluster, "AgentPlaced");
const selector = async (): Promise<unknown> =>
  (await cluster.client.get(daemonSets, AGENT)).spec?.template.spec?.nodeSelector;

/** A new version of the DaemonSet, upon which what is refused is tried again. */
async function touch(): Promise<void> {
  const body = { metadata: { annotations: { touched: String(performance.now()) } } };
  await cluster.client.patch(daemonSets, AGENT, { type: "merge", body });
}

const policies = defineResource<KubeObject & { readonly spec?: object }>({
  group: "admissionregistration.k8s.io",
  version: "v1",
  plural: "validatingadmissionpolicies",
  kind: "ValidatingAdmissionPolicy",
  namespaced: false,
});
const policyBindings = defineResource<KubeObject & { readonly spec?: object }>({
  ...policies,
  plural: "validatingadmissionpolicybindings",
  kind: "ValidatingAdmissionPolicyBinding",
});

const PATCH_AGENTS: PolicyRule = { apiGroups: ["apps"], resources: ["daemonsets"], verbs: ["patch"] };

const text = (pattern: RegExp): unknown => expect.stringMatching(pattern);

describe("an agent that Berth may not manage", () => {
  it("has it said by a condition with the right, written once however often it is tried, until a patch goes through", async () => {
    await using _berth = await aBerth(cluster, { user: USER, clock: hurriedClock(4) });
    await cluster.client.create(daemonSets, agentOf());
    await aUsedNode(cluster, "n1");
    await write(MANAGED);
    await eventually(async () =>
      expect(await placed()).toMatchObject({
        status: "False",
        reason: "WriteRefused",
        message: text(
          /^the DaemonSet default\/agent: .*patch daemonsets\.apps "agent" in "default": .*forbidden.*; allow Berth to patch it, or have its own manifest ask for footprint\.berth\.dev\/agent=true$/s,
        ),
      }),
    );
    // All else that is to be said has been.
    const nodes = { labelled: 1, pending: 0, agentReady: 0 };
    await eventually(async () => expect((await statusOf(cluster)).nodes).toMatchObject(nodes));
    const mark = await cluster.audit.mark();
    const tried = (code: number): Promise<number> =>
      cluster.audit.countSince(mark, { user: USER, verb: "patch", resource: "daemonsets.apps", code });
    for (const times of [1, 2, 3]) {
      await touch();
      await eventually(async () => expect(await tried(403)).toBe(times));
    }
    await using _right = await grant(cluster, { name: "patch-agents", user: USER }, PATCH_AGENTS);
    await eventually(async () => {
      await touch();
      expect(await tried(200)).toBe(1);
    });
    await eventually(async () =>
      expect(await placed()).toMatchObject({ status: "True", reason: "AgentPlaced" }),
    );
    const statuses = { user: USER, verb: "patch", resource: "nodefootprints.berth.dev" };
    expect(await cluster.audit.countSince(mark, statuses)).toBe(1);
    expect(await selector()).toEqual({ [LABEL]: "true" });
  });

  it("has it said where a policy denies it, and no more once its manifest does it or the footprint wants it no longer", async () => {
    const { client } = cluster;
    await using _right = await grant(cluster, { name: "patch-denied-agents", user: USER }, PATCH_AGENTS);
    const name = "agents-stay";
    await client.create(policies, {
      metadata: { name },
      spec: {
        matchConstraints: {
          resourceRules: [
            { apiGroups: ["apps"], apiVersions: ["v1"], operations: ["UPDATE"], resources: ["daemonsets"] },
          ],
        },
        matchConditions: [{ name: "berth", expression: `request.userInfo.username == "${USER}"` }],
        validations: [{ expression: "false", message: "agents are managed elsewhere" }],
      },
    });
    await client.create(policyBindings, {
      metadata: { name },
      spec: { policyName: name, validationActions: ["Deny"] },
    });
    await using _policy = {
      async [Symbol.asyncDispose]() {
        for (const resource of [policyBindings, policies]) await client.delete(resource, { name });
      },
    };
    await cluster.client.create(daemonSets, agentOf());
    await using asBerth = cluster.connect({ user: await cluster.user(USER, ["system:authenticated"]) });
    const body = { metadata: { annotations: { a: "b" } } };
    await eventually(() =>
      expect(asBerth.patch(daemonSets, AGENT, { type: "merge", body }, { dryRun: true })).rejects.toThrow(
        "agents are managed elsewhere",
      ),
    );
    await using _berth = await aBerth(cluster, { user: USER, clock: hurriedClock(4) });
    await aUsedNode(cluster, "n1");
    await write(MANAGED);
    const denied = {
      status: "False",
      reason: "WriteRefused",
      message: text(/default\/agent.*agents are managed elsewhere.*; allow Berth/s),
    };
    await eventually(async () => expect(await placed()).toMatchObject(denied), { timeoutMs: 20_000 });
    const edit = (nodeSelector: string): Promise<unknown> =>
      client.patch(
        nodeFootprints,
        { name: "agent" },
        { type: "merge", body: { spec: { agent: { nodeSelector } } } },
      );
    await edit("Verify");
    await eventually(async () => expect(await placed()).toMatchObject({ reason: "AgentEverywhere" }));
    await edit("Manage");
    await eventually(async () => expect(await placed()).toMatchObject(denied), { timeoutMs: 20_000 });
    const spec = { template: { spec: { nodeSelector: { [LABEL]: "true" } } } };
    await client.patch(daemonSets, AGENT, { type: "merge", body: { spec } });
    await eventually(async () =>
      expect(await placed()).toMatchObject({ status: "True", reason: "AgentPlaced" }),
    );
  });
});
