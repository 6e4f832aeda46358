import { globSync, readFileSync } from "node:fs";
import path from "node:path";
import { formatFault, type ReadDocuments, readDocuments } from "@berth/host";
import { labelFolderKind, labelRuleKind, labelRuleSpec } from "@berth/placement";
import { describe, expect, it } from "vitest";
import { documentKinds } from "../kinds.ts";

const HEAD = "apiVersion: berth.dev/v1alpha1\nkind: LabelFolder\nmetadata:\n  name: one\n";
const RULE = "apiVersion: berth.dev/v1alpha1\nkind: LabelRule\nmetadata:\n  name: one\n";

/** As `kubectl get labelrules -o yaml` prints two of them. */
const STORED_RULES = `apiVersion: v1
kind: List
items:
- apiVersion: berth.dev/v1alpha1
  kind: LabelRule
  metadata:
    annotations: {example.com/note: by hand}
    creationTimestamp: "2026-11-21T10:00:00Z"
    generation: 1
    name: gpu.example
    uid: 95a24ab4-f09b-4679-a319-6c10f75f8bf4
  spec:
    labels:
    - {   key: example.com/gpu}
    match: {}
  status: {matchedNodes: 3}
---
apiVersion: berth.dev/v1alpha1
kind: LabelRuleList
items:
- apiVersion: berth.dev/v1alpha1
  kind: LabelRule
  metadata: {name: two, resourceVersion: "7"}
  spec: {match: {all: [{key: kubernetes.io/arch, operator: In, values: [arm64]}]}, labels: [{key: a}]}
metadata: {resourceVersion: "9"}
`;
const read = (text: string): ReadDocuments => readDocuments("c.yaml", text, documentKinds);
const faultsOf = (text: string): readonly string[] => read(text).faults.map(formatFault);

describe("readDocuments", () => {
  it("reads a LabelFolder", () => {
    const { documents, faults } = read(`${HEAD}spec: {path: labels, allowReserved: [k8s.io]}\n`);
    expect(faults).toEqual([]);
    expect(documents).toEqual([
      {
        file: "c.yaml",
        line: 2,
        column: 7,
        positionOf: expect.any(Function) as unknown,
        kind: labelFolderKind,
        name: "one",
        annotations: {},
        spec: { path: "labels", shown: "labels", options: { allowReserved: ["k8s.io"], format: "Plain" } },
      },
    ]);
  });

  it("allows nothing reserved unless told", () => {
    const [document] = read(`${HEAD}spec: {path: labels}\n`).documents;
    expect(document?.spec).toMatchObject({ options: { allowReserved: [], format: "Plain" } });
  });

  it("tells all faults of all documents at once, with line and column", () => {
    const text = [
      HEAD,
      "spec:\n  path: ''\n  colour: red\n  allowReserved: [example.com]\n",
      "---\napiVersion: berth.dev/v1alpha1\nkind: LabelRool\n",
      "---\napiVersion: v1\nkind: LabelFolder\n",
      "---\n- just a list\n",
      "---\nkind: [\n",
    ].join("");
    expect(faultsOf(text)).toMatchInlineSnapshot(`
      [
        "c.yaml:19:1: error: Flow sequence in block collection must be sufficiently indented and end with a ] (NotYaml)",
        "c.yaml:6:9: error: spec.path: must not be empty (InvalidDocument)",
        "c.yaml:8:19: error: spec.allowReserved.0: must be a label key or a domain under kubernetes.io or k8s.io (InvalidDocument)",
        "c.yaml:7:3: error: spec.colour: there is no such field (InvalidDocument)",
        "c.yaml:11:7: error: kind "LabelRool" is not known; known in berth.dev/v1alpha1: LabelFolder, LabelRule, StartupGate, ArchitecturePolicy, ImageRegistries, NodeFootprint, WorkerPools, DeschedulePolicy, NodeNotifier, Fleet, AdmissionServer (UnknownKind)",
        "c.yaml:13:13: error: apiVersion "v1" is not known; known in berth.dev/v1alpha1: LabelFolder, LabelRule, StartupGate, ArchitecturePolicy, ImageRegistries, NodeFootprint, WorkerPools, DeschedulePolicy, NodeNotifier, Fleet, AdmissionServer (UnknownKind)",
        "c.yaml:16:1: error: a document must be a map with apiVersion, kind and metadata (InvalidDocument)",
      ]
    `);
  });

  it("reads a LabelRule as the API server would, from its own output as well", () => {
    const { documents, faults } = read(STORED_RULES);
    expect(faults).toEqual([]);
    expect(documents).toMatchObject([
      {
        kind: labelRuleKind,
        name: "gpu.example",
        annotations: { "example.com/note": "by hand" },
        spec: labelRuleSpec.parse({ match: {}, labels: [{ key: "example.com/gpu" }] }),
      },
      { kind: labelRuleKind, name: "two", annotations: {}, spec: expect.any(Object) as unknown },
    ]);
    const [first, second] = documents;
    expect(first).toMatchObject({ line: 5, column: 9 });
    expect(first?.positionOf(["labels", 0, "key"])).toEqual({ line: 14, column: 16 });
    expect(second?.positionOf(["match", "all", 0, "values", 0])).toEqual({ line: 24, column: 73 });
  });

  it("takes a field that is null for one that is not there, as the API server does", () => {
    const text = `${RULE}spec:\n  match: {any: }\n  overwrite:\n  labels: [{key: a/b, value: }]\n`;
    const { documents, faults } = read(text);
    expect(faults).toEqual([]);
    expect(documents[0]?.spec).toEqual(labelRuleSpec.parse({ match: {}, labels: [{ key: "a/b" }] }));
    expect(faultsOf(`${RULE}spec:\n  match:\n  labels: [null]\n  colour:\n`)).toEqual([
      "c.yaml:6:9: error: spec.match: is required (InvalidDocument)",
      "c.yaml:7:12: error: spec.labels.0: invalid input: expected object, received null (InvalidDocument)",
      "c.yaml:8:3: error: spec.colour: there is no such field (InvalidDocument)",
    ]);
  });

  it("tells each fault of a LabelRule with its place", () => {
    const text = `${RULE.replace("one", "Not_DNS")}  annotations: {a: 1}
spec:
  match: {all: [{key: a, operator: In}, {any: [{key: b, op: In}]}]}
  labels: [{key: a b}, {key: c, value: x-}]
  removalDelay: 60
`;
    expect(faultsOf(text)).toMatchInlineSnapshot(`
      [
        "c.yaml:4:9: error: metadata.name: must be a DNS subdomain: lower-case letters, digits, - and . (InvalidDocument)",
        "c.yaml:5:20: error: metadata.annotations.a: invalid input: expected string, received number (InvalidDocument)",
        "c.yaml:7:17: error: spec.match.all.0: In and NotIn need values (InvalidDocument)",
        "c.yaml:7:57: error: spec.match.all.1.any.0.op: there is no such field (InvalidDocument)",
        "c.yaml:8:18: error: spec.labels.0.key: the name must begin and end with a letter or digit and hold only letters, digits, \`-\`, \`_\` and \`.\` (InvalidDocument)",
        "c.yaml:8:40: error: spec.labels.1.value: the value must begin and end with a letter or digit and hold only letters, digits, \`-\`, \`_\` and \`.\` (InvalidDocument)",
        "c.yaml:9:17: error: spec.removalDelay: invalid input: expected string, received number (InvalidDocument)",
      ]
    `);
  });

  it("is total: other people's YAML is a fault and never an exception", () => {
    const texts = ["", "null", "42", "a: &x [*x]", "\u0000", "? {a: b}\n: c", "apiVersion: !!binary aGk="];
    for (const text of texts) expect(() => read(text)).not.toThrow();
  });
});

const root = path.join(import.meta.dirname, "../../../..");
const pages = ["docs/*/*.md", "packages/placement/src/*/README.md", "packages/fleet/README.md"].flatMap(
  (pattern) => globSync(pattern, { cwd: root }),
);
/** The documents of Berth that pages show, each with its page. Guides run a Test, and a Cell is none. */
const shown = pages.flatMap((page) => {
  const blocks = readFileSync(path.join(root, page), "utf8").matchAll(/^( *)```yaml\n([\s\S]*?)^\1```$/gm);
  return [...blocks]
    .map(([, indent = "", body = ""]) => ({
      page,
      text: body.replaceAll(new RegExp(`^${indent}`, "gm"), ""),
    }))
    .filter(({ text }) => /^(?:#.*\n)*apiVersion: berth\.dev\/\S+\nkind: (?!(?:Test|Cell)\b)/.test(text));
});

it("every document that a page shows is valid", () => {
  expect(new Set(shown.map(({ page }) => page))).toContain("docs/reference/config.md");
  for (const { page, text } of shown) expect({ page, faults: faultsOf(text) }).toEqual({ page, faults: [] });
});
