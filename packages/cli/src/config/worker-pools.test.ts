import { type Documents, formatFault, readConfigFiles, toDocuments } from "@berth/host";
import { PR_134_POOLS, workerPoolsKind } from "@berth/placement";
import { describe, expect, it } from "vitest";
import { documentKinds } from "../kinds.ts";
import { testFolder } from "../testing/harness.ts";

const documentOf = (spec: string, name = "default"): string =>
  `apiVersion: berth.dev/v1alpha1\nkind: WorkerPools\nmetadata: {name: ${name}}\nspec: ${spec}\n`;

const NOTHING = { images: [], namespaces: [], priorityClasses: [] };

async function read(
  text: string,
): Promise<{ readonly settings: Documents; readonly faults: readonly string[] }> {
  await using folder = await testFolder({ "a.yaml": text });
  const files = await readConfigFiles(["a.yaml"], folder.path);
  const { documents: settings, faults } = toDocuments(files, documentKinds);
  return { settings, faults: faults.map(formatFault) };
}

describe("WorkerPools", () => {
  it("are not served without a document", async () => {
    const { settings } = await read("");
    expect(settings.specOf(workerPoolsKind)).toBeUndefined();
  });

  it("are made as agent-substrate itself makes them without a field", async () => {
    const { settings, faults } = await read(documentOf("{}"));
    expect(faults).toEqual([]);
    expect(settings.specOf(workerPoolsKind)).toEqual({ allow: NOTHING, workerPoolUid: false });
  });

  it("are those of pull request 134 with label and wait", async () => {
    const { settings } = await read(documentOf("{uidLabel: true, wait: {}}"));
    expect(settings.specOf(workerPoolsKind)).toEqual({ allow: NOTHING, ...PR_134_POOLS });
  });

  it("wait with an image and at a port of one's own", async () => {
    const { settings } = await read(
      documentOf("{wait: {image: 'mirror.example/busybox@sha256:1', port: 9}}"),
    );
    expect(settings.specOf(workerPoolsKind)?.wait).toEqual({
      name: "wait-for-atelet",
      image: "mirror.example/busybox@sha256:1",
      port: 9,
    });
  });

  it("S-9 allow what they list, and take no beginning of the name of a host", async () => {
    const { settings } = await read(
      documentOf("{allow: {images: [registry.example/], namespaces: [a], priorityClasses: [low]}}"),
    );
    expect(settings.specOf(workerPoolsKind)?.allow).toEqual({
      images: ["registry.example/"],
      namespaces: ["a"],
      priorityClasses: ["low"],
    });
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
