/** Commands about Workloads, while `bin/berth run` runs them on a real cluster with kwok. Needs `make build`. */
import { type Workload, workloads } from "@berth/fleet";
import { eventually, findFreePort, startTestCluster, type TestCluster } from "@berth/testcluster";
import { afterAll, beforeAll, describe, expect, it } from "vitest";
import { installCrds, networkingCrds } from "../../../fleet/src/testing/fixture-crds.ts";
import { exitCodes } from "../exit-codes.ts";
import { grant, serveKinds } from "../testing/cluster.ts";
import { type CliResult, type TestFolder, testFolder } from "../testing/harness.ts";
import { start } from "../testing/process.ts";

const NAMESPACE = "default";

let cluster: TestCluster;
let folder: TestFolder;
const owned = new AsyncDisposableStack();

beforeAll(async () => {
  cluster = owned.use(
    await startTestCluster({ with: ["controller-manager", "scheduler", "kwok"], nodes: 2 }),
  );
  await serveKinds(cluster.client);
  const port = await findFreePort();
  folder = owned.use(
    await testFolder({
      kubeconfig: cluster.kubeconfig(),
      "fleet.yaml": `{apiVersion: berth.dev/v1alpha1, kind: Fleet, metadata: {name: fleet}, spec: {mode: single, cities: [DFW, ORD]}}
---
{apiVersion: berth.dev/v1alpha1, kind: AdmissionServer, metadata: {name: admission}, spec: {bindAddress: "127.0.0.1:${port}", url: "https://127.0.0.1:${port}"}}
`,
    }),
  );
  const off = "--metrics-bind-address 0 --health-probe-bind-address 0";
  owned.use(start(`run --kubeconfig kubeconfig --config fleet.yaml ${off}`, folder));
  // Before its webhook is there, a Workload that is not valid is accepted.
  await eventually(async () => {
    const probe = cluster.client.create(workloads, objectOf("probe", { min: 0 }), { dryRun: true });
    if (
      await probe.then(
        () => true,
        () => false,
      )
    )
      throw new Error("the webhook is not there");
  });
});
afterAll(() => owned.disposeAsync());

const berth = (line: string): Promise<CliResult> => folder.berth(`${line} --kubeconfig kubeconfig`);

interface Parts {
  readonly min?: number;
  readonly image?: string;
  readonly city?: string;
}

function objectOf(
  name: string,
  { min = 1, image = "registry.test/app:1", city = "DFW" }: Parts = {},
): Workload {
  const resources = { instanceType: "datumcloud/d1-standard-2" };
  const containers = [{ name: "app", image }];
  return {
    apiVersion: "compute.datumapis.com/v1alpha",
    kind: "Workload",
    metadata: { name, namespace: NAMESPACE },
    spec: {
      template: {
        spec: {
          runtime: { resources, sandbox: { containers } },
          networkInterfaces: [{ network: { name: "default" } }],
        },
      },
      placements: [{ name: "us", cityCodes: [city], scaleSettings: { minReplicas: min } }],
    },
  };
}

const apply = async (name: string, parts?: Parts): Promise<void> =>
  void (await cluster.client.apply(workloads, objectOf(name, parts)));

const running = (name: string, ready: number): Promise<void> =>
  eventually(async () => {
    const { status } = await cluster.client.get(workloads, { namespace: NAMESPACE, name });
    expect(status).toMatchObject({ readyReplicas: ready, updatedReplicas: ready, desiredReplicas: ready });
  });

describe("explain", () => {
  it("shows a bad image at the top, and nothing once it is corrected", async () => {
    await apply("bad", { image: "registry.test/pull-failure:1" });
    await eventually(async () => {
      const { stdout } = await berth(`explain workload ${NAMESPACE}/bad --config fleet.yaml`);
      expect(stdout).toMatch(
        /^ImageUnavailable: Instance default\/bad-us-dfw-0: Container app has no image registry.test\/pull-failure:1/,
      );
      expect(stdout).toMatch(/next look +on the next change of its pod\n/);
      expect(stdout).toMatch(/└─ Pod bad-us-dfw-0 +Pending +on node /);
    });
    const { stdout: line } = await berth("workloads -A");
    expect(line).toMatch(/^default +bad +0\/1 +\d +False +ImageUnavailable +DFW$/m);
    const { stdout: cities } = await berth("fleet");
    expect(cities).toMatch(/^DFW +default +bad +1 +0 +\d +0 +ImageUnavailable$/m);
    const { stdout: data } = await berth("explain instance bad-us-dfw-0 -o json --config fleet.yaml");
    expect(JSON.parse(data)).toMatchObject({
      about: "Instance default/bad-us-dfw-0",
      blocking: { reason: "ImageUnavailable" },
      tree: { kind: "Instance", children: [{ kind: "ResourceClaim" }, { kind: "Network" }, { kind: "Pod" }] },
    });
    await apply("bad");
    await running("bad", 1);
    const { stdout } = await berth("explain workload bad");
    expect(stdout).toMatch(/^Workload default\/bad: nothing blocks it\n/);
  });

  it("names what there is not, and the permissions that are missing", async () => {
    const { code, stderr } = await berth("explain workload nothing");
    expect(code).toBe(exitCodes.failed);
    expect(stderr).toMatch(/^berth: there is no workload default\/nothing on /);
    await apply("secret");
    await running("secret", 1);
    await folder.write("reader", cluster.kubeconfig({ user: await cluster.user("reader") }));
    const explain = (): Promise<CliResult> => folder.berth("explain workload secret --kubeconfig reader");
    const group = "compute.datumapis.com";
    await using _workloads = await grant(cluster.client, "reader", `get list workloads.${group}`);
    const refused = await explain();
    expect(refused.code).toBe(exitCodes.cluster);
    expect(refused.stderr).toContain(`needed: verb "list" on "workloaddeployments.${group}"`);
    const rules = [`list workloaddeployments.${group}`, `list instances.${group}`];
    await using _rest = await grant(cluster.client, "reader", ...rules);
    const limited = await explain();
    expect(limited.code).toBe(exitCodes.done);
    expect(limited.stderr).toContain('needed: verb "list" on "pods"');
  });
});

describe("scale and restart", () => {
  it("show what follows, and it follows", async () => {
    await apply("web");
    await running("web", 1);
    const scaled = await berth("scale workload web --replicas 2");
    expect(scaled.stdout).toContain("Workload default/web: minReplicas of placement us (DFW): 1 → 2\n");
    expect(scaled.stdout).toContain("  1.   + web-us-dfw-1   1 vCPU, 2048 MiB\n");
    await running("web", 2);
    const { stdout } = await berth(`restart workload ${NAMESPACE}/web`);
    expect(stdout).toMatch(/compute.datumapis.com\/restartedAt: never → 20\d\d-/);
    expect(stdout.match(/~ web-us-dfw-\d/g)).toEqual(["~ web-us-dfw-1", "~ web-us-dfw-0"]);
    await running("web", 2);
    const again = await berth("scale workload web --replicas 2");
    expect(again.stdout).toContain("is 2 already");
  });

  it.each([
    ["--replicas 0", exitCodes.usage, "expected a whole number from 1 to 1000"],
    ["--replicas many", exitCodes.usage, "expected a whole number from 1 to 1000"],
    ["--replicas 2 --placement eu", exitCodes.failed, "it has no placement eu; there is: us"],
    ["--replicas 2 -n other", exitCodes.failed, "there is no workload other/quiet"],
  ])("scale %s is refused", async (line, expected, message) => {
    await apply("quiet");
    const { code, stderr } = await berth(`scale workload quiet ${line}`);
    expect(code).toBe(expected);
    expect(stderr).toContain(message);
  });

  it("shows what admission refuses, with its causes", async () => {
    const object = objectOf("limited");
    const [place] = object.spec?.placements ?? [];
    const target = { averageUtilization: 50 };
    const metrics = [{ resource: { name: "cpu", target } }];
    const scaleSettings = { minReplicas: 1, maxReplicas: 3, metrics };
    const placements = place ? [{ ...place, scaleSettings }] : [];
    await cluster.client.create(workloads, {
      ...object,
      ...(object.spec && { spec: { ...object.spec, placements } }),
    });
    const { code, stderr } = await berth("scale workload limited --replicas 4");
    expect(code).toBe(exitCodes.failed);
    expect(stderr).toBe(
      "berth: Workload default/limited is not changed, the API server refuses it:\n" +
        "  spec.placements[0].scaleSettings.maxReplicas: Invalid value: 3: must be greater than or equal to minReplicas\n",
    );
  });
});

describe("plan -f", () => {
  it("shows creations, rolls and deletions in order, and the exit code", async () => {
    await folder.write("new.json", JSON.stringify(objectOf("planned", { min: 2 })));
    const fresh = await berth("plan -f new.json --config fleet.yaml --exit-code");
    expect(fresh.code).toBe(exitCodes.changes);
    expect(fresh.stdout.match(/[+~-] planned-us-dfw-\d/g)).toEqual([
      "+ planned-us-dfw-0",
      "+ planned-us-dfw-1",
    ]);
    await apply("planned", { min: 2 });
    await running("planned", 2);
    const same = await berth("plan -f new.json --config fleet.yaml --exit-code");
    expect([same.code, same.stdout]).toEqual([exitCodes.done, "Workload default/planned\n\nNo changes.\n"]);
    await folder.write(
      "next.json",
      JSON.stringify(objectOf("planned", { min: 1, image: "registry.test/app:2" })),
    );
    const next = await berth("plan -f next.json --config fleet.yaml -o json");
    expect(JSON.parse(next.stdout)).toMatchObject({
      workloads: [
        {
          totals: { create: 0, roll: 1, delete: 1 },
          needsClaims: false,
          deployments: [
            {
              steps: [
                { do: "delete", instance: "planned-us-dfw-1" },
                { do: "roll", instance: "planned-us-dfw-0" },
              ],
            },
          ],
        },
      ],
    });
  });

  it("finds the faults that admission finds, with their places", async () => {
    await folder.write("bad.json", JSON.stringify(objectOf("bad2", { city: "NYC", min: 0 }), undefined, 1));
    const { code, stderr } = await berth("plan -f bad.json --config fleet.yaml");
    expect(code).toBe(exitCodes.faults);
    expect(stderr).toMatch(
      /^bad.json:\d+:\d+: error: spec.placements\[0\].cityCodes\[0\]: Unsupported value: "NYC"/m,
    );
    expect(stderr).toContain("minReplicas: Invalid value: 0: must be greater than 0");
  });
});

// Last, as from here on the cluster has networks.
describe("C22 what a user may not read", () => {
  const group = "compute.datumapis.com";
  const rules = [
    `get list workloads.${group}`,
    `list workloaddeployments.${group}`,
    `list instances.${group}`,
    "list pods",
  ];

  it("is nothing where there are no networks, and then says SourceNotRead and never what would be created", async () => {
    await apply("seen");
    await running("seen", 1);
    await folder.write("new.json", JSON.stringify(objectOf("unseen")));
    await folder.write("more.json", JSON.stringify(objectOf("seen", { min: 2 })));
    await folder.write("tenant", cluster.kubeconfig({ user: await cluster.user("tenant") }));
    await using _granted = await grant(cluster.client, "tenant", ...rules);
    const asTenant = (line: string): Promise<CliResult> =>
      folder.berth(`${line} --config fleet.yaml --kubeconfig tenant`);
    const before = await asTenant("plan -f new.json --exit-code");
    expect([before.code, before.stderr]).toEqual([exitCodes.changes, ""]);
    expect(before.stdout).toContain("+ unseen-us-dfw-0");

    await installCrds(cluster.client, networkingCrds);
    for (const file of ["new.json", "more.json"]) {
      const planned = await asTenant(`plan -f ${file}`);
      expect([planned.code, planned.stdout]).toEqual([
        exitCodes.done,
        expect.stringMatching(
          /^! SourceNotRead: networks: .*locations may not be listed.*\n\nWhat follows is not known\.\n$/m,
        ),
      ]);
      expect(planned.stdout).not.toMatch(/[+~-] (un)?seen|creat/);
      expect(planned.stderr).toContain('needed: verb "list" on "locations.networking.datumapis.com"');
    }
    const { code } = await asTenant("plan -f new.json --exit-code");
    expect(code).toBe(exitCodes.cluster);
    const data = JSON.parse((await asTenant("plan -f new.json -o json")).stdout);
    expect(data).toMatchObject({
      workloads: [{ deployments: [], unread: [{ reason: "SourceNotRead", what: "networks" }] }],
    });
    const explained = await asTenant("explain workload seen");
    expect(explained.code).toBe(exitCodes.done);
    expect(explained.stdout).toMatch(/not known +SourceNotRead: networks: /);
    expect(explained.stdout).not.toMatch(/creat|nothing blocks/);
  });

  it("says SourceNotRead where no API server has the claims", async () => {
    const quota = { project: { id: "web" }, quota: { from: "Cluster" }, networking: "Off" };
    const spec = { mode: "single", cities: ["DFW"], ...quota };
    const fleet = { apiVersion: "berth.dev/v1alpha1", kind: "Fleet", metadata: { name: "fleet" }, spec };
    await folder.write("quota.json", JSON.stringify(fleet));
    await folder.write("new.json", JSON.stringify(objectOf("unseen")));
    const { code, stdout } = await berth("plan -f new.json --config quota.json");
    expect(code).toBe(exitCodes.done);
    expect(stdout).toContain(
      "! SourceNotRead: quota: the ResourceClaims cannot be read, or are not served\n",
    );
    expect(stdout).not.toContain("+ unseen");
  });
});
