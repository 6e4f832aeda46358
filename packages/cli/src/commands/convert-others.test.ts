/** Documents of node-readiness-controller and the descheduler. */
import { describe, expect, it } from "vitest";
import { exitCodes } from "../exit-codes.ts";
import { testFolder } from "../testing/harness.ts";

interface Converted {
  readonly kind: string;
  readonly metadata: { readonly name: string };
  readonly spec: unknown;
}

/** What comes out passes `berth validate`. */
async function convert(text: string, ...words: readonly string[]) {
  await using folder = await testFolder({ "in.yaml": text });
  const { code, stdout, stderr } = await folder.berth(["convert", "in.yaml", "-o", "json", ...words]);
  if (code !== exitCodes.done) return { code, stderr, items: [] };
  await folder.write("out.json", stdout);
  expect((await folder.berth("validate out.json")).stderr).toBe("");
  const { items } = JSON.parse(stdout) as { readonly items: readonly Converted[] };
  return { code, stderr, items };
}

describe("a NodeReadinessRule", () => {
  const rule = (spec: string): string => `
apiVersion: readiness.node.x-k8s.io/v1alpha1
kind: NodeReadinessRule
metadata: { name: Network }
spec:
  taint: { key: readiness.k8s.io/network, effect: NoSchedule }
  nodeSelector: { matchLabels: { pool: a } }
${spec}`;
  const shared = {
    nodeSelector: { matchLabels: { pool: "a" } },
    controlPlane: "Include",
    taint: { key: "readiness.k8s.io/network", value: "", effect: "NoSchedule" },
  };

  it.each<[string, string, object]>([
    [
      "of the bootstrap",
      `  enforcementMode: bootstrap-only
  conditions: [{ type: Net, requiredStatus: "True" }, { type: DiskPressure, requiredStatus: "False" }]`,
      { signals: { conditions: [{ type: "Net" }, { type: "DiskPressure", status: "False" }] } },
    ],
    [
      "that stays in force, with a default",
      `  enforcementMode: continuous
  dryRun: true
  conditions: [{ type: Bad, requiredStatus: "False", defaultStatus: "False" }]`,
      {
        signals: { conditions: [{ type: "Bad", status: "False", defaultStatus: "False" }] },
        mode: "Continuous",
        dryRun: true,
      },
    ],
    [
      "with alternatives",
      `  conditionPolicy: anyOf
  conditions: [{ type: A, requiredStatus: "True" }, { type: B, requiredStatus: "True" }]`,
      { signals: { anyOf: [{ conditions: [{ type: "A" }] }, { conditions: [{ type: "B" }] }] } },
    ],
    [
      "with one alternative",
      `  conditionPolicy: anyOf
  dryRun: false
  conditions: [{ type: A, requiredStatus: "False" }]`,
      { signals: { conditions: [{ type: "A", status: "False" }] } },
    ],
  ])("%s becomes a StartupGate", async (_, spec, expected) => {
    const { items, stderr } = await convert(rule(spec));
    expect(stderr).toMatch(
      /NodeReadinessRule Network: a gate holds new nodes.*; the gate releases a node 5 s after/,
    );
    expect(items).toMatchObject([{ kind: "StartupGate", metadata: { name: "network" } }]);
    expect(items[0]?.spec).toEqual({ ...shared, ...expected });
  });

  it.each([
    [
      "an effect that no gate has",
      rule(`  conditions: [{ type: A, requiredStatus: "True" }]`).replace("NoSchedule", "PreferNoSchedule"),
      "taint.effect",
    ],
    [
      "a condition that an absent one meets",
      rule(`  conditions: [{ type: A, requiredStatus: Unknown }]`),
      "an absent condition would let a new node go",
    ],
    ["a field that Berth does not know", rule("  conditions: []\n  more: 1"), "more"],
  ])("with %s is refused, and that is said", async (_, text, message) => {
    const { code, stderr } = await convert(text);
    expect([code, stderr]).toEqual([exitCodes.faults, expect.stringContaining(message)]);
  });
});

describe("a DeschedulerPolicy", () => {
  const policy = (profile: string, more = ""): string => `
apiVersion: descheduler/v1alpha2
kind: DeschedulerPolicy
${more}
profiles:
  - name: Default
${profile}`;
  const pods = "labelSelector: { matchLabels: { app: a } }";
  const taintsOnly = (evictor: string, plugin: string): string =>
    policy(`    plugins: { deschedule: { enabled: [RemovePodsViolatingNodeTaints] } }
    pluginConfig:
      - { name: DefaultEvictor, args: { ${evictor} } }
      - { name: RemovePodsViolatingNodeTaints, args: { ${plugin} } }`);
  const both = `    plugins:
      deschedule: { enabled: [RemovePodsViolatingNodeAffinity, RemovePodsViolatingNodeTaints] }
    pluginConfig:
      - name: DefaultEvictor
        args:
          evictLocalStoragePods: true
          minReplicas: 2
          minPodAge: 10m
          priorityThreshold: { value: 1000 }
      - name: RemovePodsViolatingNodeAffinity
        args: { nodeAffinityType: [requiredDuringSchedulingIgnoredDuringExecution] }
      - name: RemovePodsViolatingNodeTaints
        args: { includedTaints: [example.com/gone], namespaces: { exclude: [kube-system] } }
`;

  it.each<[string, string, string, object]>([
    ["all taints", "nodeFit: true", "", { requireFit: "True" }],
    [
      "what the evictor lets go",
      "evictDaemonSetPods: true, evictSystemCriticalPods: true, priorityThreshold: { value: 5 }",
      "",
      { include: ["DaemonSet", "SystemCritical"] },
    ],
    [
      "thresholds",
      "priorityThreshold: { name: high }, minReplicas: 1",
      "",
      { priorityThreshold: { name: "high" } },
    ],
    [
      "the evictor's pods",
      pods,
      "namespaces: { include: [shop] }",
      {
        podSelector: { matchLabels: { app: "a" } },
        namespaceSelector: {
          matchExpressions: [{ key: "kubernetes.io/metadata.name", operator: "In", values: ["shop"] }],
        },
      },
    ],
    ["its own pods", "", pods, { podSelector: { matchLabels: { app: "a" } } }],
  ])("keeps %s", async (_, evictor, plugin, expected) => {
    const { items } = await convert(taintsOnly(evictor, plugin));
    expect(items.map(({ spec }) => spec)).toEqual([
      { keys: [], taints: ["*"], requireFit: "False", ...expected },
    ]);
  });

  it("is about the pods that the affinity plugin selects, and not about everything", async () => {
    const text = taintsOnly("", pods).replaceAll("NodeTaints", "NodeAffinity");
    const { items, stderr } = await convert(text);
    const podSelector = { matchLabels: { app: "a" } };
    expect(items[0]?.spec).toEqual({ keys: ["*"], requireFit: "True", podSelector });
    expect(stderr).toMatch(/\(spec\.for\), not at the next run; .*spec\.nodeSelector of pods as well/);
  });

  it("becomes a DeschedulePolicy for each plugin that moves pods from wrong nodes", async () => {
    const { code, items, stderr } = await convert(policy(both));
    const evictor = {
      include: ["LocalStorage"],
      minReplicas: 2,
      minAge: "10m",
      priorityThreshold: { value: 1000 },
    };
    expect(code).toBe(exitCodes.done);
    expect(items.map(({ kind, metadata, spec }) => [kind, metadata.name, spec])).toEqual([
      [
        "DeschedulePolicy",
        "default-node-affinity",
        { ...evictor, keys: ["*"], everything: true, requireFit: "True" },
      ],
      [
        "DeschedulePolicy",
        "default-node-taints",
        {
          ...evictor,
          keys: [],
          taints: ["example.com/gone"],
          requireFit: "False",
          namespaceSelector: {
            matchExpressions: [
              { key: "kubernetes.io/metadata.name", operator: "NotIn", values: ["kube-system"] },
            ],
          },
        },
      ],
    ]);
    expect(stderr).toContain("spec.for");
  });

  it.each([
    [
      "a plugin that balances",
      policy("    plugins: { balance: { enabled: [LowNodeUtilization] } }"),
      "profile Default, LowNodeUtilization: Berth moves pods only for labels and taints of their node",
    ],
    ["a setting of all profiles", policy(both, "maxNoOfPodsToEvictPerNode: 5"), "maxNoOfPodsToEvictPerNode"],
    [
      "taints that do not count",
      policy(both.replace("includedTaints", "excludedTaints")),
      "excludedTaints: name the taints that count",
    ],
    ["an argument of the evictor", policy(both.replace("minReplicas", "ignorePvcPods")), "ignorePvcPods"],
    ["no plugin", policy("    plugins: {}"), "profile Default: it enables no plugin"],
    [
      "a plugin at another point",
      policy("    plugins: { sort: { enabled: [RemovePodsViolatingNodeTaints] } }"),
      "profile Default: it enables no plugin",
    ],
    ["pods that are selected twice", taintsOnly(pods, pods), "labelSelector: the plugin has one as well"],
    [
      "taints by value",
      taintsOnly("", "includedTaints: [a, b=c]"),
      "includedTaints b=c: Berth compares keys of taints only",
    ],
    ["soft taints", taintsOnly("", "includePreferNoSchedule: true"), "includePreferNoSchedule: Berth reads"],
    [
      "preferred affinity",
      policy(both.replace("required", "preferred")),
      "nodeAffinityType preferredDuringSchedulingIgnoredDuringExecution: Berth reads required affinity only",
    ],
    [
      "an argument of affinity that Berth cannot read",
      policy(both.replace("nodeAffinityType", "other")),
      "profile Default, RemovePodsViolatingNodeAffinity: ",
    ],
    [
      "an argument about taints that Berth cannot read",
      taintsOnly("", "other: 1"),
      "profile Default, RemovePodsViolatingNodeTaints: ",
    ],
    [
      "an evictor that Berth cannot read",
      taintsOnly("minReplicas: -1", ""),
      "profile Default, DefaultEvictor: ",
    ],
    [
      "another version",
      policy(both).replace("v1alpha2", "v1alpha1"),
      "a DeschedulerPolicy of descheduler/v1alpha2",
    ],
  ])("with %s is not converted wholly, and that is said", async (_, text, message) => {
    const { code, stderr } = await convert(text);
    expect([code, stderr]).toEqual([exitCodes.faults, expect.stringContaining(message)]);
  });

  it.each([
    ["an argument that no policy has", "ignorePvcPods: true", "converted in part"],
    ["a value that no policy can have", "minReplicas: -1", "not converted"],
  ])("says once what both plugins lack: %s", async (_, arg, how) => {
    const { code, stderr } = await convert(policy(both.replace("minReplicas: 2", arg)));
    const errors = stderr.split("\n").filter((line) => line.includes(": error: "));
    expect([code, errors]).toEqual([exitCodes.faults, [expect.stringContaining(how)]]);
  });

  it("has no notes about what is not converted", async () => {
    const { stderr } = await convert(policy(both.replace("10m", "soon")));
    expect(stderr).toContain("minAge: must be a duration");
    expect(stderr).not.toContain("warning");
  });

  it("is converted as far as possible with --skip", async () => {
    const { code, items, stderr } = await convert(policy(both, "maxNoOfPodsToEvictPerNode: 5"), "--skip");
    expect([code, items.length]).toEqual([exitCodes.done, 2]);
    expect(stderr).toContain("warning: DeschedulerPolicy, not converted: maxNoOfPodsToEvictPerNode");
  });

  it("is text with comments that say what became of each part", async () => {
    const text = policy(both.replace("minReplicas: 2", "minReplicas: 2\n          ignorePvcPods: true"));
    await using folder = await testFolder({ "in.yaml": `${text}  - name: Empty\n` });
    const { stdout } = await folder.berth("convert --skip in.yaml");
    expect(stdout.split("\n").filter((line) => line.startsWith("#"))).toMatchInlineSnapshot(`
      [
        "# From in.yaml:2: DeschedulerPolicy",
        "# Note: profile Default, RemovePodsViolatingNodeAffinity: a pod goes after it has been on a wrong node for 5 minutes (spec.for), not at the next run",
        "# Note: profile Default, RemovePodsViolatingNodeAffinity: Berth compares spec.nodeSelector of pods as well",
        "# Left out:",
        "#   profile Default, DefaultEvictor: ignorePvcPods: a DeschedulePolicy has no such field",
        "# From in.yaml:2: DeschedulerPolicy",
        "# Note: profile Default, RemovePodsViolatingNodeTaints: a pod goes after it has been on a wrong node for 5 minutes (spec.for), not at the next run",
        "# Left out:",
        "#   profile Default, DefaultEvictor: ignorePvcPods: a DeschedulePolicy has no such field",
        "# Left out, in.yaml:2: DeschedulerPolicy:",
        "#   profile Empty: it enables no plugin",
      ]
    `);
  });

  it.each([
    ["a value that no policy can have, for each", "10m", "soon", "minAge: must be a duration", 2],
    [
      "a value that the evictor cannot have, once",
      "minReplicas: 2",
      "minReplicas: -1",
      "DefaultEvictor: ",
      1,
    ],
  ])("is a comment instead of policies with %s", async (_, good, bad, message, times) => {
    await using folder = await testFolder({ "in.yaml": policy(both.replace(good, bad)) });
    const { stdout, stderr } = await folder.berth("convert --skip in.yaml");
    expect(stdout).not.toContain("kind:");
    expect(stdout.split(message)).toHaveLength(times + 1);
    expect(stderr).toContain("DeschedulerPolicy, not converted: ");
  });
});
