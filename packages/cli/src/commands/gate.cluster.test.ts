/** Startup gates in the commands that look at a cluster once, on a real API server. */
import { assembleReadDocuments, defaultAdmissionServer, ownerLabels } from "@berth/host";
import {
  clusterRoleBindings,
  clusterRoles,
  customResourceDefinitions,
  daemonSets,
  events,
  mutatingAdmissionPolicies,
  mutatingAdmissionPolicyBindings,
  mutatingWebhookConfigurations,
  namespaces,
  nodes,
  serviceAccounts,
} from "@berth/kube";
import {
  admissionPolicies,
  berthAs,
  gateRules,
  nodePools,
  startupGateSpec,
  startupGates,
} from "@berth/placement";
import { aNode, eventually, sharedTestCluster, type TestCluster } from "@berth/testcluster";
import { beforeAll, describe, expect, it } from "vitest";
import { loadSettings } from "../config/settings.ts";
import { exitCodes } from "../exit-codes.ts";
import { crds } from "../kinds.ts";
import { aDaemonSet, GATE, gateStage, initPod, NAMESPACE, TAINT } from "../testing/gate-stage.ts";
import { type CliResult, testFolder } from "../testing/harness.ts";

let cluster: TestCluster;
beforeAll(async () => {
  cluster = await sharedTestCluster();
  await cluster.client.create(namespaces, { metadata: { name: NAMESPACE } });
});

const tolerationsOf = async (name: string) =>
  (await cluster.client.get(daemonSets, { namespace: NAMESPACE, name })).spec?.template.spec?.tolerations;

describe("berth gate list and explain", () => {
  it("I-5 say which node is held and what it waits for, in JSON as in the table, before and after a running Berth has seen it", async () => {
    await using on = await gateStage(cluster);
    const first = await on.command("gate", "list");
    expect(first.stdout).toBe(
      "NODE   GATE             AGE       PHASE   WAITS FOR\n" +
        `held   config/network   unknown   Held    pods ${NAMESPACE} startup.k8s.io/component=init: there is no such pod on the node\n`,
    );
    const { held } = JSON.parse((await on.command("gate", "list", "-o", "json")).stdout);
    expect(first.stdout).toContain(held[0].waitsFor[0]);
    const open = await on.command("explain", "node", "open", "-o", "yaml");
    expect(open.stdout).toMatch(/gates:\n {2}- gate: config\/network\n {4}selected: true\n {4}held: false\n/);
    await initPod(cluster, "held");
    await using _berth = await on.running();
    const { stdout } = await on.command("gate", "list", "-o", "json");
    const listed = JSON.parse(stdout) as { readonly held: readonly { readonly node: string }[] };
    // The other node is young and idle: by now Berth may hold it as well.
    expect({ ...listed, held: listed.held.filter(({ node }) => node === "held") }).toMatchObject({
      gates: ["config/network"],
      held: [
        {
          node: "held",
          gate: "config/network",
          phase: "Held",
          reason: "Gated",
          since: expect.stringMatching(/^\d{4}-.*Z$/),
          signals: [{ state: "missing", reason: "PodNotReady" }],
          timeouts: [{ timeout: "notReady", ofMs: 3_600_000, policy: "Release" }],
        },
      ],
    });
    const explained = await on.command("explain", "node", "held");
    expect(explained.stdout).toContain(`taint/${TAINT.replace("=wait", "")}=wait\n`);
    expect(explained.stdout).toMatch(
      /gate config\/network\n {2}phase +Held: Gated\n {2}held since +\d{4}-.* ago\)\n/,
    );
    expect(explained.stdout).toMatch(/signal missing +pods .*: PodNotReady: gate-cli\/init-1 is not ready/);
    expect(explained.stdout).toMatch(/timeout notReady of 1h in 59m\d*s?: the node is released/);
  });

  it("tell apart that there are no gates and that none holds a node", async () => {
    await using on = await gateStage(cluster);
    await cluster.client.delete(nodes, { name: "held" });
    const none = await on.command("gate", "list");
    expect([none.code, none.stdout]).toEqual([exitCodes.done, "No startup gate holds a node.\n"]);
    const without = await on.bare("gate", "list");
    expect([without.code, without.stderr]).toEqual([exitCodes.usage, expect.stringContaining("--config")]);
  });
});

describe("without the right to read what gates look at", () => {
  it("says what is left out, and takes nothing for missing", async () => {
    await using on = await gateStage(cluster);
    const { client } = cluster;
    const rbac = "rbac.authorization.k8s.io";
    const name = "gate-cli-reader";
    const user = await cluster.user(name);
    await using cleanup = new AsyncDisposableStack();
    const rules = [{ apiGroups: [""], resources: ["nodes"], verbs: ["get", "list"] }];
    await client.create(clusterRoles, { metadata: { name }, rules });
    cleanup.defer(() => client.delete(clusterRoles, { name }));
    await client.create(clusterRoleBindings, {
      metadata: { name },
      roleRef: { apiGroup: rbac, kind: "ClusterRole", name },
      subjects: [{ apiGroup: rbac, kind: "User", name }],
    });
    cleanup.defer(() => client.delete(clusterRoleBindings, { name }));
    await using folder = await testFolder({ "gates.yaml": GATE, kubeconfig: cluster.kubeconfig({ user }) });
    const command = (...args: readonly string[]): Promise<CliResult> =>
      folder.berth([...args, "--config", "gates.yaml", "--kubeconfig", "kubeconfig"]);
    await eventually(async () => expect((await command("gate", "list")).code).toBe(exitCodes.done));
    const { stdout, stderr } = await command("explain", "node", "held");
    expect(stderr).toMatch(/^StartupGates are left out: .*forbidden/m);
    expect(stderr).toMatch(/^Pods are left out, .*forbidden/m);
    expect(stdout).toMatch(/signal unknown +pods .*SignalUnknown/);
    const refused = await command("gate", "release", "held", "--reason", "x");
    expect([refused.code, refused.stderr]).toEqual([
      exitCodes.cluster,
      expect.stringContaining('verb "patch"'),
    ]);
    expect(await on.taintsOf("held")).toContain("startup.k8s.io/initializing");
  });
});

describe("berth plan", () => {
  it("takes the times of objects for its own when it says that a gate lets go", async () => {
    await using on = await gateStage(cluster);
    await initPod(cluster, "held", { readySince: new Date(Date.now() - 60_000).toISOString() });
    const { stdout } = await on.command("plan");
    expect(stdout).toMatch(/- taint\/startup\.k8s\.io\/initializing:NoSchedule=wait +Released/);
    expect(stdout).toContain(
      "config/network selects 2 nodes and holds 1; its taint would be removed from 1 (held). It would hold 1 young one as well, if idle.\n",
    );
    expect(await on.taintsOf("held")).toContain("startup.k8s.io/initializing");
  });

  it("names the DaemonSets that a gate keeps from nodes, and what autoscalers have to know", async () => {
    await using on = await gateStage(cluster);
    await cluster.client.create(daemonSets, aDaemonSet("plain"));
    await cluster.client.create(daemonSets, aDaemonSet("ready", { tolerations: [{ operator: "Exists" }] }));
    await cluster.client.create(daemonSets, aDaemonSet("elsewhere", { nodeSelector: { pool: "none" } }));
    const { stdout } = await on.command("plan", "-o", "json");
    const { startupGates } = JSON.parse(stdout) as {
      startupGates: { daemonSets: object[]; autoscaler: string[] };
    };
    expect(startupGates.daemonSets).toEqual([
      {
        namespace: NAMESPACE,
        name: "plain",
        missing: [{ key: "startup.k8s.io/initializing", operator: "Exists", effect: "NoSchedule" }],
      },
    ]);
    expect(startupGates.autoscaler.join("\n")).toContain("startup.k8s.io/initializing");
    const text = await on.command("plan");
    expect(text.stdout).toContain(`  ${NAMESPACE}/plain   startup.k8s.io/initializing:NoSchedule\n`);
  });

  it("looks up for named nodes only whether pods run there already", async () => {
    await using on = await gateStage(cluster);
    const all = await on.command("plan");
    expect(all.stdout).toContain("whether pods run there: `berth plan open` does.");
    const idle = await on.command("plan", "open");
    expect(idle.stdout).toMatch(/\+ taint\/startup\.k8s\.io\/initializing:NoSchedule=wait +Gated/);
    await initPod(cluster, "open");
    const busy = await on.command("plan", "open");
    expect(busy.stdout).toContain(`because ${NAMESPACE}/init-1 runs there`);
  });

  it("tries a gate that is not applied yet", async () => {
    await using on = await gateStage(cluster);
    const { stdout } = await on.bare("plan", "--try", "gates.yaml");
    expect(stdout).toContain("cluster/network selects 2 nodes");
    expect((await on.node("held")).metadata?.annotations ?? {}).not.toHaveProperty(["berth.dev/marks"]);
  });
});

describe("berth gate release", () => {
  it("lets the node go by one write, tells it in an Event, and a running Berth keeps to it", async () => {
    await using on = await gateStage(cluster);
    await using _berth = await on.running();
    const reason = "the vendor said so";
    const { code, stdout, stderr } = await on.command("gate", "release", "held", "--reason", reason);
    expect([code, stdout, stderr]).toEqual([
      exitCodes.done,
      "config/network releases held: startup.k8s.io/initializing:NoSchedule is removed.\n",
      "",
    ]);
    const { metadata, spec } = await on.node("held");
    expect(spec?.taints?.map(({ key }) => key)).not.toContain("startup.k8s.io/initializing");
    expect(metadata?.annotations?.["startup.k8s.io/completedAt"]).toMatch(/^\d{10}$/);
    expect(metadata?.annotations?.["gate.berth.dev/network"]).toMatch(
      /"state":"released".*"why":"ReleasedByHand".*"note":"the vendor said so"/,
    );
    const found = await cluster.client.list(events, { namespace: "default" });
    const said = found.items.find(
      ({ reason, regarding }) => reason === "ReleasedByHand" && regarding?.uid === metadata?.uid,
    );
    expect(said?.note).toContain(reason);

    // Its signals are missing still: only what was said by hand can make Berth take the taint off again.
    const again = {
      spec: { taints: [{ key: "startup.k8s.io/initializing", value: "wait", effect: "NoSchedule" }] },
    };
    await cluster.client.patch(nodes, { name: "held" }, { type: "merge", body: again });
    await eventually(async () => expect(await on.taintsOf("held")).toEqual([]));
    const explained = await on.command("explain", "node", "held");
    expect(explained.stdout).toMatch(
      /phase +Open: ReleasedByHand\n {2}let go +.* ago\)\n {2}note +"the vendor said so"/,
    );
  });

  it("does nothing to a node that is not held, and says so", async () => {
    await using on = await gateStage(cluster);
    const before = (await on.node("open")).metadata?.resourceVersion;
    const { code, stderr } = await on.command("gate", "release", "open", "--reason", "x");
    expect([code, stderr]).toEqual([exitCodes.failed, "berth: open is not held by a startup gate\n"]);
    expect((await on.node("open")).metadata?.resourceVersion).toBe(before);
    const wrong = await on.command("gate", "release", "held", "--gate", "storage", "--reason", "x");
    expect([wrong.code, wrong.stderr]).toEqual([
      exitCodes.failed,
      "berth: there is no startup gate storage; there are: network\n",
    ]);
  });

  it("gets through while others write the node", async () => {
    await using on = await gateStage(cluster);
    const storm = (async () => {
      for (let at = 0; at < 15; at++) {
        const body = { metadata: { annotations: { storm: String(at) } } };
        await cluster.client.patch(nodes, { name: "held" }, { type: "merge", body });
      }
    })();
    const { code } = await on.command("gate", "release", "held", "--reason", "storm");
    await storm;
    expect([code, await on.taintsOf("held")]).toEqual([exitCodes.done, ["example.com/other"]]);
  });
});

describe("berth gate tolerate", () => {
  it("adds each toleration once, however often it runs, and rolls out only what it changes", async () => {
    await using on = await gateStage(cluster);
    const { client } = cluster;
    const other = { key: "example.com/other", operator: "Exists" };
    await client.create(daemonSets, aDaemonSet("plain"));
    await client.create(daemonSets, aDaemonSet("some", { tolerations: [other] }));
    await client.create(daemonSets, aDaemonSet("all", { tolerations: [{ operator: "Exists" }] }));
    const toleration = { key: "startup.k8s.io/initializing", operator: "Exists", effect: "NoSchedule" };
    const shown = await on.command("gate", "tolerate", "--namespace", NAMESPACE);
    expect(shown.stdout).toContain(`${NAMESPACE}/plain`);
    expect(shown.stdout).not.toContain(`${NAMESPACE}/all`);
    expect(shown.stderr).toContain("rolls out the pods of each");
    expect(await tolerationsOf("plain")).toBeUndefined();

    const named = await on.command("gate", "tolerate", `${NAMESPACE}/some`, `${NAMESPACE}/all`);
    expect([named.stdout.includes("/some"), named.stdout.includes("/plain")]).toEqual([true, false]);
    const none = await on.command("gate", "tolerate", `${NAMESPACE}/none`, "--yes");
    expect([none.code, none.stderr]).toEqual([
      exitCodes.failed,
      expect.stringContaining(`there is no DaemonSet ${NAMESPACE}/none`),
    ]);
    const wrong = await on.command("gate", "tolerate", "some");
    expect([wrong.code, wrong.stderr]).toEqual([
      exitCodes.usage,
      expect.stringContaining("some: expected NAMESPACE/NAME of a DaemonSet"),
    ]);

    const elsewhere = await on.command("gate", "tolerate", "--namespace", "default", "--yes");
    expect([elsewhere.code, await tolerationsOf("plain")]).toEqual([exitCodes.done, undefined]);
    for (let run = 0; run < 10; run++) {
      expect((await on.command("gate", "tolerate", "--yes")).code).toBe(exitCodes.done);
    }
    expect(await tolerationsOf("plain")).toEqual([toleration]);
    expect(await tolerationsOf("some")).toEqual([other, toleration]);
    const generations = (await client.list(daemonSets, { namespace: NAMESPACE })).items.map(
      ({ metadata }) => `${metadata?.name} ${metadata?.generation}`,
    );
    expect(generations).toEqual(["all 1", "plain 2", "some 2"]);
  });

  it("sees what somebody else adds between its look and its write", async () => {
    await using on = await gateStage(cluster);
    const { client } = cluster;
    await client.create(daemonSets, aDaemonSet("raced"));
    const runs = Array.from({ length: 4 }, () => on.command("gate", "tolerate", "--yes"));
    expect((await Promise.all(runs)).map(({ code }) => code)).toEqual([0, 0, 0, 0]);
    expect(await tolerationsOf("raced")).toHaveLength(1);
  });
});

describe("berth node-template", () => {
  it("prints what templates need for nodes like one, and names the NodePools that lack it", async () => {
    await using on = await gateStage(cluster);
    const { client } = cluster;
    const made = await on.command("node-template", "--for", "karpenter", "--like", "open");
    expect(made.stdout).toContain(
      "startupTaints:\n        - key: startup.k8s.io/initializing\n          value: wait\n",
    );
    const absent = await on.command("node-template", "--check");
    expect([absent.code, absent.stderr]).toEqual([
      exitCodes.failed,
      expect.stringContaining("nodepools.karpenter.sh"),
    ]);
    const schema = { openAPIV3Schema: { type: "object", "x-kubernetes-preserve-unknown-fields": true } };
    await client.create(customResourceDefinitions, {
      metadata: { name: "nodepools.karpenter.sh" },
      spec: {
        group: "karpenter.sh",
        names: { kind: "NodePool", plural: "nodepools" },
        scope: "Cluster",
        versions: [{ name: "v1", served: true, storage: true, schema }],
      },
    });
    const startupTaints = [{ key: "startup.k8s.io/initializing", value: "wait", effect: "NoSchedule" }];
    const expecting = { template: { spec: { startupTaints } } };
    await eventually(() => client.create(nodePools, { metadata: { name: "right" }, spec: expecting }));
    const right = await on.command("node-template", "--check");
    expect([right.code, right.stdout]).toEqual([
      exitCodes.done,
      "All of 1 NodePools expect the taints of their gates.\n",
    ]);
    await client.create(nodePools, { metadata: { name: "wrong" } });
    const wrong = await on.command("node-template", "--check");
    expect([wrong.code, wrong.stdout]).toEqual([
      exitCodes.needsPerson,
      `NODEPOOL   GATE             LACKS STARTUP TAINT\nwrong      config/network   ${TAINT}\n`,
    ]);
  });
});

describe("berth clean", () => {
  it("takes away what holds new nodes before it lets all go, of its own installation", async () => {
    await using on = await gateStage(cluster);
    const { client } = cluster;
    const settings = await loadSettings({ config: [on.config.path] }, "/");
    const list = assembleReadDocuments(gateRules, { settings, hasConfig: true }, undefined).inForce ?? {
      gates: [],
    };
    for (const installation of ["berth", "other"]) {
      const env = { ...berthAs(installation), spec: defaultAdmissionServer };
      // Earlier versions left this.
      const labels = ownerLabels(env, "startup-gate");
      const metadata = { namespace: NAMESPACE, name: `${installation}-startup-gate`, labels };
      await client.create(serviceAccounts, { metadata });
      for (const { policy, binding } of admissionPolicies(list, env)) {
        await client.create(mutatingAdmissionPolicies, policy);
        await client.create(mutatingAdmissionPolicyBindings, binding);
      }
      const webhook = { metadata: { name: metadata.name, labels }, webhooks: [] };
      await client.create(mutatingWebhookConfigurations, webhook);
    }
    await using cleanup = new AsyncDisposableStack();
    cleanup.defer(async () => {
      const labelSelector = "app.kubernetes.io/component=startup-gate";
      await client.deleteCollection(serviceAccounts, { namespace: NAMESPACE, labelSelector });
      await client.deleteCollection(mutatingAdmissionPolicyBindings, { labelSelector });
      await client.deleteCollection(mutatingAdmissionPolicies, { labelSelector });
      await client.deleteCollection(mutatingWebhookConfigurations, { labelSelector });
      // The API server goes by its policies for a second more, and would taint the nodes of the next test.
      await eventually(async () => {
        const { spec } = await client.create(nodes, aNode("probe").build(), { dryRun: true });
        expect(spec?.taints?.map(({ key }) => key)).not.toContain(TAINT.split("=")[0]);
      });
    });
    const names = async (): Promise<readonly string[]> => {
      const lists = await Promise.all([
        client.list(serviceAccounts, { namespace: NAMESPACE, labelSelector: "app.kubernetes.io/component" }),
        client.list(mutatingAdmissionPolicies),
        client.list(mutatingAdmissionPolicyBindings),
        client.list(mutatingWebhookConfigurations),
      ]);
      return lists.flatMap(({ items }) => items.map(({ metadata }) => metadata?.name ?? ""));
    };
    const before = await names();
    const shown = await on.command("clean");
    expect(shown.stdout).toContain(`serviceaccount ${NAMESPACE}/berth-startup-gate: would be deleted\n`);
    expect(shown.stdout).toContain("mutatingadmissionpolicy berth-gate-network: would be deleted\n");
    expect(shown.stdout).toContain("- taint/startup.k8s.io/initializing:NoSchedule=wait");
    expect([await names(), await on.taintsOf("held")]).toEqual([
      before,
      expect.arrayContaining([TAINT.split("=")[0]]),
    ]);

    const done = await on.command("clean", "--yes");
    expect(done.code).toBe(exitCodes.done);
    expect(await names()).toEqual(before.filter((name) => name.includes("other")));
    expect(await on.taintsOf("held")).toEqual(["example.com/other"]);
  });

  it("lets go of nodes by the record alone with --recorded, when no gate is known any more", async () => {
    await using on = await gateStage(cluster);
    {
      await using _berth = await on.running();
    }
    const { code } = await on.bare("clean", "--yes", "--recorded");
    expect([code, await on.taintsOf("held")]).toEqual([exitCodes.done, ["example.com/other"]]);
    const annotations = Object.keys((await on.node("held")).metadata?.annotations ?? {});
    expect(annotations.filter((key) => key.includes("berth.dev") || key.includes("startup"))).toEqual([]);
  });
});

// Last, as from here on the cluster has the CRDs.
describe("StartupGates of the cluster", () => {
  it("count in every command without a file", async () => {
    await using on = await gateStage(cluster);
    const { client } = cluster;
    for (const crd of crds()) await client.apply(customResourceDefinitions, crd);
    const spec = startupGateSpec.parse({ signals: { conditions: [{ type: "NetworkReady" }] } });
    const gate = {
      apiVersion: "berth.dev/v1alpha1",
      kind: "StartupGate",
      metadata: { name: "network" },
      spec,
    };
    await eventually(() => client.create(startupGates, gate));
    await using cleanup = new AsyncDisposableStack();
    cleanup.defer(() => client.delete(startupGates, { name: "network" }));
    expect((await on.bare("gate", "list")).stdout).toMatch(
      /^held +cluster\/network +unknown +Held +condition Net/m,
    );
    expect((await on.bare("plan")).stdout).toContain("cluster/network selects 2 nodes and holds 1");
    // A file of the same name comes first, and the other is said to be out of force.
    expect((await on.command("gate", "list")).stderr).toContain("startupgate/network: error: config/network");
    expect((await on.bare("gate", "tolerate")).code).toBe(exitCodes.done);
    const { code } = await on.bare("gate", "release", "held", "--gate", "network", "--reason", "tested");
    expect([code, await on.taintsOf("held")]).toEqual([exitCodes.done, ["example.com/other"]]);
    expect((await on.bare("explain", "node", "held")).stdout).toMatch(
      /gate cluster\/network\n {2}phase +Open: Rel/,
    );
  });
});
