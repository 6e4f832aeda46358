import { readFile } from "node:fs/promises";
import path from "node:path";
import { describe, expect, it } from "vitest";
import { readDocuments } from "./documents.ts";
import { formatFault } from "./fault.ts";

const HEAD = "apiVersion: berth.dev/v1alpha1\nkind: LabelFolder\nmetadata:\n  name: one\n";
const faultsOf = (text: string): readonly string[] => readDocuments("c.yaml", text).faults.map(formatFault);

describe("readDocuments", () => {
  it("reads a LabelFolder", () => {
    const { documents, faults } = readDocuments(
      "c.yaml",
      `${HEAD}spec:\n  path: labels\n  allowReserved: [node-role.kubernetes.io]\n`,
    );
    expect(faults).toEqual([]);
    expect(documents).toEqual([
      {
        file: "c.yaml",
        line: 2,
        column: 7,
        document: {
          kind: "LabelFolder",
          name: "one",
          spec: { path: "labels", allowReserved: ["node-role.kubernetes.io"] },
        },
      },
    ]);
  });

  it("allows nothing reserved unless told", () => {
    const [read] = readDocuments("c.yaml", `${HEAD}spec: {path: labels}\n`).documents;
    expect(read?.document.spec.allowReserved).toEqual([]);
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
        "c.yaml:11:7: error: kind "LabelRool" is not known; known in berth.dev/v1alpha1: LabelFolder (UnknownKind)",
        "c.yaml:13:13: error: apiVersion "v1" is not known; known in berth.dev/v1alpha1: LabelFolder (UnknownKind)",
        "c.yaml:16:1: error: a document must be a map with apiVersion, kind and metadata (InvalidDocument)",
      ]
    `);
  });

  it("names the kinds there are", () => {
    expect(faultsOf("apiVersion: berth.dev/v1alpha1\nkind: Deployment\n")[0]).toContain("LabelFolder");
  });

  it("is total: other people's YAML is a fault and never an exception", () => {
    for (const text of [
      "",
      "null",
      "42",
      "a: &x [*x]",
      "\u0000",
      "? {a: b}\n: c",
      "apiVersion: !!binary aGk=",
    ]) {
      expect(() => readDocuments("c.yaml", text)).not.toThrow();
    }
  });
});

it("the documented example is valid", async () => {
  const reference = await readFile(
    path.join(import.meta.dirname, "../../../../docs/reference/config.md"),
    "utf8",
  );
  const examples = [...reference.matchAll(/```yaml\n(.*?)```/gs)].map(([, text = ""]) => text);
  expect(examples).not.toEqual([]);
  for (const example of examples) expect(faultsOf(example)).toEqual([]);
});
