/** The commands that look at a cluster once, and `clean`, on a real API server. */

import { type DaemonSet, daemonSets, namespaces, nodes, pods } from "@berth/kube";
import { labelRules } from "@berth/placement";
import { aNode, aPod, eventually, sharedTestCluster, type TestCluster } from "@berth/testcluster";
import { beforeAll, describe, expect, it } from "vitest";
import { startBerth } from "../composition.ts";
import { exitCodes } from "../exit-codes.ts";
import { agentOf } from "../footprint/testing/footprint-cluster.ts";
import { aDocument, among, becomes, grant, serveKinds } from "../testing/cluster.ts";
import { type CliResult, type TestFolder, testFolder } from "../testing/harness.ts";

const DEVICE = "example.com/device";
const LABEL = "accelerators/one";

let cluster: TestCluster;
beforeAll(async () => {
  cluster = await sharedTestCluster();
});

interface Stage extends AsyncDisposable {
  readonly folder: TestFolder;
  /** A command with the kubeconfig of the cluster. */
  readonly command: (line: string) => Promise<CliResult>;
  readonly labelsOf: (node: string) => Promise<Readonly<Record<string, string>>>;
}

/** Two nodes, one with the device, and a rule for it. */
async function stage(): Promise<Stage> {
  await using owned = new AsyncDisposableStack();
  const folder = owned.use(
    await testFolder({ [`labels/${LABEL}`]: `${DEVICE}\n`, kubeconfig: cluster.kubeconfig() }),
  );
  const { client } = cluster;
  owned.defer(() => client.deleteCollection(nodes, {}));
  const device = { [DEVICE]: "x" };
  await client.create(nodes, aNode("with").labelled(device).build());
  await client.create(nodes, aNode("without").build());
  const made = owned.move();
  return {
    folder,
    command: (line) => folder.berth(`${line} --kubeconfig kubeconfig`),
    labelsOf: async (name) => (await client.get(nodes, { name })).metadata?.labels ?? {},
    [Symbol.asyncDispose]: () => made.disposeAsync(),
  };
}

/** Runs Berth until the label stands, and stops it. */
async function labelled({ folder, labelsOf }: Stage, installation = "berth"): Promise<void> {
  const path = `${folder.path}/labels`;
  const labelFolder = { path, shown: "labels", options: { allowReserved: [] } };
  await using client = cluster.connect();
  await using _berth = await startBerth({ client, labelFolder, installation });
  await eventually(async () => expect((await labelsOf("with"))[LABEL]).toBe("true"));
}

describe("a shell", () => {
  it("is offered names of the cluster, of namespaced kinds with the namespace, and none without a cluster", async () => {
    await using on = await stage();
    const offered = async (...words: readonly string[]) =>
      (await on.folder.berth(["__complete", ...words])).stdout.split("\n").map((it) => it.trim());
    const at = ["--kubeconfig", "kubeconfig"];
    expect(await offered("explain", "node", ...at, "")).toEqual([":none", "with", "without", ""]);
    expect(await offered("explain", "pod", ...at, "kube-s")).toEqual([":none", "kube-system/", ""]);
    expect(await offered("explain", "pod", ...at, "kube-system/")).toEqual([":none", ""]);
    expect(await offered("explain", "node", "--kubeconfig", "none", "")).toEqual([":none", ""]);
  });
});

describe("berth plan", () => {
  it("shows what would change and why, writes nothing, and tells scripts by its exit code", async () => {
    await using on = await stage();
    const before = await cluster.client.list(nodes);
    const { code, stdout } = await on.command("plan --label-dir labels --exit-code");
    expect(code).toBe(exitCodes.changes);
    expect(stdout).toBe(
      `node with\n  + label/${LABEL}=true   RuleMatched  folder/${LABEL}  by label/${DEVICE}\n\n` +
        "1 of 2 nodes would be written: 1 to set.\n",
    );
    const after = await cluster.client.list(nodes);
    expect(after.items.map(({ metadata }) => metadata?.resourceVersion)).toEqual(
      before.items.map(({ metadata }) => metadata?.resourceVersion),
    );
  });

  it("has nothing to show once berth has run", async () => {
    await using on = await stage();
    await labelled(on);
    const { code, stdout } = await on.command("plan --label-dir labels --exit-code");
    expect([code, stdout]).toEqual([exitCodes.done, "No changes of nodes: 2 looked at.\n"]);
  });
});

it.each([
  ["plan nowhere --label-dir labels", /^berth: there is no node nowhere\n$/],
  ["explain node nowhere", /^berth: there is no node nowhere on \S+\n$/],
  ["explain pod nowhere", /^berth: there is no pod default\/nowhere on \S+\n$/],
  ["confirm nowhere", /^berth: there is no LabelRule nowhere\n$/],
])("berth %s names what is not there", async (line, said) => {
  await using on = await stage();
  const { code, stdout, stderr } = await on.command(line);
  expect([code, stdout, stderr]).toEqual([exitCodes.failed, "", expect.stringMatching(said)]);
});

describe("berth explain", () => {
  it("I-5 without the files of the running process says what the node records, and how to give them", async () => {
    await using on = await stage();
    await labelled(on);
    const { stdout, code } = await on.command("explain node with");
    expect(code).toBe(exitCodes.done);
    expect(stdout).toContain(`label/${LABEL}=true\n  why       SourceNotGiven: the node records it`);
    expect(stdout).toMatch(new RegExp(`rule +folder/${LABEL}\n +inputs +not known\n +since +\\d{4}-`));
    expect(stdout).toContain("node /berth/berth.js explain node with --label-dir /labels\n");
    expect(stdout).not.toContain("SourceNotRead");
  });

  it("says what it cannot know without rules", async () => {
    await using on = await stage();
    const { stdout } = await on.command("explain node without");
    expect(stdout).toContain("nothing is recorded on it");
  });
});

describe("berth clean", () => {
  it("shows what it would remove, and removes it with --yes, of its own installation only", async () => {
    await using on = await stage();
    await labelled(on, "other");
    const foreign = await on.command("clean --yes");
    expect([foreign.code, (await on.labelsOf("with"))[LABEL]]).toEqual([exitCodes.done, "true"]);

    const shown = await on.command("clean --installation other");
    expect(shown.stdout).toContain(`- label/${LABEL}=true`);
    expect((await on.labelsOf("with"))[LABEL]).toBe("true");

    const done = await on.command("clean --installation other --yes");
    expect(done.code).toBe(exitCodes.done);
    const node = await cluster.client.get(nodes, { name: "with" });
    expect(node.metadata?.labels).not.toHaveProperty([LABEL]);
    expect(node.metadata?.labels).toHaveProperty([DEVICE]);
    expect(node.metadata?.annotations ?? {}).not.toHaveProperty(["berth.dev/marks"]);
    expect((await on.command("clean --installation other")).stdout).toContain("There is nothing to clean.");
  });

  it("removes leftovers without a record by key", async () => {
    await using on = await stage();
    const { code } = await on.command(`clean --key ${DEVICE} --yes`);
    expect([code, await on.labelsOf("with")]).toEqual([
      exitCodes.done,
      expect.not.objectContaining({ [DEVICE]: "x" }),
    ]);
  });
});

const PERMISSION = /verb "\w+" on "[^"]+"/g;

describe("without permissions", () => {
  const GATE =
    "apiVersion: berth.dev/v1alpha1\nkind: StartupGate\nmetadata: {name: g}\n" +
    "spec: {taint: {key: example.com/g}, signals: {daemonSets: [{namespace: default, name: g}]}}\n";

  it.each([
    ["plan", 'verb "list" on "labelrules.berth.dev"'],
    ["plan --label-dir labels", 'verb "list" on "nodes"'],
    ["confirm big", 'verb "get" on "labelrules.berth.dev"'],
    ["explain node with", 'verb "get" on "nodes"'],
    ["explain pod default/web", 'verb "get" on "pods" in namespace "default"'],
    ["gate list", 'verb "list" on "startupgates.berth.dev"'],
    ["gate list --config gate.yaml", 'verb "list" on "nodes"'],
    ["gate release with --reason x", 'verb "list" on "startupgates.berth.dev"'],
    ["gate release with --reason x --config gate.yaml", 'verb "get" on "nodes"'],
    ["gate tolerate", 'verb "list" on "startupgates.berth.dev"'],
    ["gate tolerate --config gate.yaml", 'verb "list" on "daemonsets.apps"'],
    ["clean", 'verb "list" on "nodes"'],
  ])("I-8 berth %s names what is missing, once, and no CRD", async (line, missing) => {
    const user = await cluster.user("nobody");
    const kubeconfig = cluster.kubeconfig({ user });
    await using folder = await testFolder({ [`labels/${LABEL}`]: "x\n", "gate.yaml": GATE, kubeconfig });
    const { code, stdout, stderr } = await folder.berth(`${line} --kubeconfig kubeconfig`);
    expect([code, stdout]).toEqual([exitCodes.cluster, ""]);
    expect(stderr).not.toContain("CRD");
    const last = stderr.trimEnd().split("\n").at(-1);
    expect(last).toMatch(/^berth: .*needed: verb/);
    expect(last).toContain(missing);
    const named = stderr.match(PERMISSION) ?? [];
    expect(named).toEqual([...new Set(named)]);
  });

  it("I-8 but to read nodes, plan goes on by files and names the rest; clean says that it is not whole", async () => {
    await using on = await stage();
    const name = "one-shot-reader";
    await using _granted = await grant(cluster.client, name, "list nodes");
    await on.folder.write("kubeconfig", cluster.kubeconfig({ user: await cluster.user(name) }));
    const planned = await eventually(async () => {
      const done = await on.command("plan --label-dir labels");
      expect(done.code).toBe(exitCodes.done);
      return done;
    });
    expect(planned.stdout).toContain(`+ label/${LABEL}=true`);
    const kinds = [
      "labelrules",
      "startupgates",
      "architecturepolicies",
      "nodefootprints",
      "deschedulepolicies",
    ];
    expect(planned.stderr.match(PERMISSION)).toEqual([
      ...kinds.map((plural) => `verb "list" on "${plural}.berth.dev"`),
      'verb "get" on "configmaps"',
    ]);
    const cleaned = await on.command("clean --yes");
    expect([cleaned.code, cleaned.stdout]).toEqual([
      exitCodes.cluster,
      "There is nothing to clean in what may be read.\n",
    ]);
    const named = cleaned.stderr.match(PERMISSION) ?? [];
    expect(named).toContain('verb "list" on "mutatingwebhookconfigurations.admissionregistration.k8s.io"');
    expect(named).toEqual([...new Set(named)]);
  });
});

// Last, as from here on the cluster has the CRDs.
describe("LabelRules of the cluster", () => {
  it("I-7 count in plan and explain, and wait for berth confirm when they change too much", async () => {
    await using on = await stage();
    const { client } = cluster;
    await serveKinds(client);
    const match = { all: [{ key: DEVICE }] };
    const spec = { match, labels: [{ key: "example.com/ruled" }], confirmAbovePercent: 10 };
    await client.create(labelRules, aDocument(labelRules, "big", spec));
    const labels = [{ key: "example.com/mistyped" }];
    const mistyped = { match: { all: [{ key: "example.com/devise" }] }, labels };
    await client.create(labelRules, aDocument(labelRules, "mistyped", mistyped));
    await client.create(labelRules, aDocument(labelRules, "tried", { ...mistyped, dryRun: true }));
    await using cleanup = new AsyncDisposableStack();
    cleanup.defer(() => client.deleteCollection(labelRules, {}));

    // A shell completes its name.
    const offered = await on.folder.berth(["__complete", "confirm", "--kubeconfig", "kubeconfig", "b"]);
    expect(offered.stdout).toBe(":none\nbig\t\n");

    const planned = await on.command("plan");
    expect(planned.stdout).toContain("+ label/example.com/ruled=true");
    expect(planned.stdout).toContain("cluster/big changes 1 of 2 nodes, more than 10 %");
    expect(planned.stdout.match(/^.*RuleLabelsNothing.*$/gm)).toEqual([
      "cluster/mistyped labels none of 2 nodes: `berth explain node NAME --rule mistyped` shows why (RuleLabelsNothing).",
    ]);

    await using berthClient = cluster.connect();
    await using _berth = await startBerth({ client: berthClient });
    const isReady = (reason: string): Promise<void> => {
      const conditions = among(expect.objectContaining({ type: "Ready", reason }));
      return becomes(client, labelRules, "big", { status: { conditions } });
    };
    await isReady("ConfirmationRequired");
    const waiting = await on.command("explain node with");
    expect(waiting.stdout).toContain("ConfirmationRequired: label/example.com/ruled");
    expect(await on.labelsOf("with")).not.toHaveProperty(["example.com/ruled"]);

    // A reader that has gone (`| head`) does not lose the confirmation.
    const onStdout = (): never => {
      throw new Error("EPIPE");
    };
    await on.folder.berth("confirm big --kubeconfig kubeconfig", { onStdout });
    await eventually(async () => expect((await on.labelsOf("with"))["example.com/ruled"]).toBe("true"));
    await isReady("RuleInForce");
    const explained = await on.command("explain node with");
    expect(explained.stdout).toContain("cluster/big");

    const body = { metadata: { labels: { [DEVICE]: null } } };
    await client.patch(nodes, { name: "with" }, { type: "merge", body });
    const losing = await on.command("plan");
    expect(losing.stdout).toContain("cluster/big: its labels are removed from 1 of 1 nodes after 60 s");
  });

  it("and gates, footprints and policies that do nothing, or all, are warned about, unless they silence it", async () => {
    await using on = await stage();
    const { client } = cluster;
    const documents = (annotations: object): string =>
      [
        ["StartupGate", { signals: { daemonSets: [{ namespace: "kube-system", name: "gone" }] } }],
        [
          "StartupGate",
          {
            taint: { key: "startup.example.com/agents" },
            signals: { daemonSets: ["held", "away"].map((name) => ({ namespace: "lost", name })) },
          },
        ],
        [
          "NodeFootprint",
          {
            workloads: [{ podSelector: { matchLabels: { app: "nobody" } } }],
            node: { label: { key: "example.com/agent" } },
          },
        ],
        [
          "DeschedulePolicy",
          {
            keys: [DEVICE],
            namespaceSelector: { matchLabels: { "kubernetes.io/metadata.name": "lost" } },
            dryRun: true,
          },
        ],
      ]
        .map(([kind, spec], at) =>
          JSON.stringify({
            apiVersion: "berth.dev/v1alpha1",
            kind,
            metadata: { name: `n${at}`, annotations },
            spec,
          }),
        )
        .join("\n---\n");
    await client.create(namespaces, { metadata: { name: "lost" } });
    for (const { metadata, spec } of [agentOf({}, "held"), agentOf({ "example.com/none": "x" }, "away")])
      await client.create(daemonSets, { spec, metadata: { ...metadata, namespace: "lost" } } as DaemonSet);
    for (const name of ["a", "b"])
      await client.create(
        pods,
        aPod(name)
          .in("lost")
          .ownedBy("ReplicaSet", "lost", "u")
          .on("without")
          .selecting({ [DEVICE]: "x" })
          .build(),
      );
    await on.folder.write("own/n.yaml", documents({}));
    const codes = async (words: string): Promise<readonly string[]> => {
      const { stdout } = await on.command(`plan --config own -o json ${words}`);
      return (JSON.parse(stdout) as { warnings: readonly { code: string }[] }).warnings.map(
        ({ code }) => code,
      );
    };
    expect((await codes("--silence RuleLabelsNothing")).toSorted()).toEqual([
      "DaemonSetBlocked",
      "DaemonSetNotExpected",
      "EveryPodViolates",
      "FootprintUnneeded",
      "GateNeverOpens",
    ]);
    await on.folder.write(
      "own/n.yaml",
      documents({
        "berth.dev/silence":
          "GateNeverOpens, FootprintUnneeded,EveryPodViolates,DaemonSetBlocked, DaemonSetNotExpected",
      }),
    );
    expect(await codes("--silence RuleLabelsNothing")).toEqual([]);
  });

  it("of a file are confirmed in the file", async () => {
    await using on = await stage();
    const text =
      "apiVersion: berth.dev/v1alpha1\nkind: LabelRule\nmetadata:\n  name: filed\n" +
      `spec: {match: {all: [{key: ${DEVICE}}]}, labels: [{key: example.com/filed}], confirmAbovePercent: 0}\n`;
    await on.folder.write("rules.yaml", text);
    const planned = await on.command("plan --config rules.yaml");
    expect(planned.stdout).toContain("config/filed changes 1 of 2 nodes");
    const { code, stdout } = await on.command("confirm filed --config rules.yaml");
    expect([code, stdout]).toEqual([exitCodes.done, expect.stringContaining("filed is in rules.yaml:2")]);
    const annotation = /berth\.dev\/confirmed: \S+/.exec(stdout)?.[0] ?? "";
    const confirmed = text.replace("name: filed", `$&\n  annotations: {${annotation}}`);
    await on.folder.write("rules.yaml", confirmed);
    const again = await on.command("plan --config rules.yaml");
    expect(again.stdout).not.toContain("config/filed changes");
    expect(again.stdout).toContain("+ label/example.com/filed=true");
  });
});
