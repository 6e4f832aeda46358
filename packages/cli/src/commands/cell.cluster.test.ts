/** `berth cell` between two real API servers: Berth's own, and that of a cell. No Berth runs: a hand writes the status. */
import { cells, withdrawals } from "@berth/fleet";
import { toCustomResourceDefinition } from "@berth/host";
import { type Condition, namespaces, parseKubeconfig, secrets } from "@berth/kube";
import { product } from "@berth/placement";
import { eventually, startTestCluster, type TestCluster } from "@berth/testcluster";
import { afterAll, beforeAll, describe, expect, it } from "vitest";
import { fleetKinds } from "../../../fleet/src/kinds/kinds.ts";
import { installCrds } from "../../../fleet/src/testing/fixture-crds.ts";
import { exitCodes } from "../exit-codes.ts";
import { clusterWithKinds, grant } from "../testing/cluster.ts";
import { type CliResult, type TestFolder, testFolder } from "../testing/harness.ts";

const GROUP = "compute.datumapis.com";
const RIGHTS = [
  "get list watch create namespaces",
  `get list watch create patch delete workloaddeployments.${GROUP}`,
  `list watch instances.${GROUP}`,
];

let hub: TestCluster;
let cell: TestCluster;
let folder: TestFolder;
const owned = new AsyncDisposableStack();

beforeAll(async () => {
  [hub, cell] = await Promise.all([clusterWithKinds(), startTestCluster()]);
  owned.use(cell);
  // A cell needs no kinds of the management plane.
  await installCrds(
    cell.client,
    fleetKinds.map((kind) => toCustomResourceDefinition(kind, product)),
  );
  for (const rule of [...RIGHTS, "list leases.coordination.k8s.io"])
    for (const user of ["management", "rotated"]) owned.use(await grant(cell.client, user, rule));
  const kubeconfigOf = async (name: string): Promise<string> =>
    cell.kubeconfig({ user: await cell.user(name) });
  folder = owned.use(
    await testFolder({
      hub: hub.kubeconfig(),
      cell: await kubeconfigOf("management"),
      rotated: await kubeconfigOf("rotated"),
      weak: await kubeconfigOf("weak"),
    }),
  );
});
afterAll(() => owned.disposeAsync());

const add = (line: string): Promise<CliResult> => folder.berth(`cell add ${line} --hub-kubeconfig hub`);
const berth = (line: string): Promise<CliResult> => folder.berth(`${line} --kubeconfig hub`);

/** As the management plane writes it. */
async function say(
  name: string,
  status: Condition["status"],
  reason: string,
  more?: Pick<Condition, "type" | "status" | "message"> & { readonly generation: number },
): Promise<void> {
  const lastTransitionTime = new Date().toISOString();
  const conditions = [{ type: "Reachable", status, reason, message: "", lastTransitionTime }];
  const { generation: observedGeneration, ...condition } = more ?? {};
  if (more)
    conditions.push({ reason: "Drained", lastTransitionTime, observedGeneration, ...condition } as never);
  const body = { status: { conditions } };
  await eventually(() =>
    hub.client.patch(cells, { name }, { type: "merge", body }, { subresource: "status" }),
  );
}

/** The same, of what is in the cell that nothing stands for. */
async function find(orphans: object | null): Promise<void> {
  const body = { status: { orphans } };
  await hub.client.patch(cells, { name: "dfw-01" }, { type: "merge", body }, { subresource: "status" });
}

describe("berth cell", () => {
  it("makes a Cell and its Secret, and waits for Berth to see it", async () => {
    const [done] = await Promise.all([
      add("dfw-01 --city DFW --kubeconfig cell"),
      say("dfw-01", "True", "Heard"),
    ]);
    expect([done.code, done.stderr]).toEqual([exitCodes.done, ""]);
    expect(done.stdout).toMatch(/^dfw-01 is https:\S+, Kubernetes v1\.\d+\.\d+, uid [-0-9a-f]{36}\n/);
    expect(done.stdout).toContain(
      "Secret berth-system/berth-cell-dfw-01: created\nCell dfw-01: created\nIt is reached. Workloads may name DFW now.\n",
    );
    const { spec } = await hub.client.get(cells, { name: "dfw-01" });
    const { metadata } = await cell.client.get(namespaces, { name: "kube-system" });
    expect(spec).toMatchObject({ city: "DFW", uid: metadata?.uid, secretRef: { name: "berth-cell-dfw-01" } });
  });

  it("replaces the credential of the same cluster, and writes nothing that is so already", async () => {
    const again = await add("dfw-01 --city DFW --kubeconfig cell -o json");
    expect(JSON.parse(again.stdout)).toMatchObject({ wrote: { secret: "unchanged", cell: "unchanged" } });
    const rotated = await add("dfw-01 --city DFW --kubeconfig rotated -o json");
    expect(JSON.parse(rotated.stdout)).toMatchObject({ wrote: { secret: "replaced", cell: "unchanged" } });
    const moved = await add("dfw-01 --city DFW --kubeconfig rotated --cell-namespace elsewhere -o json");
    expect(JSON.parse(moved.stdout)).toMatchObject({ wrote: { secret: "unchanged", cell: "replaced" } });
    const kept = await add("dfw-01 --city DFW --kubeconfig rotated -o json");
    expect(JSON.parse(kept.stdout)).toMatchObject({ wrote: { secret: "unchanged", cell: "unchanged" } });
    const { spec } = await hub.client.get(cells, { name: "dfw-01" });
    expect(spec?.namespace).toBe("elsewhere");
    const of = { namespace: "berth-system", name: "berth-cell-dfw-01" };
    const { data } = await hub.client.get(secrets, of);
    const text = Buffer.from(data?.["kubeconfig"] ?? "", "base64").toString("utf8");
    const stored = await parseKubeconfig(text, { origin: "stored" });
    const given = await parseKubeconfig(cell.kubeconfig({ user: await cell.user("rotated") }), {
      origin: "given",
    });
    expect(stored.connect.server).toBe(given.connect.server);
    expect(text).not.toContain("exec");
  });

  it.each([
    [
      "another Cell of the cluster",
      "other --city DFW --kubeconfig cell",
      /DuplicateIdentity: it is Cell dfw-01/,
    ],
    [
      "Berth's own cluster",
      "own --city DFW --kubeconfig hub",
      /DuplicateIdentity: it is the cluster that Berth/,
    ],
    [
      "its credential",
      "own --city DFW --kubeconfig hub",
      /SharedCredential: its credential is the one of Berth/,
    ],
    ["another city", "dfw-01 --city ORD --kubeconfig cell", /CellFixed: Cell dfw-01 is in city DFW/],
    [
      "missing permissions",
      "weak --city DFW --kubeconfig weak",
      /RightsMissing: .*verb "get" on "namespaces", .*verb "list" on "leases.coordination.k8s.io" in namespace "berth-system"/,
    ],
    ["no name", "DFW.1 --city DFW --kubeconfig cell", /NameInvalid/],
  ])("refuses %s, and writes nothing", async (_, line, message) => {
    const { code, stderr } = await add(line);
    expect([code, stderr]).toEqual([exitCodes.failed, expect.stringMatching(message)]);
    expect((await hub.client.list(cells)).items.map(({ metadata }) => metadata?.name)).toEqual(["dfw-01"]);
  });

  it("refuses a kubeconfig that runs a program", async () => {
    await folder.write("exec", cell.kubeconfig().replace(/ {4}token: .*/, "    exec: {command: rm}"));
    const { code, stderr } = await add("exec-01 --city DFW --kubeconfig exec");
    expect([code, stderr]).toEqual([exitCodes.cluster, expect.stringContaining("has an exec plugin")]);
  });

  it("lists Cells", async () => {
    await say("dfw-01", "False", "Silent");
    const { stdout } = await berth("cell list");
    expect(stdout).toMatch(/^NAME .*\ndfw-01 +DFW +False +Unknown +Silent\n$/);
    expect(JSON.parse((await berth("cell list -o json")).stdout)).toMatchObject({
      cells: [{ name: "dfw-01", city: "DFW", reachable: "False", reason: "Silent" }],
    });
  });

  it("replaces a credential alone", async () => {
    const done = await folder.berth("cell rotate dfw-01 --kubeconfig cell --hub-kubeconfig hub -o json");
    expect(JSON.parse(done.stdout)).toMatchObject({ wrote: { secret: "replaced", cell: "unchanged" } });
    const other = await folder.berth("cell rotate dfw-01 --kubeconfig hub --hub-kubeconfig hub");
    expect([other.code, other.stderr]).toEqual([
      exitCodes.failed,
      expect.stringMatching(/WrongIdentity: Cell dfw-01 is another cluster/),
    ]);
    const none = await folder.berth("cell rotate none --kubeconfig cell --hub-kubeconfig hub");
    expect(none.stderr).toContain("there is no cell none");
  });

  it("lists orphans, gives one to its project, and has another one deleted", async () => {
    const orphan = (name: string, more: object = {}) => {
      const sourceUid = `source-of-${name}`;
      return { namespace: "ns-U", name, sourceUid, epoch: 2, start: 1000, ...more };
    };
    const [shop, web] = [
      orphan("shop-us-dfw", { of: "single/default/shop-us-dfw" }),
      orphan("web-us-dfw", { held: true }),
    ];
    await find({ count: 3, names: [shop, web] });
    expect((await berth("cell list --orphans")).stdout).toBe(
      [
        "CELL     DEPLOYMENT         STATE   OF",
        "dfw-01   ns-U/shop-us-dfw   runs    single/default/shop-us-dfw",
        "dfw-01   ns-U/web-us-dfw    held",
        "… and 1 more in cell dfw-01",
        "",
      ].join("\n"),
    );
    const [adopted] = await Promise.all([
      berth("cell adopt dfw-01 ns-U/shop-us-dfw"),
      eventually(async () => {
        const { spec } = await hub.client.get(cells, { name: "dfw-01" });
        const { sourceUid } = shop;
        expect(spec?.adopt).toEqual([{ namespace: "ns-U", name: "shop-us-dfw", sourceUid, epoch: 2 }]);
        await find({ count: 1, names: [web] });
      }),
    ]);
    expect(adopted.stdout).toBe("ns-U/shop-us-dfw in cell dfw-01 is single/default/shop-us-dfw now.\n");
    const shown = await berth("cell forget dfw-01 ns-U/web-us-dfw");
    expect([shown.stdout, (await hub.client.list(withdrawals)).items]).toEqual([
      "Deployment ns-U/web-us-dfw in cell dfw-01 would be deleted, with its Instances.\n",
      [],
    ]);
    await berth("cell forget dfw-01 ns-U/web-us-dfw --yes");
    const { items } = await hub.client.list(withdrawals);
    const id = orphan("web-us-dfw");
    expect(items.map(({ spec }) => spec)).toMatchObject([{ ...id, cell: "dfw-01" }]);
    const again = await berth("cell forget dfw-01 ns-U/web-us-dfw --yes");
    expect(again.stdout).toContain("is being deleted already");
    expect((await berth("cell adopt dfw-01 ns-U/none")).stderr).toContain(
      "cell dfw-01 has no orphan ns-U/none",
    );
    await find(null);
    expect((await berth("cell list --orphans")).stdout).toBe("There is no orphan.\n");
  });

  it("drains a Cell, and ends with its drain", async () => {
    const plan = await berth("cell drain dfw-01 --plan");
    expect([plan.code, plan.stdout]).toEqual([exitCodes.done, "Cell dfw-01 in DFW has no deployment.\n"]);
    expect((await hub.client.get(cells, { name: "dfw-01" })).spec?.drain).toBeUndefined();
    const begun = await berth("cell drain dfw-01 --no-wait");
    expect([begun.code, begun.stdout]).toEqual([
      exitCodes.done,
      "Cell dfw-01 is being drained. `berth cell undrain dfw-01` takes that back.\n",
    ]);
    const drained = async (status: Condition["status"], message: string): Promise<void> => {
      const { generation = 0 } = (await hub.client.get(cells, { name: "dfw-01" })).metadata ?? {};
      await say("dfw-01", "True", "Heard", { type: "Drained", status, message, generation });
    };
    await drained("False", "1 deployment left: 1 leaving");
    const following = berth("cell drain dfw-01");
    await eventually(async () => expect((await berth("cell list")).stdout).toContain("1 deployment left"));
    await drained("True", "no deployment is in it");
    expect((await following).stdout).toMatch(/\nno deployment is in it\nCell dfw-01 is drained\.\n$/);
    expect((await berth("cell undrain dfw-01")).stdout).toMatch(/^Cell dfw-01 is not drained any more/);
    expect((await berth("cell undrain dfw-01")).stdout).toBe("Cell dfw-01 is not drained.\n");
    await say("dfw-01", "False", "Silent");
  });

  it("forgets a Cell for good, when it is told to", async () => {
    const shown = await berth("cell forget dfw-01");
    expect(shown.stdout).toBe("Cell dfw-01 in DFW is not heard.\n  nothing is placed there\n");
    expect(shown.stderr).toBe("Nothing was written: add --yes to act. It cannot be taken back.\n");
    expect((await hub.client.get(cells, { name: "dfw-01" })).spec?.forgotten).toBeUndefined();
    const done = await berth("cell forget dfw-01 --yes");
    expect([done.code, done.stdout]).toEqual([
      exitCodes.done,
      expect.stringContaining("Cell dfw-01 is forgotten."),
    ]);
    expect((await hub.client.get(cells, { name: "dfw-01" })).spec?.forgotten).toBe(true);
    expect((await berth("cell forget dfw-01 --yes")).stdout).toBe("Cell dfw-01 is forgotten already.\n");
    expect((await berth("cell forget nothing")).stderr).toContain("there is no cell nothing");
    const { stderr } = await add("dfw-01 --city DFW --kubeconfig cell");
    expect(stderr).toContain("CellEnding: Cell dfw-01 is forgotten: add the cluster under another name");
  });

  it("says where Cells are not served", async () => {
    await folder.write("admin", cell.kubeconfig());
    const { code, stderr } = await folder.berth("cell list --kubeconfig admin");
    expect([code, stderr]).toEqual([
      exitCodes.usage,
      expect.stringContaining("serves no Cells: install the CRDs"),
    ]);
    const added = await folder.berth("cell add x --city DFW --kubeconfig cell --hub-kubeconfig admin");
    expect([added.code, added.stderr]).toEqual([
      exitCodes.failed,
      expect.stringContaining("serves no Cells"),
    ]);
  });
});
