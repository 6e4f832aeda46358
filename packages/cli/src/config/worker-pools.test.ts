import { formatFault, readConfigFiles, toDocuments } from "@berth/host";
import { PR_134_POOLS, workerPoolsKind } from "@berth/placement";
import { describe, expect, it } from "vitest";
import { documentKinds } from "../kinds.ts";
import { testFolder } from "../testing/harness.ts";

const documentOf = (spec: string, name = "default"): string =>
  `apiVersion: berth.dev/v1alpha1\nkind: WorkerPools\nmetadata: {name: ${name}}\nspec: ${spec}\n`;

const NOTHING = { images: [], namespaces: [], priorityClasses: [] };

async function read(text: string) {
  await using folder = await testFolder({ "a.yaml": text });
  const { documents, faults } = toDocuments(await readConfigFiles(["a.yaml"], folder.path), documentKinds);
  return { spec: documents.specOf(workerPoolsKind), faults: faults.map(formatFault) };
}

const LISTED = { images: ["registry.example/"], namespaces: ["a"], priorityClasses: ["low"] };
const MIRROR = "mirror.example/busybox@sha256:1";

describe("WorkerPools", () => {
  it.each([
    ["are not served without a document", "", undefined],
    [
      "are made as agent-substrate itself makes them without a field",
      "{}",
      { allow: NOTHING, workerPoolUid: false },
    ],
    [
      "are those of pull request 134 with label and wait",
      "{uidLabel: true, wait: {}}",
      { allow: NOTHING, ...PR_134_POOLS },
    ],
    [
      "wait with an image and at a port of one's own",
      `{wait: {image: '${MIRROR}', port: 9}}`,
      expect.objectContaining({ wait: { name: "wait-for-atelet", image: MIRROR, port: 9 } }),
    ],
    [
      "S-9 allow what they list",
      `{allow: ${JSON.stringify(LISTED)}}`,
      { allow: LISTED, workerPoolUid: false },
    ],
  ])("%s", async (_does, spec, expected) => {
    expect(await read(spec && documentOf(spec))).toEqual({ spec: expected, faults: [] });
  });

  it("S-9 take no beginning of the name of a host", async () => {
    const { faults } = await read(documentOf("{allow: {images: [registry.example]}}"));
    expect(faults).toEqual([expect.stringContaining("must be a registry, a slash and what may follow")]);
  });

  it("tell what is wrong with each field", async () => {
    const { faults } = await read(documentOf("{uidLabel: 1, wait: {name: Wait, port: 0}, replicas: 1}"));
    expect(faults).toEqual([
      expect.stringMatching(/^a\.yaml:4:18: error: spec\.uidLabel: /),
      "a.yaml:4:34: error: spec.wait.name: must be the name of a container (InvalidDocument)",
      expect.stringMatching(/spec\.wait\.port: /),
      expect.stringMatching(/spec\.replicas: there is no such field/),
    ]);
  });

  it("are said in one document", async () => {
    const { faults } = await read(`${documentOf("{}")}---\n${documentOf("{}", "other")}`);
    expect(faults).toEqual([
      "a.yaml:7:7: error: other: there can be one WorkerPools, and there is already one in a.yaml (DuplicateDocument)",
    ]);
  });
});
