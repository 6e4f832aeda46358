/** The CRDs on a real API server: it takes them, and accepts of each document exactly what our schema accepts. */
import { type ServedKind, toCustomResourceDefinition } from "@berth/host";
import { customResourceDefinitions, type KubeClient } from "@berth/kube";
import { eventually, sharedTestCluster, type TestCluster } from "@berth/testcluster";
import * as fc from "fast-check";
import { beforeAll, describe, expect, it } from "vitest";
import { tableOf, tryToCreate, type Verdict } from "../../../kube/src/testing/kubectl.ts";
import * as exported from "../index.ts";
import { labelRuleSpec } from "../labels/document.ts";
import { labelRules } from "../labels/resource.ts";
import { product } from "./group.ts";
import { invalidSpecs, validSpecs } from "./testing/label-rule-cases.ts";
import { anySpec } from "./testing/label-rule-specs.ts";
import { invalidFootprints, validFootprints } from "./testing/node-footprint-cases.ts";

/** All that the package exports. */
const kinds = Object.values<unknown>(exported).filter(
  (it): it is ServedKind => typeof it === "object" && it !== null && "resource" in it && "whenAway" in it,
);
const crds = kinds.map((kind) => toCustomResourceDefinition(kind, product));
let cluster: TestCluster;
let client: KubeClient;

beforeAll(async () => {
  cluster = await sharedTestCluster();
  client = cluster.client;
  for (const crd of crds) await client.apply(customResourceDefinitions, crd);
  await eventually(async () => {
    for (const crd of crds) await whenEstablished(crd.metadata?.name ?? "");
    await client.list(labelRules);
  });
});

/** @throws Error until the API server serves it. */
async function whenEstablished(name: string): Promise<void> {
  const { status } = await client.get(customResourceDefinitions, { name });
  const established = status?.conditions?.find(({ type }) => type === "Established");
  if (established?.status !== "True") throw new Error(`${name} is not established`);
}

const PATH = "/apis/berth.dev/v1alpha1/labelrules";

function judge(spec: unknown, kind = "LabelRule", path = PATH): Promise<Verdict> {
  const object = { apiVersion: "berth.dev/v1alpha1", kind, metadata: { name: "tried" }, spec };
  return tryToCreate(cluster, path, object);
}

/** `spec.labels[0].key`, as the API server writes a path. */
function pathOf(path: readonly PropertyKey[]): string {
  return path.reduce<string>(
    (text, part) => (typeof part === "number" ? `${text}[${part}]` : `${text}.${String(part)}`),
    "spec",
  );
}

/** Where our schema finds fault. */
function faultsOf(spec: unknown): readonly string[] {
  const issues = labelRuleSpec.safeParse(spec).error?.issues ?? [];
  return issues.flatMap((issue) =>
    issue.code === "unrecognized_keys"
      ? issue.keys.map((key) => pathOf([...issue.path, key]))
      : [pathOf(issue.path)],
  );
}

describe("the CRD of LabelRule", () => {
  it.each(validSpecs)("accepts $what, with the defaults of our schema", async ({ spec }) => {
    const verdict = await judge(spec);
    expect(verdict).toMatchObject({ accepted: true, object: { spec: labelRuleSpec.parse(spec) } });
  });

  it.each(invalidSpecs)("refuses $what at $field, as our schema does", async ({ spec, field }) => {
    expect(faultsOf(spec)).toContain(field);
    const verdict = await judge(spec);
    expect(verdict).toMatchObject({ accepted: false, message: expect.stringContaining(field) as string });
  });

  it("comes to our verdict on anything", async () => {
    let accepted = 0;
    await fc.assert(
      fc.asyncProperty(anySpec, async (spec) => {
        const ours = faultsOf(spec);
        const theirs = await judge(spec);
        if (ours.length === 0) accepted++;
        expect({ accepted: theirs.accepted, theirs }).toEqual({ accepted: ours.length === 0, theirs });
      }),
      { numRuns: 150, endOnFailure: true },
    );
    expect(accepted).toBeGreaterThan(10);
  });

  it("shows first label, counts and condition to kubectl get", async () => {
    const name = "shown";
    const rule = { metadata: { name }, spec: { match: {}, labels: [{ key: "example.com/all" }] } };
    await client.create(labelRules, rule);
    const condition = {
      type: "Ready",
      status: "True",
      reason: "InForce",
      message: "ok",
      lastTransitionTime: "2026-11-21T10:00:00Z",
      observedGeneration: 1,
    };
    const status = { observedGeneration: 1, matchedNodes: 7, firstNodes: ["a"], conditions: [condition] };
    const body = { status };
    await client.patch(labelRules, { name }, { type: "merge", body }, { subresource: "status" });
    const stored = await client.get(labelRules, { name });
    expect(stored.status).toEqual(status);
    const { columnDefinitions, rows } = await tableOf(cluster, `${PATH}/${name}`);
    const shown = Object.fromEntries(
      columnDefinitions.map((column, at) => [column.name, rows[0]?.cells[at]]),
    );
    expect(shown).toMatchObject({
      Name: name,
      Label: "example.com/all",
      Matched: 7,
      Ready: "True",
      Reason: "InForce",
      "Dry-Run": false,
    });
    await client.delete(labelRules, { name });
  });

  it("takes no status with more names than a status lists", async () => {
    const name = "names";
    await client.create(labelRules, {
      metadata: { name },
      spec: { match: {}, labels: [{ key: "example.com/x" }] },
    });
    const body = { status: { firstNodes: ["1", "2", "3", "4", "5", "6"] } };
    const patched = client.patch(labelRules, { name }, { type: "merge", body }, { subresource: "status" });
    await expect(patched).rejects.toMatchObject({ failure: { kind: "invalid" } });
    await client.delete(labelRules, { name });
  });
});

describe("the CRD of NodeFootprint", () => {
  const path = "/apis/berth.dev/v1alpha1/nodefootprints";

  it.each(validFootprints)("accepts $what, and adds nothing", async ({ spec }) => {
    expect(await judge(spec, "NodeFootprint", path)).toMatchObject({ accepted: true, object: { spec } });
  });

  it.each(invalidFootprints)("refuses $what at $field, as our schema does", async ({ spec, field }) => {
    const message = expect.stringContaining(field) as string;
    expect(await judge(spec, "NodeFootprint", path)).toMatchObject({ accepted: false, message });
  });
});
