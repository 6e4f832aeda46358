import { describe, expect, it } from "vitest";
import { completeFootprint } from "./complete.ts";
import type { NodeFootprintSpec } from "./document.ts";

const complete = (spec: NodeFootprintSpec, name = "f") =>
  completeFootprint({ name, spec }, `cluster/${name}`);
const faultsOf = (spec: NodeFootprintSpec, name = "f"): readonly string[] =>
  complete(spec, name).faults.map(({ path, message }) => `${path.join(".")}: ${message}`);

const plain: NodeFootprintSpec = {
  workloads: [{ podSelector: { matchLabels: { app: "a" } } }],
  node: { label: { key: "example.com/agent" } },
};
const workers = { group: "ate.dev", version: "v1alpha1", resource: "workerpools" };
const selected = [{ podSelector: { matchLabels: { app: "a" } } }];

describe("a document without a preset", () => {
  it("has these defaults", () => {
    expect(complete(plain).footprint).toEqual({
      rule: "cluster/f",
      name: "f",
      workloads: [
        {
          podSelector: { matchLabels: { app: "a" } },
          namespaceSelector: {},
          requests: [],
          csiDrivers: [],
          ignorePhases: new Set(["Succeeded", "Failed"]),
          terminating: "Hold",
        },
      ],
      grouping: { by: "None" },
      label: { key: "example.com/agent", value: "true" },
      foreign: "Reclaim",
      releaseDelayMs: 0,
    });
  });

  it("has all that it gives", () => {
    const spec: NodeFootprintSpec = {
      workloads: [{ ...plain.workloads?.[0], ignorePhases: [], terminating: "Release" }],
      group: { by: "OwnerUID", owner: { group: "apps", kind: "Deployment" } },
      node: {
        label: { key: "example.com/agent", value: "yes" },
        claims: { annotationPrefix: "example.com/c." },
        foreign: "Report",
        excludeSelector: { matchLabels: { type: "virtual-kubelet" } },
      },
      release: { delay: "1m30s" },
      hold: { resource: workers, finalizer: "example.com/hold", onDelete: "Wait", timeout: "1h" },
      wait: { inject: "Webhook", container: { timeout: "1500ms" }, port: 80 },
      agent: { daemonSet: { namespace: "ns", name: "ds" }, nodeSelector: "Manage" },
    };
    expect(complete(spec).footprint).toMatchObject({
      workloads: [{ ignorePhases: new Set(), terminating: "Release" }],
      grouping: { by: "OwnerUID", owner: { group: "apps", kind: "Deployment" } },
      label: { key: "example.com/agent", value: "yes" },
      claims: { annotationPrefix: "example.com/c.", value: "" },
      foreign: "Report",
      excludeSelector: { matchLabels: { type: "virtual-kubelet" } },
      releaseDelayMs: 90_000,
      hold: { resource: workers, finalizer: "example.com/hold", onDelete: "Wait", timeoutMs: 3_600_000 },
      wait: { containerName: "wait-for-agent", image: "busybox:1.36", timeoutSeconds: 2 },
      agent: { namespace: "ns", name: "ds", nodeSelector: "Manage" },
    });
  });

  it("S-11 names the image by which pods wait, best by its digest", () => {
    const image = "mirror.example/busybox@sha256:1";
    const wait = { inject: "Webhook", container: { image }, port: 80 } as const;
    expect(complete({ ...plain, wait }).footprint?.wait?.image).toBe(image);
  });

  it("claims nothing for groups of which it says nothing, or that are one", () => {
    const claims = { annotationPrefix: "example.com/c." };
    expect(complete({ ...plain, group: { by: "Namespace" } }).footprint?.claims).toBeUndefined();
    expect(complete({ ...plain, node: { ...plain.node, claims } }).footprint?.claims).toBeUndefined();
  });

  it.each<[string, NodeFootprintSpec, readonly string[]]>([
    [
      "every pod",
      { ...plain, workloads: [{}] },
      ["workloads.0: it selects every pod: name labels, resources or drivers"],
    ],
    [
      "a hold of groups that are no owners",
      { ...plain, hold: { resource: workers, finalizer: "example.com/x", onDelete: "Wait" } },
      ["group.by: a hold needs groups that are owners: PodLabel or OwnerUID"],
    ],
    [
      "a hold that deletes it knows not what, by a finalizer without a domain",
      {
        ...plain,
        group: { by: "PodLabel", label: "x" },
        hold: { resource: workers, finalizer: "x" },
      },
      [
        "hold.finalizer: the API server wants a domain before the name",
        "hold.ownedResources: DeleteOwned needs the resources that owners own",
      ],
    ],
    [
      "a hold of nobody",
      { ...plain, group: { by: "PodLabel", label: "x" }, hold: { finalizer: "a.b/c", onDelete: "Wait" } },
      ["hold.resource: is required"],
    ],
    ["nothing to group by", { ...plain, group: { by: "PodLabel" } }, ["group.label: PodLabel needs it"]],
    [
      "a wait for no port",
      { ...plain, wait: { inject: "Webhook" } },
      ["wait.port: has to be given: pods wait for it"],
    ],
    [
      "the agent to manage",
      { ...plain, agent: { nodeSelector: "Manage" } },
      ["agent.daemonSet: Manage needs the DaemonSet"],
    ],
  ])("has a fault: %s", (_, spec, expected) => {
    expect(complete(spec).footprint).toBeUndefined();
    expect(faultsOf(spec)).toEqual(expected);
  });
});

describe("presets", () => {
  it("agent-substrate/pr-134 is that pull request, byte for byte", () => {
    expect(complete({ preset: "agent-substrate/pr-134" }, "atelet")).toEqual({
      faults: [],
      footprint: {
        rule: "cluster/atelet",
        name: "atelet",
        workloads: [
          {
            podSelector: { matchExpressions: [{ key: "ate.dev/worker-pool-uid", operator: "Exists" }] },
            namespaceSelector: {},
            requests: [],
            csiDrivers: [],
            ignorePhases: new Set(["Succeeded", "Failed"]),
            terminating: "Hold",
          },
        ],
        grouping: {
          by: "PodLabel",
          label: "ate.dev/worker-pool-uid",
          verify: { group: "ate.dev", kind: "WorkerPool" },
        },
        label: { key: "ate.dev/atelet", value: "true" },
        claims: { annotationPrefix: "ate.dev/claim.", value: "" },
        foreign: "Reclaim",
        releaseDelayMs: 0,
        hold: {
          resource: workers,
          finalizer: "ate.dev/release-node-claims",
          onDelete: "DeleteOwned",
          ownedResources: [{ group: "apps", version: "v1", resource: "deployments" }],
        },
        agent: { namespace: "ate-system", name: "atelet", nodeSelector: "Verify" },
      },
    });
  });

  it("agent-substrate/owner-uid differs in what it groups by alone", () => {
    const [label, owner] = (["agent-substrate/pr-134", "agent-substrate/owner-uid"] as const).map(
      (preset) => complete({ preset }).footprint,
    );
    expect(owner).toEqual({
      ...label,
      workloads: [
        {
          ...label?.workloads[0],
          podSelector: { matchExpressions: [{ key: "ate.dev/worker-pool", operator: "Exists" }] },
        },
      ],
      grouping: { by: "OwnerUID", owner: { group: "ate.dev", kind: "WorkerPool" } },
    });
  });

  it("put the container in that the pull request has, where they are told to", () => {
    const { footprint } = complete({
      preset: "agent-substrate/owner-uid",
      wait: { inject: "Webhook" },
    });
    expect(footprint?.wait).toEqual({
      containerName: "wait-for-atelet",
      image: "busybox:1.36",
      port: 8085,
    });
  });

  it.each<[NodeFootprintSpec, object]>([
    [
      { preset: "csi", workloads: [{ csiDrivers: ["efs.csi.aws.com"] }] },
      { grouping: { by: "Namespace" }, releaseDelayMs: 300_000 },
    ],
    [
      { preset: "gpu" },
      { grouping: { by: "None" }, releaseDelayMs: 120_000, workloads: [{ requests: ["nvidia.com/gpu"] }] },
    ],
    [
      { preset: "log", workloads: selected },
      { grouping: { by: "Namespace" }, releaseDelayMs: 60_000 },
    ],
    [
      { preset: "image-warmer", workloads: selected },
      {
        grouping: { by: "OwnerUID", owner: { group: "apps", kind: "Deployment" } },
        releaseDelayMs: 1_800_000,
      },
    ],
  ])("%j is complete", (spec, expected) => {
    expect(complete(spec)).toMatchObject({
      faults: [],
      footprint: { ...expected, label: { key: "footprint.berth.dev/f", value: "true" } },
    });
  });

  it.each<[NodeFootprintSpec, readonly string[]]>([
    [{ preset: "csi" }, ["workloads: the preset csi cannot know it: give workloads with csiDrivers"]],
    [
      { preset: "csi", workloads: selected },
      ["workloads.0.csiDrivers: the preset csi cannot know it: give csiDrivers"],
    ],
    [{ preset: "log" }, ["workloads: the preset log cannot know it: give workloads with podSelector"]],
    [
      { preset: "image-warmer", workloads: [...selected, { requests: ["a"] }] },
      ["workloads.1.podSelector: the preset image-warmer cannot know it: give podSelector"],
    ],
  ])("%j needs what it cannot know", (spec, expected) => {
    expect(faultsOf(spec)).toEqual(expected);
  });

  it("claim by a prefix of which none is the beginning of another", () => {
    const prefixOf = (name: string) =>
      complete({ preset: "log", workloads: selected }, name).footprint?.claims;
    expect(prefixOf("logs")).toEqual({ annotationPrefix: "footprint.berth.dev/logs_", value: "" });
    expect(prefixOf("logs.b")?.annotationPrefix.startsWith("footprint.berth.dev/logs_")).toBe(false);
  });

  it("need keys for names that are too long for one", () => {
    const long = { preset: "log", workloads: selected } as const;
    expect(faultsOf(long, "n".repeat(27))).toEqual([
      expect.stringMatching(/^node\.claims\.annotationPrefix: has to be given/) as string,
    ]);
    expect(faultsOf(long, "n".repeat(26))).toEqual([]);
    expect(faultsOf({ preset: "gpu" }, "n".repeat(64))).toEqual([
      expect.stringMatching(/^node\.label\.key: has to be given/) as string,
    ]);
  });

  it("give way field by field, and lists as a whole", () => {
    const { footprint } = complete({
      preset: "agent-substrate/pr-134",
      workloads: selected,
      node: {
        label: { key: "x.node-restriction.kubernetes.io/atelet" },
        claims: { annotationPrefix: "x.dev/", value: "1" },
      },
      hold: { resource: workers, finalizer: "ate.dev/release-node-claims", timeout: "10m" },
      agent: { daemonSet: { namespace: "mine", name: "atelet" } },
    });
    expect(footprint).toMatchObject({
      workloads: [{ podSelector: { matchLabels: { app: "a" } } }],
      grouping: { by: "PodLabel", label: "ate.dev/worker-pool-uid" },
      label: { key: "x.node-restriction.kubernetes.io/atelet", value: "true" },
      claims: { annotationPrefix: "x.dev/", value: "1" },
      hold: { timeoutMs: 600_000, ownedResources: [{ resource: "deployments" }] },
      agent: { namespace: "mine", nodeSelector: "Verify" },
    });
  });

  it.each<[string, NodeFootprintSpec, object]>([
    ["the timeout of a hold", { hold: { timeout: "30s" } }, { hold: { timeoutMs: 30_000 } }],
    ["what a hold does", { hold: { onDelete: "Wait" } }, { hold: { onDelete: "Wait" } }],
    ["nothing of a hold", { hold: {} }, {}],
    [
      "the value of the label",
      { node: { label: { value: "x" } } },
      { label: { key: "ate.dev/atelet", value: "x" } },
    ],
    [
      "the value of claims",
      { node: { claims: { value: "x" } } },
      { claims: { annotationPrefix: "ate.dev/claim.", value: "x" } },
    ],
    ["what groups", { group: { by: "PodLabel" } }, {}],
  ])("let a document give %s alone", (_, spec, expected) => {
    const preset = "agent-substrate/pr-134";
    const { footprint: base } = complete({ preset });
    const { footprint, faults } = complete({ preset, ...spec });
    expect(faults).toEqual([]);
    const { hold } = expected as { readonly hold?: object };
    expect(footprint).toEqual({ ...base, ...expected, ...(hold && { hold: { ...base?.hold, ...hold } }) });
  });

  it("name label and claims after the document, with the values that it gives", () => {
    const node = { label: { value: "on" }, claims: { value: "x" } };
    expect(complete({ preset: "log", workloads: selected, node }, "logs").footprint).toMatchObject({
      label: { key: "footprint.berth.dev/logs", value: "on" },
      claims: { annotationPrefix: "footprint.berth.dev/logs_", value: "x" },
    });
  });

  it.each<[NodeFootprintSpec, readonly string[]]>([
    [
      { preset: "image-warmer", workloads: selected, hold: { onDelete: "Wait", timeout: "30s" } },
      [
        "hold.resource: is required: the preset image-warmer holds no owner",
        "hold.finalizer: is required: the preset image-warmer holds no owner",
      ],
    ],
    [
      { preset: "gpu", group: { by: "PodLabel" } },
      ["group.label: PodLabel needs it, and the preset gpu does not say it"],
    ],
    [
      { preset: "csi", workloads: [{ csiDrivers: ["d"] }], group: { by: "OwnerUID" } },
      ["group.owner: OwnerUID needs it, and the preset csi does not say it"],
    ],
    [
      { preset: "log", workloads: [{ podSelector: {} }] },
      ["workloads.0: it selects every pod: name labels, resources or drivers"],
    ],
  ])("%j lacks what its preset does not say", (spec, expected) => {
    expect(faultsOf(spec)).toEqual(expected);
  });
});
