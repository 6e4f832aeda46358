import type { ClusterRole, KubeObject } from "@berth/kube";
import { describe, expect, it } from "vitest";
import { exitCodes } from "./exit-codes.ts";
import { cli, testFolder } from "./testing/harness.ts";

describe("berth manifests --config", () => {
  const document = (kind: string, name: string, spec: string): string =>
    `---\napiVersion: berth.dev/v1alpha1\nkind: ${kind}\nmetadata: {name: ${name}}\nspec: ${spec}\n`;
  const substrate = document("NodeFootprint", "atelet", "{preset: agent-substrate/owner-uid}");
  const pools = document("WorkerPools", "default", "{}");
  const web = document(
    "NodeFootprint",
    "web",
    "{preset: log, workloads: [{podSelector: {matchLabels: {a: b}}}], wait: {inject: Webhook, port: 9}, agent: {daemonSet: {namespace: a, name: b}, nodeSelector: Manage}}",
  );
  const held = document(
    "NodeFootprint",
    "jobs",
    "{preset: image-warmer, workloads: [{podSelector: {matchLabels: {a: c}}}], hold: {finalizer: a.b/c, onDelete: Wait, resource: {group: a.b, version: v1, resource: trains}, ownedResources: [{group: batch, version: v1, resource: jobs}]}}",
  );

  /** Names of ClusterRoles without that of the installation, with their rules as `verbs resource.group`. */
  async function rolesOf(text: string, ...more: readonly string[]) {
    await using folder = await testFolder({ "conf.yaml": text, "conf/one.yaml": text });
    const [asFile, asFolder] = await Promise.all(
      ["conf.yaml", "conf"].map((config) =>
        cli(["manifests", "--image", "x", "--config", config, ...more, "-o", "json"], {
          folder: folder.path,
        }),
      ),
    );
    const roles = (stdout = ""): ReadonlyMap<string, readonly string[]> =>
      new Map(
        (JSON.parse(stdout) as { items: readonly KubeObject[] }).items.flatMap((object) =>
          object.kind === "ClusterRole"
            ? [[object.metadata?.name ?? "", linesOf(object as ClusterRole)]]
            : [],
        ),
      );
    expect(roles(asFolder?.stdout)).toEqual(roles(asFile?.stdout));
    expect([asFile?.code, asFolder?.code]).toEqual([0, 0]);
    return { roles: roles(asFile?.stdout), said: asFile?.stderr ?? "" };
  }

  const linesOf = ({ rules = [] }: ClusterRole): readonly string[] =>
    rules.map(
      ({ verbs, resources = [], apiGroups = [] }) =>
        `${verbs.join(" ")} ${resources.join(",")}.${apiGroups.join(",")}`,
    );
  it("C21 name Berth's Lease and that of the fleet, of this installation", async () => {
    const fleet = document("Fleet", "default", "{mode: single, cities: [DFW]}");
    await using folder = await testFolder({ "conf.yaml": fleet });
    const line = "manifests --image x --config conf.yaml --installation blue -o json";
    const { stdout } = await cli(line.split(" "), { folder: folder.path });
    const { items } = JSON.parse(stdout) as {
      readonly items: readonly (KubeObject & Pick<ClusterRole, "rules">)[];
    };
    const rules = items.flatMap(({ kind, rules = [] }) => (kind === "Role" ? rules : []));
    const named = rules.filter(
      ({ resources, verbs }) => resources?.includes("leases") && verbs.includes("update"),
    );
    expect(named.flatMap(({ resourceNames = [] }) => resourceNames).toSorted()).toEqual([
      "berth-blue",
      "compute-single.berth-blue",
    ]);
  });

  const DEFAULT = ["berth", "berth-architecture", "berth-footprint", "berth-deschedule"];

  it("gives no more than usual to documents that take no more, and says nothing", async () => {
    const { roles, said } = await rolesOf(document("NodeFootprint", "gpu", "{preset: gpu}"));
    expect([[...roles.keys()], said]).toEqual([DEFAULT, ""]);
    expect(roles.get("berth-footprint")).not.toContain("patch daemonsets.apps");
  });

  it("gives footprints that hold exactly what they hold and delete, and says so", async () => {
    const { roles, said } = await rolesOf(`${substrate}${held}`);
    expect(new Set(roles.keys())).toEqual(new Set([...DEFAULT, "berth-footprint-holds"]));
    expect(roles.get("berth-footprint-holds")).toEqual([
      "get list watch patch workerpools.ate.dev",
      "list watch delete deployments.apps",
      "get list watch patch trains.a.b",
      "list watch jobs.batch",
    ]);
    expect(said).toContain("NodeFootprint atelet");
    expect(said).toContain("NodeFootprint jobs");
  });

  it("says that a DeschedulePolicy evicts pods", async () => {
    const { roles, said } = await rolesOf(document("DeschedulePolicy", "default", "{}"));
    expect([...roles.keys()]).toEqual(DEFAULT);
    expect(said).toContain("evict pods (DeschedulePolicy)");
  });

  it("gives WorkerPools what their flag gives, and the agent its selector", async () => {
    const { roles, said } = await rolesOf(`${pools}${web}`);
    expect(new Set(roles.keys())).toEqual(new Set([...DEFAULT, "berth-worker-pools"]));
    expect(roles.get("berth-footprint")).toContain("patch daemonsets.apps");
    expect(said).toContain("WorkerPools");
    const { roles: asked } = await rolesOf(document("ImageRegistries", "default", "{}"), "--worker-pools");
    expect(asked.get("berth-worker-pools")).toEqual(roles.get("berth-worker-pools"));
  });

  it.each([
    [
      "that cannot be in force",
      document("NodeFootprint", "gpu", "{preset: csi}"),
      "give workloads with csiDrivers",
    ],
    ["that are none", "kind: ImageRegistries\n", "apiVersion"],
  ])("refuses documents %s", async (_name, text, said) => {
    await using folder = await testFolder({ "conf.yaml": text, "empty/readme.md": "x" });
    const run = (config: string) =>
      cli(["manifests", "--image", "x", "--config", config], { folder: folder.path });
    const { code, stderr, stdout } = await run("conf.yaml");
    expect([code, stdout]).toEqual([exitCodes.faults, ""]);
    expect(stderr).toContain(said);
    expect((await run("empty")).code).toBe(exitCodes.faults);
  });
});
