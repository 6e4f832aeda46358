/** What `berth clean` undoes of footprints beside the nodes, on a real API server. */
import { ownerLabels } from "@berth/host";
import { daemonSets, mutatingWebhookConfigurations, nodes, type PolicyRule } from "@berth/kube";
import { berthAs } from "@berth/placement";
import { eventually, type TestCluster } from "@berth/testcluster";
import { afterEach, beforeAll, describe, expect, it } from "vitest";
import { exitCodes } from "../exit-codes.ts";
import { type CliResult, cli, testFolder } from "../testing/harness.ts";
import * as stages from "./testing/clean-stage.ts";
import { aMarkedNode, documentOf, FINALIZER, fleets, HELD } from "./testing/clean-stage.ts";
import { agentOf, clear, grant } from "./testing/footprint-cluster.ts";

let cluster: TestCluster;

beforeAll(async () => {
  cluster = await stages.cleanCluster();
});
afterEach(async () => {
  await clear(cluster);
  await stages.clearFleets(cluster);
});

const aStage = (text: string, user?: string): Promise<stages.CleanStage> =>
  stages.aStage(cluster, text, user);

/** Beside what `clean` reads. */
async function mayDo(user: string, rules: readonly PolicyRule[]): Promise<void> {
  const apiGroups = ["berth.dev", "admissionregistration.k8s.io"];
  await grant(cluster, { name: user }, { apiGroups, resources: ["*"], verbs: ["get", "list"] }, ...rules);
}

async function labelOf(key: string): Promise<string | undefined> {
  return (await cluster.client.get(nodes, { name: "n1" })).metadata?.labels?.[key];
}

const WAITING = `{
  workloads: [{podSelector: {matchLabels: {app: web}}}],
  node: {label: {key: example.com/agent}},
  wait: {inject: Webhook, port: 9, container: {name: wait-for-agent, image: "registry.test/wait:1"}}
}`;

const RESTRICTED = "agents.node-restriction.kubernetes.io/agent";

describe("a label that kubelets may not write", () => {
  it("is taken off where the document is known, and stays where nothing but the node says it is ours", async () => {
    await aMarkedNode(cluster);
    const spec = `{workloads: [{podSelector: {matchLabels: {app: web}}}], node: {label: {key: ${RESTRICTED}}}}`;
    await using stage = await aStage(documentOf(spec));
    await stage.ran(async () => expect(await labelOf(RESTRICTED)).toBe("true"));
    {
      await using stranger = await aStage(documentOf(WAITING));
      const { stdout } = await stranger.clean("--yes");
      expect(stdout).toContain("ProtectedKey");
      expect(await labelOf(RESTRICTED)).toBe("true");
    }
    expect((await stage.clean()).stdout).toContain(`label/${RESTRICTED}`);
    expect((await stage.clean("--yes")).code).toBe(0);
    expect(await labelOf(RESTRICTED)).toBeUndefined();
  });
});

/** Pods count by their label alone, so that a node is marked. */
const PLAIN_HELD = HELD.replace(/group: .*,\n/, "group: {by: PodLabel, label: app},\n");

const finalizersOf = async (name: string): Promise<readonly string[]> =>
  (await cluster.client.get(fleets, { name })).metadata?.finalizers ?? [];

async function aFleet(name: string, finalizers: readonly string[]): Promise<void> {
  const metadata = { name, finalizers };
  await cluster.client.create(fleets, { apiVersion: "test.berth.dev/v1", kind: "Fleet", metadata });
}

async function aHeldFleet(name: string, stage: stages.CleanStage): Promise<void> {
  await aFleet(name, ["example.com/other"]);
  await stage.ran(async () => expect(await finalizersOf(name)).toEqual(["example.com/other", FINALIZER]));
}

describe("finalizers of owners", () => {
  it("are taken off those that have no namespace too, and those of others stay", async () => {
    await using stage = await aStage(documentOf(HELD));
    await aHeldFleet("f1", stage);
    const { code, stdout } = await stage.clean("--yes");
    expect(stdout).toContain(`fleets.test.berth.dev f1: finalizer ${FINALIZER}: will be removed\n`);
    expect([code, await finalizersOf("f1")]).toEqual([0, ["example.com/other"]]);
  });

  it("are told of, and the command fails, where they could not be taken off", async () => {
    await mayDo("cleaner", [
      { apiGroups: [""], resources: ["nodes"], verbs: ["get", "list", "patch"] },
      { apiGroups: ["test.berth.dev"], resources: ["fleets"], verbs: ["list"] },
    ]);
    await using stage = await aStage(documentOf(HELD), "cleaner");
    await aFleet("f2", [FINALIZER]);
    // Rights are known to the API server a moment after they were given.
    const { code } = await eventually(async () => {
      const result = await stage.clean("--yes");
      expect(result.stderr).toContain("fleets.test.berth.dev f2 was left as it is");
      return result;
    });
    expect([code, await finalizersOf("f2")]).toEqual([exitCodes.failed, [FINALIZER]]);
  });

  it("stay where the document has a fault, which is said", async () => {
    await using stage = await aStage(documentOf(HELD.replace("example.com/agent", "kubernetes.io/os")));
    await aFleet("f3", [FINALIZER]);
    const { stderr } = await stage.clean("--yes");
    expect(await finalizersOf("f3")).toEqual([FINALIZER]);
    expect(stderr).toContain("(FootprintInvalid)");
  });

  it("are taken off though a node could not be cleaned, and all that failed is told of at the end", async () => {
    await mayDo("half-cleaner", [
      { apiGroups: [""], resources: ["nodes"], verbs: ["get", "list"] },
      { apiGroups: ["test.berth.dev"], resources: ["fleets"], verbs: ["list", "patch"] },
    ]);
    await using stage = await aStage(documentOf(PLAIN_HELD), "half-cleaner");
    await aMarkedNode(cluster);
    await aHeldFleet("f4", stage);
    await stage.ran(async () => expect(await labelOf("example.com/agent")).toBe("true"));
    await eventually(async () => {
      const { code, stderr } = await stage.clean("--yes");
      expect([code, await finalizersOf("f4")]).toEqual([exitCodes.failed, ["example.com/other"]]);
      expect(stderr).toContain("1 of 1 nodes could not be cleaned:\n  n1: ");
    });
    expect(await labelOf("example.com/agent")).toBe("true");
  });

  it("stay where the marks on nodes say that the footprint is of another installation", async () => {
    await using stage = await aStage(documentOf(PLAIN_HELD));
    await aMarkedNode(cluster);
    await aFleet("f5", []);
    await stage.ran(async () => {
      expect(await finalizersOf("f5")).toEqual([FINALIZER]);
      expect(await labelOf("example.com/agent")).toBe("true");
    });
    const { stderr } = await stage.clean("--installation", "other", "--yes");
    expect(stderr).toContain("config/agent is of the installation berth");
    expect(await finalizersOf("f5")).toEqual([FINALIZER]);
    expect((await stage.clean("--yes")).code).toBe(exitCodes.done);
    expect(await finalizersOf("f5")).toEqual([]);
  });

  it("are none where the cluster does not have the kind", async () => {
    await using stage = await aStage(documentOf(HELD.replaceAll("fleets", "navies")));
    const { code, stdout, stderr } = await stage.clean("--yes");
    expect([code, stdout]).toEqual([0, "There is nothing to clean.\n"]);
    expect(stderr).toBe("");
  });
});

describe("an agent", () => {
  const AGENT = `{
    workloads: [{podSelector: {matchLabels: {app: web}}}],
    node: {label: {key: example.com/agent}},
    agent: {daemonSet: {namespace: default, name: agent}}
  }`;

  it("that asks for the label is named, for its pods end with it, and only while the label stands", async () => {
    await cluster.client.create(daemonSets, agentOf({ "example.com/agent": "true" }));
    await using stage = await aStage(documentOf(AGENT));
    await aMarkedNode(cluster);
    await stage.ran(async () => expect(await labelOf("example.com/agent")).toBe("true"));
    const line = "The DaemonSet default/agent asks for example.com/agent=true: its pods on 1 node";
    expect((await stage.clean()).stderr).toContain(`${line} would end.`);
    expect((await stage.clean("--yes")).stderr).toContain(`${line} end now.`);
    expect((await stage.clean()).stderr).not.toContain("DaemonSet");
  });
});

describe("footprints that are not known", () => {
  it("are the limit of what is found, which is said where no file is given", async () => {
    await using folder = await testFolder({ kubeconfig: cluster.kubeconfig() });
    const clean = (...more: readonly string[]): Promise<CliResult> =>
      cli(["clean", "--kubeconfig", "kubeconfig", ...more], { folder: folder.path });
    const limit = "This command does not find finalizers of deleted footprints";
    expect((await clean()).stderr).toContain(limit);
    expect((await clean("--capability", "footprint")).stderr).toContain(limit);
    expect((await clean("--capability", "labels")).stderr).not.toContain(limit);
    await using stage = await aStage(documentOf(HELD));
    expect((await stage.clean()).stderr).not.toContain(limit);
  });
});

describe("the configuration by which the API server asks", () => {
  it("is deleted, or told of; that of another installation is not", async () => {
    const { client } = cluster;
    await using stage = await aStage(documentOf(WAITING));
    const mine = { name: "berth-footprint", labels: ownerLabels(berthAs("berth"), "footprint") };
    const others = { name: "other-footprint", labels: ownerLabels(berthAs("other"), "footprint") };
    await client.create(mutatingWebhookConfigurations, { metadata: mine, webhooks: [] });
    await client.create(mutatingWebhookConfigurations, { metadata: others, webhooks: [] });
    const name = "mutatingwebhookconfiguration berth-footprint";
    await mayDo("reader", [{ apiGroups: [""], resources: ["nodes"], verbs: ["get", "list"] }]);
    await using reading = await aStage(documentOf(WAITING), "reader");
    await eventually(async () => {
      const { code, stdout: said, stderr } = await reading.clean("--yes");
      expect([code, said]).toEqual([exitCodes.failed, expect.not.stringContaining("deleted")]);
      expect(stderr).toContain(`${name} could not be deleted: `);
    });
    const { stdout } = await stage.clean("--yes");
    expect(stdout).toContain(`${name}: deleted`);
    const { items } = await client.list(mutatingWebhookConfigurations);
    expect(items.map(({ metadata }) => metadata?.name)).toEqual(["other-footprint"]);
  });
});
