import path from "node:path";
import { formatFault, readConfigFiles, toDocuments } from "@berth/host";
import { architecturePolicyKind, defaultImageRegistries, imageRegistriesKind } from "@berth/placement";
import { describe, expect, it } from "vitest";
import { documentKinds } from "../kinds.ts";
import { testFolder } from "../testing/harness.ts";

const HEAD = "apiVersion: berth.dev/v1alpha1\nkind: ImageRegistries\nmetadata: {name: default}\n";

async function read(given: Readonly<Record<string, string>>) {
  await using folder = await testFolder(given);
  const files = await readConfigFiles(["."], folder.path);
  const { documents: settings, faults } = toDocuments(files, documentKinds);
  return { settings, faults, folder: folder.path };
}

describe("ImageRegistries", () => {
  it("has defaults for everything", async () => {
    const { settings, faults } = await read({ "a.yaml": `${HEAD}spec: {}\n` });
    expect(faults).toEqual([]);
    expect(settings.specOf(imageRegistriesKind)).toEqual(defaultImageRegistries);
    const times = { tagTtl: "6h", alwaysTtl: "5m", timeout: "10s" };
    expect(defaultImageRegistries).toEqual({ registries: [], ...times });
  });

  it("has paths that start at the folder of its file", async () => {
    const { settings, faults, folder } = await read({
      "conf/a.yaml": `${HEAD}spec:
  dockerConfig: secrets/config.json
  registries:
    - registry: registry.example:5000
      mirrors: ["https://mirror.example/hub", "http://127.0.0.1:5000"]
      certificateAuthority: ../ca.pem
    - { registry: "[::1]:5000", plainHttp: true }
`,
    });
    expect(faults).toEqual([]);
    expect(settings.specOf(imageRegistriesKind)).toMatchObject({
      dockerConfig: path.join(folder, "conf/secrets/config.json"),
      registries: [
        {
          registry: "registry.example:5000",
          mirrors: ["https://mirror.example/hub", "http://127.0.0.1:5000"],
          certificateAuthority: path.join(folder, "ca.pem"),
          plainHttp: false,
        },
        { registry: "[::1]:5000", mirrors: [], plainHttp: true },
      ],
    });
  });

  it("tells each fault with its place", async () => {
    const { faults } = await read({
      "a.yaml": `${HEAD}spec:
  timeout: 0s
  tagTtl: soon
  registries:
    - registry: https://docker.io
    - registry: docker.io
      mirrors: ["https://me:secret@mirror.example", "mirror.example", "https://mirror.example/path", "https://mirror.example?a"]
    - registry: ghcr.io
    - registry: ghcr.io
    - registry: index.docker.io
    - registry: hub
  allowedRegistries: [docker.io/library, "*.example:5000/team", "[::1]:5000", "https://ghcr.io", index.docker.io, ghcr.io/, "ghcr.io/Team"]
`,
    });
    expect(faults.map(formatFault)).toMatchInlineSnapshot(`
      [
        "a.yaml:5:12: error: spec.timeout: must be more than 0s and at most 5m (InvalidDocument)",
        "a.yaml:6:11: error: spec.tagTtl: must be a duration such as 90s, 5m or 1h30m (InvalidDocument)",
        "a.yaml:8:17: error: spec.registries.0.registry: must be a registry as image names have it: docker.io, registry.example:5000 (InvalidDocument)",
        "a.yaml:10:17: error: spec.registries.1.mirrors.0: must be http:// or https:// and a host, without user and query (InvalidDocument)",
        "a.yaml:10:53: error: spec.registries.1.mirrors.1: must be http:// or https:// and a host, without user and query (InvalidDocument)",
        "a.yaml:10:102: error: spec.registries.1.mirrors.3: must be http:// or https:// and a host, without user and query (InvalidDocument)",
        "a.yaml:12:17: error: spec.registries.3.registry: ghcr.io is listed twice (InvalidDocument)",
        "a.yaml:13:17: error: spec.registries.4.registry: never names a registry in an image name: use docker.io for the Hub, and for a name with neither dot nor port (InvalidDocument)",
        "a.yaml:14:17: error: spec.registries.5.registry: never names a registry in an image name: use docker.io for the Hub, and for a name with neither dot nor port (InvalidDocument)",
        "a.yaml:15:79: error: spec.allowedRegistries.3: must be a registry, with * for parts of its name, and a path or none: *.example.com/team (InvalidDocument)",
        "a.yaml:15:98: error: spec.allowedRegistries.4: never names a registry in an image name: use docker.io for the Hub, and for a name with neither dot nor port (InvalidDocument)",
        "a.yaml:15:115: error: spec.allowedRegistries.5: must be a registry, with * for parts of its name, and a path or none: *.example.com/team (InvalidDocument)",
        "a.yaml:15:125: error: spec.allowedRegistries.6: must be a registry, with * for parts of its name, and a path or none: *.example.com/team (InvalidDocument)",
      ]
    `);
  });

  it("may stand beside the kubelet's file that it names, and is none of it", async () => {
    const kubelet = "apiVersion: kubelet.config.k8s.io/v1\nkind: ";
    const { faults } = await read({
      "a.yaml": `${HEAD}spec: {timeout: 1s}\n`,
      "b.yaml": `${kubelet}CredentialProviderConfig\n`,
      "c.yaml": `${kubelet}ImageRegistries\n`,
    });
    expect(faults.map(({ file, reason }) => [file, reason])).toEqual([["c.yaml", "UnknownKind"]]);
  });

  it("is there once", async () => {
    const { faults, settings } = await read({
      "a.yaml": `${HEAD}spec: {timeout: 1s}\n`,
      "b.yaml": `${HEAD.replace("default", "other")}spec: {timeout: 2s}\n`,
    });
    expect(settings.specOf(imageRegistriesKind)?.timeout).toBe("1s");
    expect(faults.map(formatFault)).toEqual([
      "b.yaml:2:7: error: other: there can be one ImageRegistries, and there is already one in a.yaml (DuplicateDocument)",
    ]);
  });
});

it("architecture policies are read of all files with their places", async () => {
  const policy = (name: string): string =>
    `apiVersion: berth.dev/v1alpha1\nkind: ArchitecturePolicy\nmetadata: {name: ${name}, annotations: {berth.dev/bootstrap-confirmed: "true"}}\nspec: {mode: Taint}\n`;
  const { settings, faults } = await read({
    "a.yaml": `${policy("one")}---\n${policy("two")}`,
    "b.yaml": policy("one"),
  });
  const policies = settings.documentsOf(architecturePolicyKind);
  expect(policies.map(({ file, line, name }) => ({ file, line, name }))).toEqual([
    { file: "a.yaml", line: 2, name: "one" },
    { file: "a.yaml", line: 7, name: "two" },
  ]);
  expect(policies[0]).toMatchObject({
    annotations: { "berth.dev/bootstrap-confirmed": "true" },
    spec: { mode: "Taint", taint: { key: "supported-arch", nodes: "Taint" }, unresolvable: "Open" },
  });
  expect(policies[0]?.positionOf(["mode"])).toEqual({ line: 4, column: 14 });
  expect(faults.map(formatFault)).toEqual([
    "b.yaml:2:7: error: ArchitecturePolicy one is already in a.yaml:2 (DuplicateDocument)",
  ]);
});
