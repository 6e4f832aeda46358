/** The commands that look at a cluster once, and `clean`, on a real API server. */
import { nodes } from "@berth/kube";
import { aNode, eventually, sharedTestCluster, type TestCluster } from "@berth/testcluster";
import { beforeAll, describe, expect, it } from "vitest";
import { startBerth } from "../composition.ts";
import { exitCodes } from "../exit-codes.ts";
import { type CliResult, cli, type TestFolder, testFolder } from "../testing/harness.ts";

const DEVICE = "example.com/device";
const LABEL = "accelerators/one";

let cluster: TestCluster;
beforeAll(async () => {
  cluster = await sharedTestCluster();
});

interface Stage extends AsyncDisposable {
  readonly folder: TestFolder;
  /** A command with the kubeconfig of the cluster. */
  readonly command: (...args: readonly string[]) => Promise<CliResult>;
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
  await client.create(
    nodes,
    aNode("with")
      .labelled({ [DEVICE]: "x" })
      .build(),
  );
  await client.create(nodes, aNode("without").build());
  const made = owned.move();
  return {
    folder,
    command: (...args) => cli([...args, "--kubeconfig", "kubeconfig"], { folder: folder.path }),
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

describe("berth plan", () => {
  it("shows what would change and why, writes nothing, and tells scripts by its exit code", async () => {
    await using on = await stage();
    const before = await cluster.client.list(nodes);
    const { code, stdout } = await on.command("plan", "--label-dir", "labels", "--exit-code");
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
    const { code, stdout } = await on.command("plan", "--label-dir", "labels", "--exit-code");
    expect([code, stdout]).toEqual([exitCodes.done, "No changes: 2 nodes looked at, nothing to write.\n"]);
  });

  it("takes names of nodes, and data for scripts", async () => {
    await using on = await stage();
    const { stdout } = await on.command("plan", "with", "--label-dir", "labels", "-o", "json");
    expect(JSON.parse(stdout)).toMatchObject({
      looked: 1,
      nodes: [
        { node: "with", changes: [{ action: "add", inputs: [`label/${DEVICE}`], reason: "RuleMatched" }] },
      ],
    });
    const { code, stderr } = await on.command("plan", "nowhere", "--label-dir", "labels");
    expect([code, stderr]).toEqual([exitCodes.failed, "berth: there is no node nowhere\n"]);
  });
});

describe("berth explain", () => {
  it("tells rule, inputs, since when, and who else holds the key", async () => {
    await using on = await stage();
    await labelled(on);
    await cluster.client.patch(
      nodes,
      { name: "with" },
      { type: "merge", body: { metadata: { labels: { [LABEL]: "true" } } } },
      { fieldManager: "somebody" },
    );
    const { stdout } = await on.command("explain", "node", "with", "--label-dir", "labels", "-o", "json");
    expect(JSON.parse(stdout)).toMatchObject({
      marks: [
        {
          id: `label/${LABEL}`,
          standing: "true",
          rule: `folder/${LABEL}`,
          inputs: [`label/${DEVICE}`],
          since: expect.stringMatching(/^\d{4}-.*Z$/),
        },
      ],
    });
    const { stdout: text } = await on.command("explain", "node", "with", "--label-dir", "labels");
    expect(text).toContain(`label/${LABEL}=true\n  why       RuleMatched\n  rule      folder/${LABEL}\n`);
  });

  it("says what it cannot know without rules, and which node there is not", async () => {
    await using on = await stage();
    const { stdout } = await on.command("explain", "node", "without");
    expect(stdout).toContain("nothing is recorded on it");
    expect((await on.command("explain", "node", "nowhere")).code).toBe(exitCodes.failed);
  });
});

describe("berth clean", () => {
  it("shows what it would remove, and removes it with --yes, of its own installation only", async () => {
    await using on = await stage();
    await labelled(on, "other");
    const foreign = await on.command("clean", "--yes");
    expect([foreign.code, (await on.labelsOf("with"))[LABEL]]).toEqual([exitCodes.done, "true"]);

    const shown = await on.command("clean", "--installation", "other");
    expect(shown.stdout).toContain(`- label/${LABEL}=true`);
    expect((await on.labelsOf("with"))[LABEL]).toBe("true");

    const done = await on.command("clean", "--installation", "other", "--yes");
    expect(done.code).toBe(exitCodes.done);
    const node = await cluster.client.get(nodes, { name: "with" });
    expect(node.metadata?.labels).not.toHaveProperty([LABEL]);
    expect(node.metadata?.labels).toHaveProperty([DEVICE]);
    expect(node.metadata?.annotations ?? {}).not.toHaveProperty(["berth.dev/marks"]);
    expect((await on.command("clean", "--installation", "other")).stdout).toContain(
      "There is nothing to clean.",
    );
  });

  it("removes leftovers without a record by key", async () => {
    await using on = await stage();
    const { code } = await on.command("clean", "--key", DEVICE, "--yes");
    expect([code, await on.labelsOf("with")]).toEqual([
      exitCodes.done,
      expect.not.objectContaining({ [DEVICE]: "x" }),
    ]);
  });
});
