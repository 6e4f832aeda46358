import * as fc from "fast-check";
import { describe, expect, it } from "vitest";
import { MAX_INDEX_ENTRIES, type ParsedManifest, parseImageConfig, parseManifest } from "./manifest.ts";
import { platformText } from "./platform.ts";
import {
  bytesOf,
  DOCKER_CONFIG,
  DOCKER_LIST,
  DOCKER_MANIFEST,
  digestOf,
  entry,
  HELM_CONFIG,
  imageOf,
  indexOf,
  linux,
  OCI_CONFIG,
  OCI_INDEX,
  OCI_MANIFEST,
  platformsOf,
  SCHEMA_1,
  whyOf,
} from "./testing/manifests.ts";

describe("A-P6 the four kinds of manifest", () => {
  it.each([
    ["an OCI index", OCI_INDEX, OCI_MANIFEST],
    ["a Docker v2 list", DOCKER_LIST, DOCKER_MANIFEST],
  ])("%s", (_, mediaType, type) => {
    const entries = [entry(linux("amd64"), { type }), entry(linux("arm64", "v8"), { type })];
    const platforms = ["amd64", "arm64"].map((architecture) => ({ os: "linux", architecture }));
    const parsed = parseManifest(bytesOf(indexOf(entries, { mediaType })), mediaType);
    expect(parsed).toEqual({ kind: "index", platforms, children: [] });
  });

  it.each([
    ["an OCI manifest", OCI_MANIFEST, OCI_CONFIG],
    ["a Docker v2 manifest", DOCKER_MANIFEST, DOCKER_CONFIG],
    ["a manifest of Docker 1.10", DOCKER_MANIFEST, "application/octet-stream"],
  ])("%s", (_, mediaType, configType) => {
    const manifest = imageOf({ mediaType: configType }, { mediaType });
    expect(parseManifest(bytesOf(manifest), mediaType)).toEqual({
      kind: "image",
      config: { digest: digestOf(2), mediaType: configType, size: 100 },
    });
  });

  it("a manifest that says its platform itself", () => {
    const manifest = imageOf({ platform: { os: "linux", architecture: "aarch64" } });
    expect(parseManifest(bytesOf(manifest), OCI_MANIFEST)).toMatchObject({
      kind: "image",
      platform: { os: "linux", architecture: "arm64" },
    });
  });

  it.each(["application/json; charset=utf-8", "application/octet-stream", "", "text/plain"])(
    "goes by the document where the header says %j",
    (header) => {
      expect(parseManifest(bytesOf(indexOf([])), header).kind).toBe("index");
      expect(parseManifest(bytesOf({ ...imageOf({}), mediaType: undefined }), header).kind).toBe("image");
    },
  );

  it("goes by the header where the document is silent, whatever its case and parameters", () => {
    const header = `${OCI_INDEX.toUpperCase()}; charset=utf-8`;
    expect(parseManifest(bytesOf({ schemaVersion: 2, manifests: [] }), header).kind).toBe("index");
  });
});

describe("platforms of an index", () => {
  const attestation = { annotations: { "vnd.docker.reference.type": "attestation-manifest" } };
  const unknown = { os: "unknown", architecture: "unknown" };
  const arms = [linux("arm", "v7"), linux("arm", "v6"), linux("amd64"), linux("arm", "7")];
  const again = [linux("x86_64", "v1"), linux("arm64", "v8"), linux("arm64")];
  const noImages = [
    entry(linux("amd64")),
    entry(unknown, { more: attestation }),
    entry(linux("s390x"), { more: attestation }),
    entry(unknown),
    entry(linux("riscv64"), { more: { artifactType: "application/vnd.example.sbom" } }),
    entry(undefined),
    entry(null),
    entry({ os: "linux" }),
    entry({ os: "linux", architecture: 7 }),
    entry(undefined, { type: OCI_INDEX }),
    "garbage",
    null,
  ];
  const typed = entry(linux("arm64"), { more: { artifactType: OCI_CONFIG } });
  const nested = entry(linux("arm64"), { type: OCI_INDEX });

  it.each<readonly [string, readonly unknown[], readonly string[]]>([
    ["A-B6 leaves out attestations, artifacts and entries without a platform", noImages, ["linux/amd64"]],
    ["keeps an entry whose artifact type is that of an image", [typed], ["linux/arm64"]],
    ["keeps an index within an index that names its platform", [nested], ["linux/arm64"]],
    [
      "names each platform once, in the order of the index, and variants apart",
      [...arms, ...again].map((platform) => entry(platform)),
      ["linux/arm/v7", "linux/arm/v6", "linux/amd64", "linux/arm64"],
    ],
  ])("%s", (_, entries, platforms) => {
    expect(platformsOf(indexOf(entries))).toEqual(platforms);
  });

  it("keeps versions of Windows apart, and those of others not", () => {
    const windows = (version: string): object =>
      entry({ os: "windows", architecture: "amd64", "os.version": version });
    const versions = ["10.0.17763.5329", "10.0.20348.2227", "10.0.17763.5329"];
    const list = indexOf([...versions.map(windows), entry({ ...linux("amd64"), "os.version": "6.1" })]);
    expect(parseManifest(bytesOf(list), OCI_INDEX)).toMatchObject({
      platforms: [
        { os: "windows", architecture: "amd64", osVersion: "10.0.17763.5329" },
        { os: "windows", architecture: "amd64", osVersion: "10.0.20348.2227" },
        { os: "linux", architecture: "amd64" },
      ],
    });
  });

  it.each([
    [{ os: "linux", architecture: "x86_64" }, "linux/amd64"],
    [{ os: "linux", architecture: "x86-64" }, "linux/amd64"],
    [{ os: "linux", architecture: "amd64", variant: "v3" }, "linux/amd64/v3"],
    [{ os: "linux", architecture: "i386", variant: "v1" }, "linux/386"],
    [{ os: "linux", architecture: "aarch64", variant: "8" }, "linux/arm64"],
    [{ os: "linux", architecture: "arm64", variant: "v9" }, "linux/arm64/v9"],
    [{ os: "linux", architecture: "armhf" }, "linux/arm/v7"],
    [{ os: "linux", architecture: "armel" }, "linux/arm/v6"],
    [{ os: "linux", architecture: "arm", variant: "5" }, "linux/arm/v5"],
    [{ os: "linux", architecture: "arm" }, "linux/arm"],
    [{ os: "Linux", architecture: "ARM64" }, "linux/arm64"],
    [{ os: "macos", architecture: "arm64" }, "darwin/arm64"],
    [{ architecture: "ppc64le" }, "linux/ppc64le"],
    [{ os: "linux", architecture: "s390x", variant: { no: "text" } }, "linux/s390x"],
  ])("%j is %s", (platform, text) => {
    expect(platformsOf(indexOf([entry(platform)]))).toEqual([text]);
  });

  it.each(["amd64\n", "-amd64", "a b", "x".repeat(64), "", "ärm", "unknown", "UNKNOWN"])(
    "leaves out %j, which no label can hold or no node is",
    (architecture) => {
      expect(platformsOf(indexOf([entry({ os: "linux", architecture })]))).toEqual([]);
    },
  );
});

describe("an index that names no platform at all", () => {
  const children = (entries: readonly unknown[]): readonly string[] => {
    const parsed = parseManifest(bytesOf(indexOf(entries)), OCI_INDEX);
    return parsed.kind === "index" ? parsed.children : [];
  };

  it.each<readonly [string, readonly unknown[], readonly number[]]>([
    ["at most four", [1, 2, 2, 3, 4, 5, 6].map((digit) => entry(undefined, { digit })), [1, 2, 3, 4]],
    [
      "no attestation, no artifact, no index and nothing without a digest",
      [
        entry(undefined, { more: { annotations: { "vnd.docker.reference.type": "attestation-manifest" } } }),
        entry(undefined, { more: { artifactType: "application/vnd.example.sbom" } }),
        entry(undefined, { type: OCI_INDEX }),
        entry(undefined, { more: { digest: "../../etc/passwd" } }),
        entry(undefined, { digit: 7, type: DOCKER_MANIFEST }),
      ],
      [7],
    ],
    ["none where one entry names a platform", [entry(undefined), entry(linux("amd64"))], []],
    ["none where that is unknown", [entry(undefined), entry({ os: "unknown", architecture: "unknown" })], []],
  ])("says which of its images would have to be read: %s", (_, entries, digits) => {
    expect(children(entries)).toEqual(digits.map(digestOf));
  });
});

describe("what is refused", () => {
  it.each([
    ["schema 1 by its header", "{", `${SCHEMA_1}+prettyjws`, /schema 1, which is not supported/],
    ["schema 1 by its version", { schemaVersion: 1, architecture: "amd64" }, "application/json", /schema 1/],
    ["schema 1 by its own type", { mediaType: `${SCHEMA_1}+json` }, "", /schema 1/],
    ["garbage", "<html>secret</html>", OCI_INDEX, /^its manifest is no JSON$/],
    ["half a document", '{"manifests":[', OCI_INDEX, /no JSON/],
    ["a list", [], OCI_INDEX, /no JSON object/],
    ["null", "null", OCI_INDEX, /no JSON object/],
    ["an object of no kind", {}, "application/json", /neither an index nor a manifest/],
    ["CVE-2021-41190: an index with layers", indexOf([], { layers: [] }), OCI_INDEX, /both as an index and/],
    ["CVE-2021-41190: an image with entries", imageOf({}, { manifests: [] }), OCI_MANIFEST, /both/],
    ["CVE-2021-41190: another type than the header", indexOf([]), OCI_MANIFEST, /both/],
    ["an index without a list", indexOf([], { manifests: {} }), OCI_INDEX, /no list of manifests/],
    ["an index without entries", { mediaType: OCI_INDEX }, OCI_INDEX, /no list of manifests/],
    ["an image without a config", { mediaType: OCI_MANIFEST, layers: [] }, OCI_MANIFEST, /no config/],
    ["a config without a digest", imageOf({ digest: "sha256:1" }), OCI_MANIFEST, /digest of its config/],
    ["a config with a path for a digest", imageOf({ digest: "../x" }), OCI_MANIFEST, /digest of its config/],
    ["a config of negative size", imageOf({ size: -1 }), OCI_MANIFEST, /size of its config/],
    ["a config of endless size", imageOf({ size: 1e300 }), OCI_MANIFEST, /size of its config/],
  ])("%s", (_, value, mediaType, why) => {
    expect(whyOf(parseManifest(bytesOf(value), mediaType))).toMatch(why);
  });

  it("10,000 entries, and every number above 1,000", () => {
    const many = (count: number): ParsedManifest =>
      parseManifest(bytesOf(indexOf(Array.from({ length: count }, () => entry(linux("amd64"))))), OCI_INDEX);
    expect(many(MAX_INDEX_ENTRIES)).toMatchObject({ kind: "index", platforms: [{ architecture: "amd64" }] });
    expect(whyOf(many(MAX_INDEX_ENTRIES + 1))).toMatch(/1001 entries, more than the 1000/);
    expect(whyOf(many(10_000))).toMatch(/more than 40000 elements/);
  });

  it("S-6 a document that takes far more memory than its bytes, and an index of more platforms than there are", () => {
    const costly = (count: number): object => imageOf({ x: Array.from({ length: count }, () => ({})) });
    expect(whyOf(parseManifest(bytesOf(costly(30_000)), OCI_MANIFEST))).toMatch(/more than 40000 elements/);
    const platforms = (count: number): ParsedManifest => {
      const entries = Array.from({ length: count }, (_, at) => entry(linux(`made-up-${at}`)));
      return parseManifest(bytesOf(indexOf(entries)), OCI_INDEX);
    };
    expect(platforms(64)).toMatchObject({ kind: "index" });
    expect(whyOf(platforms(65))).toMatch(/for 65 platforms, more than the 64/);
  });

  it("more than 4 MiB, before anything is parsed", () => {
    const bytes = new Uint8Array(4 * 1024 * 1024 + 1);
    expect(whyOf(parseManifest(bytes, OCI_INDEX))).toMatch(/larger than 4194304 bytes/);
  });

  it("more than 64 levels, before anything is parsed; brackets in text do not count", () => {
    const nested = (levels: number): string =>
      `{"manifests":[],"x":${"[".repeat(levels - 1)}${"]".repeat(levels - 1)}}`;
    expect(parseManifest(bytesOf(nested(64)), OCI_INDEX).kind).toBe("index");
    expect(whyOf(parseManifest(bytesOf(nested(65)), OCI_INDEX))).toMatch(/deeper than 64/);
    expect(whyOf(parseManifest(bytesOf("[".repeat(4_000_000)), OCI_INDEX))).toMatch(/deeper than 64/);
    const text = { ...indexOf([]), x: `\\"${"[{".repeat(100)}"\\` };
    expect(parseManifest(bytesOf(text), OCI_INDEX).kind).toBe("index");
  });

  it("text that is no UTF-8", () => {
    const bytes = new Uint8Array([0x7b, 0x22, 0xff, 0x22, 0x7d]);
    expect(whyOf(parseManifest(bytes, OCI_INDEX))).toMatch(/no JSON/);
  });

  it("fields of prototypes", () => {
    const forged = '{"__proto__":{"manifests":[]},"constructor":1}';
    expect(whyOf(parseManifest(bytesOf(forged), ""))).toMatch(/neither an index nor a manifest/);
    expect(platformsOf(indexOf([entry(linux("constructor"))]))).toEqual(["linux/constructor"]);
  });
});

it.each([
  ["a chart", { mediaType: HELM_CONFIG }, {}, HELM_CONFIG],
  ["what says", { mediaType: "application/x" }, { artifactType: "application/y+z" }, "application/y+z"],
  ["one with a type that is none", { mediaType: "a\nb" }, {}, "unknown"],
])("artifacts %s", (_, config, more, mediaType) => {
  const parsed = parseManifest(bytesOf(imageOf(config, more)), OCI_MANIFEST);
  expect(parsed).toEqual({ kind: "artifact", mediaType });
});

describe("the config of an image", () => {
  it.each([
    [{ architecture: "amd64", os: "linux", rootfs: {} }, "linux/amd64"],
    [{ architecture: "arm", os: "linux", variant: "v7" }, "linux/arm/v7"],
    [{ architecture: "amd64" }, "linux/amd64"],
    [{ architecture: "amd64", os: "" }, "linux/amd64"],
    [
      { architecture: "amd64", os: "windows", "os.version": "10.0.20348.2227" },
      "windows/amd64 10.0.20348.2227",
    ],
    [{ os: "linux" }, undefined],
    [{ architecture: "", os: "" }, undefined],
    [{ architecture: "unknown", os: "unknown" }, undefined],
    [[], undefined],
    ["null", undefined],
    ["{", undefined],
  ])("%j: %s", (config, expected) => {
    const { platform } = parseImageConfig(bytesOf(config));
    expect(platform && [platformText(platform), platform.osVersion ?? []].flat().join(" ")).toBe(expected);
  });

  it("is nothing when it is larger than 8 MiB", () => {
    const config = JSON.stringify({ architecture: "amd64", os: "linux", x: "x".repeat(8 * 1024 * 1024) });
    expect(parseImageConfig(bytesOf(config))).toEqual({});
  });

  it.each<readonly [string, unknown, boolean]>([
    ["bundle.mediatype.v1", { "operators.operatorframework.io.bundle.mediatype.v1": "registry+v1" }, true],
    ["bundle.channel.default.v1", { "operators.operatorframework.io.bundle.channel.default.v1": "" }, true],
    ["metrics.builder", { "operators.operatorframework.io.metrics.builder": "operator-sdk" }, true],
    ["index.database.v1", { "operators.operatorframework.io.index.database.v1": "/db" }, false],
    ["no label of OLM", { maintainer: "bundle" }, false],
    ["a list", ["operators.operatorframework.io.bundle.manifests.v1"], false],
    ["none", undefined, false],
  ])("I-11 tells an operator bundle by its labels: %s", (_, Labels, isBundle) => {
    const config = { architecture: "amd64", os: "linux", config: { Labels } };
    expect(parseImageConfig(bytesOf(config))).toEqual({
      platform: { os: "linux", architecture: "amd64" },
      ...(isBundle && { isBundle }),
    });
  });
});

describe("any answer", () => {
  const types = fc.constantFrom(
    OCI_INDEX,
    OCI_MANIFEST,
    DOCKER_LIST,
    DOCKER_MANIFEST,
    "application/json",
    "",
  );
  const label = /^[a-z0-9]([a-z0-9_.-]*[a-z0-9])?$/;

  it("has a result, and every platform in it fits into a label", () => {
    const texts = { os: fc.string(), architecture: fc.string(), variant: fc.string() };
    const platforms = fc.array(fc.record(texts, { requiredKeys: [] }));
    const values = fc.oneof(
      fc.jsonValue(),
      fc.array(fc.jsonValue()).map((manifests) => indexOf(manifests)),
      platforms.map((all) => indexOf(all.map((platform) => entry(platform)))),
      fc.jsonValue().map((config) => ({ mediaType: OCI_MANIFEST, config })),
    );
    fc.assert(
      fc.property(values, types, (value, mediaType) => {
        const parsed = parseManifest(bytesOf(JSON.stringify(value)), mediaType);
        expect(whyOf(parsed).length).toBeLessThan(200);
        for (const { os, architecture } of parsed.kind === "index" ? parsed.platforms : []) {
          expect(os).toMatch(label);
          expect(architecture).toMatch(label);
        }
      }),
      { numRuns: 500 },
    );
  });

  it("be it any bytes", () => {
    fc.assert(
      fc.property(fc.uint8Array({ maxLength: 200 }), types, (bytes, mediaType) => {
        expect(["index", "image", "artifact", "malformed"]).toContain(parseManifest(bytes, mediaType).kind);
        parseImageConfig(bytes);
      }),
      { numRuns: 500 },
    );
  });
});
