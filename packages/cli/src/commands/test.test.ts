/** `berth test`: documents on sample objects, without a cluster. */
import { readFile } from "node:fs/promises";
import path from "node:path";
import { expect, it } from "vitest";
import { exitCodes } from "../exit-codes.ts";
import { testFolder } from "../testing/harness.ts";

const DOCUMENTS = `apiVersion: berth.dev/v1alpha1
kind: LabelRule
metadata: {name: gpu}
spec: {match: {all: [{key: example.com/device}]}, labels: [{key: example.com/gpu}]}
---
apiVersion: berth.dev/v1alpha1
kind: StartupGate
metadata: {name: driver}
spec: {nodeSelector: {matchLabels: {pool: slow}}, signals: {conditions: [{type: DriverReady}]}}
---
apiVersion: berth.dev/v1alpha1
kind: ArchitecturePolicy
metadata: {name: all}
spec: {mode: Taint, images: [{image: web.test/web:1, architectures: [arm64]}]}
---
apiVersion: berth.dev/v1alpha1
kind: NodeFootprint
metadata: {name: agent}
spec:
  workloads: [{podSelector: {matchLabels: {app: web}}}]
  node: {label: {key: example.com/agent}}
  group: {by: OwnerUID, owner: {group: apps, kind: ReplicaSet}}
---
apiVersion: berth.dev/v1alpha1
kind: DeschedulePolicy
metadata: {name: moves}
spec: {for: 5m, keys: [pool]}
`;
const head = (name = "rules"): string => `apiVersion: berth.dev/v1alpha1
kind: Test
metadata: {name: ${name}}
spec:
  documents: [rules.yaml]
  objects:
    # All cases have it.
    - {apiVersion: v1, kind: Node, metadata: {name: n1, labels: {example.com/device: x}}, status: {nodeInfo: {architecture: amd64}}}
  cases:
`;
const CASES = `    - name: a device gives a label
      expect: |
        node n1
          + label/example.com/wrong=true   RuleMatched  config/gpu
    - name: a held node is let go
      objects:
        - apiVersion: v1
          kind: Node
          metadata: {name: n2, labels: {pool: slow}}
          spec: {taints: [{key: startup.k8s.io/initializing, value: wait, effect: NoSchedule}]}
          status: {conditions: [{type: DriverReady, status: "True", lastTransitionTime: "2025-12-01T00:00:00Z"}]}
    - name: a pod needs an agent, and another node
      objects:
        - {apiVersion: apps/v1, kind: ReplicaSet, metadata: {name: rs}}
        - apiVersion: v1
          kind: Pod
          metadata:
            name: web
            labels: {app: web}
            ownerReferences: [{apiVersion: apps/v1, kind: ReplicaSet, name: rs, uid: ReplicaSet-default-rs, controller: true}]
          spec: {nodeName: n1, containers: [{name: c, image: "web.test/web:1"}], nodeSelector: {pool: fast}}
          status: {phase: Running, conditions: [{type: Ready, status: "True"}]}
`;

it("compares what documents of each kind do, shows a patch, and writes what is", async () => {
  await using folder = await testFolder({ "rules.yaml": DOCUMENTS, "test.yaml": `${head()}${CASES}` });
  const failed = await folder.berth("test test.yaml");
  expect([failed.code, failed.stderr]).toEqual([exitCodes.failed, "berth: 3 of 3 cases failed\n"]);
  expect(failed.stdout).toMatch(
    /^--- test.yaml: a device gives a label: expected\n\+{3} is\n node n1\n- {2}\+ label\/example.com\/wrong=true.*\n\+ {2}\+ label\/example.com\/gpu=true +RuleMatched/,
  );
  expect(failed.stdout).toMatch(/\n0 passed, 3 failed\n$/);

  expect((await folder.berth("test test.yaml --update")).code).toBe(exitCodes.done);
  const passed = await folder.berth("test test.yaml");
  expect([passed.code, passed.stdout]).toEqual([exitCodes.done, "3 passed, 0 failed\n"]);
  const written = await readFile(path.join(folder.path, "test.yaml"), "utf8");
  expect(written).toContain("    # All cases have it.\n");
  expect(written).toMatch(/- taint\/startup.k8s.io\/initializing:NoSchedule=wait +Released/);
  expect(written).toMatch(/\+ label\/example.com\/agent=true +FootprintNeeded/);
  expect(written).toMatch(/\+ taint\/supported-arch:NoSchedule=amd64 +ArchitectureTainted/);
  expect(written).toMatch(/default\/web +n1 +NoOtherNode/);
  expect(written).not.toContain("Autoscalers");
  await folder.berth("test test.yaml --update");
  expect(await readFile(path.join(folder.path, "test.yaml"), "utf8")).toBe(written);
});

it("shows what a Workload would do beside what is there, and what admission would refuse", async () => {
  const workload = (name: string, size: string): string => `
        - apiVersion: compute.datumapis.com/v1alpha
          kind: Workload
          metadata: {name: ${name}}
          spec:
            template:
              spec:
                runtime:
                  resources: {instanceType: ${size}}
                  sandbox: {containers: [{name: web, image: web.test/web:1}]}
                networkInterfaces: [{network: {name: default}}]
            placements: [{name: us, cityCodes: [DFW], scaleSettings: {minReplicas: 2}}]`;
  const cases = `    - name: a Workload and one that is wrong
      objects:${workload("hello", "datumcloud/d1-standard-2")}${workload("wrong", "none")}
`;
  await using folder = await testFolder({ "rules.yaml": DOCUMENTS, "test.yaml": `${head()}${cases}` });
  await folder.berth("test test.yaml --update");
  const [, written = ""] = (await readFile(path.join(folder.path, "test.yaml"), "utf8")).split("expect: |\n");
  expect(written.replaceAll(/^ {8}/gm, "")).toMatchInlineSnapshot(`
    "node n1
      + label/example.com/gpu=true              RuleMatched  config/gpu  by label/example.com/device
      + taint/supported-arch:NoSchedule=amd64   ArchitectureTainted  config/all  by nodeInfo.architecture=amd64

    1 of 1 node would be written: 2 to set.

    config/driver selects 0 nodes and holds 0.

    config/all (Taint): Tainting: everything tolerates it or has a verdict, so nodes are tainted with their architecture

    config/agent: 0 of 1 node need its agent.

    Workload default/hello

    us in DFW: hello-us-dfw is created
      1.   + hello-us-dfw-0   1 vCPU, 2048 MiB
      2.   + hello-us-dfw-1   1 vCPU, 2048 MiB

    Instances: 2 to create, one after the other in each city. Quota: +2 Instances, +2 vCPUs, +4096 MiB.

    Workload default/wrong: spec.template.spec.runtime.resources.instanceType: Unsupported value: "none": supported values: "datumcloud/d1-standard-2" (FieldValueNotSupported)
    "
  `);
});

it("prints data, and JUnit that stays XML whatever a name holds", async () => {
  const cases = '    - {name: "a <b> & \\u0007"}\n';
  await using folder = await testFolder({
    "rules.yaml": DOCUMENTS,
    "t/test.yaml": head().replace("rules.yaml", "../rules.yaml") + cases,
  });
  const junit = await folder.berth("test t -o junit");
  expect(junit.stdout).toContain('<testsuite name="berth test" tests="1" failures="1">');
  expect(junit.stdout).toContain('<testcase classname="t/test.yaml: rules" name="a &lt;b&gt; &amp; \ufffd">');
  const data = JSON.parse((await folder.berth("test t -o json")).stdout) as {
    readonly cases: readonly object[];
  };
  expect(data.cases).toMatchObject([{ file: "t/test.yaml", test: "rules", passed: false }]);
});

it("writes only what failed: of one name, in the file and the Test that it is about", async () => {
  const passing = `${head("passes")}    - {name: a, expect: ""}\n`.replace(/^ {4}- .*Node.*\n/m, "    []\n");
  const given = `${passing.replace('""', "'none'")}---\n${head("other")}    - name: a\n`;
  await using folder = await testFolder({
    "rules.yaml": "",
    "t/one.yaml": given.replaceAll("rules.yaml", "../rules.yaml"),
    "t/two.yaml": "# Nothing.\n",
  });
  const { code, stdout } = await folder.berth("test t --update");
  expect(code).toBe(exitCodes.done);
  const written = await readFile(path.join(folder.path, "t/one.yaml"), "utf8");
  expect([stdout, written]).toMatchInlineSnapshot(`
    [
      "--- t/one.yaml: a: expected
    +++ written
    -none
    +No changes of nodes: 0 looked at.

    --- t/one.yaml: a: expected
    +++ written
    +No changes of nodes: 1 looked at.

    0 passed, 2 updated
    ",
      "apiVersion: berth.dev/v1alpha1
    kind: Test
    metadata: {name: passes}
    spec:
      documents: [../rules.yaml]
      objects:
        # All cases have it.
        []
      cases:
        - {name: a, expect: "No changes of nodes: 0 looked at.\\n"}
    ---
    apiVersion: berth.dev/v1alpha1
    kind: Test
    metadata: {name: other}
    spec:
      documents: [../rules.yaml]
      objects:
        # All cases have it.
        - {apiVersion: v1, kind: Node, metadata: {name: n1, labels: {example.com/device: x}}, status: {nodeInfo: {architecture: amd64}}}
      cases:
        - name: a
          expect: |
            No changes of nodes: 1 looked at.
    ",
    ]
  `);
  expect(await readFile(path.join(folder.path, "t/two.yaml"), "utf8")).toBe("# Nothing.\n");
  expect((await folder.berth("test t")).stdout).toBe("2 passed, 0 failed\n");
});

it("takes an object of a case instead of one of the file, and namespaces by their names", async () => {
  const rules = `apiVersion: berth.dev/v1alpha1
kind: NodeFootprint
metadata: {name: agent}
spec:
  workloads: [{namespaceSelector: {matchLabels: {NAMESPACE}}}]
  node: {label: {key: example.com/agent}}
`;
  const pod = "{apiVersion: v1, kind: Pod, metadata: {name: p, namespace: shop}, spec: {nodeName: n1}}";
  const shop = "{apiVersion: v1, kind: Namespace, metadata: {name: shop, labels: {team: a}}}";
  const cases = `    - {name: a, objects: [${pod}]}
    - {name: b, objects: [${pod}, ${shop}]}
    - {name: c, objects: [${pod}, {apiVersion: v1, kind: Node, metadata: {name: n1, labels: {example.com/agent: "true"}}}]}
`;
  await using folder = await testFolder({ "test.yaml": head() + cases });
  const agents = async (labels: string): Promise<readonly string[]> => {
    await folder.write("rules.yaml", rules.replace("NAMESPACE", labels));
    const { stdout } = await folder.berth("test test.yaml -o json");
    const { cases: results } = JSON.parse(stdout) as {
      readonly cases: readonly { readonly actual: string }[];
    };
    return results.map(({ actual }) => /^ +\+ label.*?true/m.exec(actual)?.[0].trim() ?? "none");
  };
  const added = "+ label/example.com/agent=true";
  expect(await agents("kubernetes.io/metadata.name: shop")).toEqual([added, added, "none"]);
  expect(await agents("team: a")).toEqual(["none", added, "none"]);
});

it("says that there is no test", async () => {
  await using folder = await testFolder({ "t/none.yaml": "" });
  const { code, stderr } = await folder.berth("test t");
  expect([code, stderr]).toEqual([exitCodes.usage, "berth: there is no test in these files\n"]);
});

const bomb = Array.from(
  { length: 9 },
  (_, at) =>
    `a${at}: &a${at} [${
      at === 0
        ? "x"
        : Array(9)
            .fill(`*a${at - 1}`)
            .join()
    }]`,
);

it.each([
  [
    "an unknown field",
    `${head()}    - {name: a, expects: x}\n`,
    /test.yaml:10:17: error: spec.cases.0.expects: there is no such field/,
  ],
  [
    "an object without a name",
    `${head()}    - {name: a, objects: [{apiVersion: v1, kind: Node, metadata: {}}]}\n`,
    /metadata.name: is required/,
  ],
  ["no case", `${head()}    []\n`, /spec.cases/],
  ["too many cases", head() + "    - {name: a}\n".repeat(10_001), /spec.cases: too big/],
  ["aliases that explode", `${bomb.join("\n")}\n`, /alias/i],
  ["another kind", DOCUMENTS, /kind "LabelRule" is not known; known in berth.dev\/v1alpha1: Test/],
  [
    "documents with a fault",
    `${head().replace("rules.yaml", "none.yaml")}    - {name: a}\n`,
    /none.yaml: not there/,
  ],
])("refuses %s", async (_, text, said) => {
  await using folder = await testFolder({ "rules.yaml": DOCUMENTS, "test.yaml": text });
  const { code, stdout, stderr } = await folder.berth("test test.yaml");
  expect([code, stdout, stderr]).toEqual([exitCodes.faults, "", expect.stringMatching(said)]);
});
