/** Startup gates in the commands that look at a cluster once, on a real API server. */
import { assembleReadDocuments, defaultAdmissionServer, ownerLabels } from "@berth/host";
import {
  clusterRoleBindings,
  clusterRoles,
  customResourceDefinitions,
  type DaemonSet,
  daemonSets,
  events,
  mutatingAdmissionPolicies,
  mutatingAdmissionPolicyBindings,
  mutatingWebhookConfigurations,
  type Node,
  namespaces,
  nodes,
  pods,
  serviceAccounts,
} from "@berth/kube";
import { admissionPolicies, gateRules, startupGateSpec, startupGates } from "@berth/placement";
import { aNode, aPod, eventually, sharedTestCluster, type TestCluster } from "@berth/testcluster";
import { beforeAll, describe, expect, it } from "vitest";
import { startBerth } from "../composition.ts";
import { loadSettings } from "../config/settings.ts";
import { exitCodes } from "../exit-codes.ts";
import { crds } from "../kinds.ts";
import { type CliResult, cli, testFolder } from "../testing/harness.ts";

const TAINT = "startup.k8s.io/initializing=wait:NoSchedule";
const NAMESPACE = "gate-cli";
const GATE = `apiVersion: berth.dev/v1alpha1
kind: StartupGate
metadata: {name: network}
spec:
  signals:
    pods: [{namespaces: [${NAMESPACE}], ownedBy: Anything, fromBefore: Count}]
  timeouts: {notReady: 1h, policy: Release}
`;

let cluster: TestCluster;
beforeAll(async () => {
  cluster = await sharedTestCluster();
  await cluster.client.create(namespaces, { metadata: { name: NAMESPACE } });
});

interface Stage extends AsyncDisposable {
  readonly command: (...args: readonly string[]) => Promise<CliResult>;
  readonly node: (name: string) => Promise<Node>;
  /** Keys, without that which the API server itself puts on new nodes. */
  readonly taintsOf: (name: string) => Promise<readonly string[]>;
  readonly config: { readonly path: string; readonly shown: string };
}

/** A node `held` with the taint, as admission leaves it, and one without, in a cluster with a gate from a file. */
async function stage(): Promise<Stage> {
  await using owned = new AsyncDisposableStack();
  const files = { "gates.yaml": GATE, kubeconfig: cluster.kubeconfig() };
  const folder = owned.use(await testFolder(files));
  const { client } = cluster;
  owned.defer(() => client.deleteCollection(nodes, {}));
  owned.defer(() => client.deleteCollection(pods, { namespace: NAMESPACE }, { gracePeriodSeconds: 0 }));
  owned.defer(() => client.deleteCollection(daemonSets, { namespace: NAMESPACE }));
  await client.create(nodes, aNode("held").tainted(TAINT, "example.com/other:NoSchedule").build());
  await client.create(nodes, aNode("open").build());
  const made = owned.move();
  const node = (name: string): Promise<Node> => client.get(nodes, { name });
  return {
    config: { path: `${folder.path}/gates.yaml`, shown: "gates.yaml" },
    command: (...args) =>
      cli([...args, "--config", "gates.yaml", "--kubeconfig", "kubeconfig"], { folder: folder.path }),
    node,
    taintsOf: async (name) =>
      ((await node(name)).spec?.taints ?? [])
        .map(({ key }) => key)
        .filter((key) => !key.startsWith("node.kubernetes.io/")),
    [Symbol.asyncDispose]: () => made.disposeAsync(),
  };
}

/** A pod that the gate looks for, on this node. */
async function initPod(on: string, { readySince }: { readonly readySince?: string } = {}): Promise<void> {
  const { client } = cluster;
  const pod = aPod("init-1").in(NAMESPACE).on(on).labelled({ "startup.k8s.io/component": "init" }).build();
  await client.create(pods, pod);
  const ready = readySince === undefined ? "False" : "True";
  const conditions = [
    { type: "Ready", status: ready, lastTransitionTime: readySince ?? new Date().toISOString() },
  ];
  await client.patch(
    pods,
    { namespace: NAMESPACE, name: "init-1" },
    { type: "merge", body: { status: { phase: "Running", conditions } } },
    { subresource: "status" },
  );
}

function aDaemonSet(name: string, spec: object = {}): DaemonSet {
  const labels = { app: name };
  return {
    metadata: { name, namespace: NAMESPACE },
    spec: {
      selector: { matchLabels: labels },
      template: {
        metadata: { labels },
        spec: { containers: [{ name: "main", image: "registry.test/app:1" }], ...spec },
      },
    },
  };
}

const tolerationsOf = async (name: string) =>
  (await cluster.client.get(daemonSets, { namespace: NAMESPACE, name })).spec?.template.spec?.tolerations;

describe("berth gate list and explain", () => {
  it("I-5 say which node is held and what it waits for, in JSON as in the table, before and after a running Berth has seen it", async () => {
    await using on = await stage();
    const first = await on.command("gate", "list");
    expect(first.stdout).toBe(
      "NODE   GATE             AGE       PHASE   WAITS FOR\n" +
        `held   config/network   unknown   Held    pods ${NAMESPACE} startup.k8s.io/component=init: there is no such pod on the node\n`,
    );
    const { held } = JSON.parse((await on.command("gate", "list", "-o", "json")).stdout);
    expect(first.stdout).toContain(held[0].waitsFor[0]);
    const open = await on.command("explain", "node", "open", "-o", "yaml");
    expect(open.stdout).toMatch(/gates:\n {2}- gate: config\/network\n {4}selected: true\n {4}held: false\n/);
    await initPod("held");
    await using client = cluster.connect();
    await using _berth = await startBerth({ client, config: [on.config] });
    await eventually(async () =>
      expect((await on.node("held")).metadata?.annotations).toHaveProperty(["gate.berth.dev/network"]),
    );
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
    expect(explained.stdout).toMatch(/timeout notReady of 1h in 59m\d*s?: the node is let go/);
  });

  it("tell apart that there are no gates and that none holds a node", async () => {
    await using on = await stage();
    await cluster.client.delete(nodes, { name: "held" });
    const none = await on.command("gate", "list");
    expect([none.code, none.stdout]).toEqual([exitCodes.done, "No node is held by a startup gate.\n"]);
    await using folder = await testFolder({ kubeconfig: cluster.kubeconfig() });
    const without = await cli(["gate", "list", "--kubeconfig", "kubeconfig"], { folder: folder.path });
    expect([without.code, without.stderr]).toEqual([exitCodes.usage, expect.stringContaining("--config")]);
  });
});

describe("without the right to read what gates look at", () => {
  it("says what is left out, and takes nothing for missing", async () => {
    await using on = await stage();
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
      cli([...args, "--config", "gates.yaml", "--kubeconfig", "kubeconfig"], { folder: folder.path });
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
    await using on = await stage();
    await initPod("held", { readySince: new Date(Date.now() - 60_000).toISOString() });
    const { stdout } = await on.command("plan");
    expect(stdout).toMatch(/- taint\/startup\.k8s\.io\/initializing:NoSchedule=wait +Released/);
    expect(stdout).toContain(
      "config/network selects 2 nodes and holds 1; its taint would be taken off 1 (held). It would hold 1 young one as well, if idle.\n",
    );
    expect(await on.taintsOf("held")).toContain("startup.k8s.io/initializing");
  });

  it("names the DaemonSets that a gate keeps from nodes, and what autoscalers have to know", async () => {
    await using on = await stage();
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
    await using on = await stage();
    const all = await on.command("plan");
    expect(all.stdout).toContain("was not looked up: `berth plan open` does.");
    const idle = await on.command("plan", "open");
    expect(idle.stdout).toMatch(/\+ taint\/startup\.k8s\.io\/initializing:NoSchedule=wait +Gated/);
    await initPod("open");
    const busy = await on.command("plan", "open");
    expect(busy.stdout).toContain(`because ${NAMESPACE}/init-1 runs there`);
  });

  it("tries a gate that is not applied yet", async () => {
    await using on = await stage();
    await using folder = await testFolder({ "new.yaml": GATE, kubeconfig: cluster.kubeconfig() });
    const { stdout } = await cli(["plan", "--try", "new.yaml", "--kubeconfig", "kubeconfig"], {
      folder: folder.path,
    });
    expect(stdout).toContain("cluster/network selects 2 nodes");
    expect((await on.node("held")).metadata?.annotations ?? {}).not.toHaveProperty(["berth.dev/marks"]);
  });
});

describe("berth gate release", () => {
  it("lets the node go by one write, tells it in an Event, and a running Berth keeps to it", async () => {
    await using on = await stage();
    await using client = cluster.connect();
    await using _berth = await startBerth({ client, config: [on.config] });
    await eventually(async () =>
      expect((await on.node("held")).metadata?.annotations).toHaveProperty(["gate.berth.dev/network"]),
    );
    const { code, stdout, stderr } = await on.command(
      "gate",
      "release",
      "held",
      "--reason",
      "the vendor said so",
    );
    expect([code, stdout, stderr]).toEqual([
      exitCodes.done,
      "config/network lets held go: startup.k8s.io/initializing:NoSchedule is taken off.\n",
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
    expect(said?.note).toContain("the vendor said so");

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
    await using on = await stage();
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
    await using on = await stage();
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
    await using on = await stage();
    const { client } = cluster;
    const other = { key: "example.com/other", operator: "Exists" };
    await client.create(daemonSets, aDaemonSet("plain"));
    await client.create(daemonSets, aDaemonSet("some", { tolerations: [other] }));
    await client.create(daemonSets, aDaemonSet("all", { tolerations: [{ operator: "Exists" }] }));
    const toleration = { key: "startup.k8s.io/initializing", operator: "Exists", effect: "NoSchedule" };
    const shown = await on.command("gate", "tolerate", "--namespace", NAMESPACE);
    expect(shown.stdout).toContain(`${NAMESPACE}/plain`);
    expect(shown.stdout).not.toContain(`${NAMESPACE}/all`);
    expect(shown.stderr).toContain("rolled out anew");
    expect(await tolerationsOf("plain")).toBeUndefined();

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
    await using on = await stage();
    const { client } = cluster;
    await client.create(daemonSets, aDaemonSet("raced"));
    const runs = Array.from({ length: 4 }, () => on.command("gate", "tolerate", "--yes"));
    expect((await Promise.all(runs)).map(({ code }) => code)).toEqual([0, 0, 0, 0]);
    expect(await tolerationsOf("raced")).toHaveLength(1);
  });
});

describe("berth clean", () => {
  it("takes away what holds new nodes before it lets all go, of its own installation", async () => {
    await using on = await stage();
    const { client } = cluster;
    const settings = await loadSettings({ config: [on.config.path] }, "/");
    const list = assembleReadDocuments(gateRules, { settings, hasConfig: true }, undefined).inForce ?? {
      gates: [],
    };
    for (const installation of ["berth", "other"]) {
      const env = { installation, spec: defaultAdmissionServer };
      // Earlier versions left this.
      const labels = ownerLabels(installation, "startup-gate");
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
    await using on = await stage();
    await using client = cluster.connect();
    {
      await using _berth = await startBerth({ client, config: [on.config] });
      await eventually(async () =>
        expect((await on.node("held")).metadata?.annotations).toHaveProperty(["gate.berth.dev/network"]),
      );
    }
    await using folder = await testFolder({ kubeconfig: cluster.kubeconfig() });
    const args = ["clean", "--yes", "--recorded", "--kubeconfig", "kubeconfig"];
    const { code } = await cli(args, { folder: folder.path });
    expect([code, await on.taintsOf("held")]).toEqual([exitCodes.done, ["example.com/other"]]);
    const annotations = Object.keys((await on.node("held")).metadata?.annotations ?? {});
    expect(annotations.filter((key) => key.includes("berth.dev") || key.includes("startup"))).toEqual([]);
  });
});

// Last, as from here on the cluster has the CRDs.
describe("StartupGates of the cluster", () => {
  it("count in every command without a file", async () => {
    await using on = await stage();
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
    await using folder = await testFolder({ kubeconfig: cluster.kubeconfig() });
    const command = (...args: readonly string[]): Promise<CliResult> =>
      cli([...args, "--kubeconfig", "kubeconfig"], { folder: folder.path });
    expect((await command("gate", "list")).stdout).toMatch(
      /^held +cluster\/network +unknown +Held +condition Net/m,
    );
    expect((await command("plan")).stdout).toContain("cluster/network selects 2 nodes and holds 1");
    // A file of the same name comes first, and the other is said to be out of force.
    expect((await on.command("gate", "list")).stderr).toContain("startupgate/network: error: config/network");
    expect((await command("gate", "tolerate")).code).toBe(exitCodes.done);
    const { code } = await command("gate", "release", "held", "--gate", "network", "--reason", "tested");
    expect([code, await on.taintsOf("held")]).toEqual([exitCodes.done, ["example.com/other"]]);
    expect((await command("explain", "node", "held")).stdout).toMatch(
      /gate cluster\/network\n {2}phase +Open: Rel/,
    );
  });
});
