/** What is in the image (SPDX 2.3), and from what it was made (SLSA 1.0): files beside the blobs of the layout. */
import { readFile, writeFile } from "node:fs/promises";
import { join } from "node:path";
import { root } from "../run-tool.ts";
import { ARCHITECTURES, type Architecture } from "./architectures.ts";
import { type DebianPins, debianPackages } from "./debian.ts";
import type { Index } from "./layout.ts";
import { type LockedPackage, nodePackage, readLock } from "./node.ts";
import type { Origin } from "./origin.ts";

/** One thing that the image was made from. */
export interface Part {
  readonly name: string;
  readonly version: string;
  readonly license: string;
  /** A package URL. */
  readonly purl: string;
  readonly hash: { readonly algorithm: "sha256" | "sha512"; readonly hex: string };
}

interface Made {
  readonly index: Index;
  readonly origin: Origin;
  readonly pins: DebianPins;
}

/** Files, and no part of the index: the provenance names the digest of the index, and the digest stays that of the image. */
export async function writeStatements(layout: string, { index, origin, pins }: Made): Promise<void> {
  const bundled = JSON.parse(
    await readFile(join(root, "packages/cli/dist/bundled.json"), "utf8"),
  ) as string[];
  const lock = await readLock();
  const write = (name: string, content: object): Promise<void> =>
    writeFile(join(layout, name), `${JSON.stringify(content, null, 2)}\n`);
  for (const [position, architecture] of ARCHITECTURES.entries()) {
    const parts = partsOf([architecture], pins, lock, bundled);
    const digest = index.manifests[position]?.digest ?? "";
    await write(`sbom-${architecture}.spdx.json`, billOfMaterials(parts, architecture, digest, origin));
  }
  await write(
    "provenance.json",
    provenance(partsOf(ARCHITECTURES, pins, lock, bundled), index.index.digest, origin),
  );
}

export function partsOf(
  architectures: readonly Architecture[],
  pins: DebianPins,
  lock: Readonly<Record<string, LockedPackage>>,
  bundled: readonly string[],
): readonly Part[] {
  const debian = debianPackages(pins, [...architectures, "all"]).map(
    ({ name, version, license = "NOASSERTION", build, sha256 }): Part => ({
      name,
      version,
      license,
      purl: `pkg:deb/debian/${encodeURIComponent(name)}@${encodeURIComponent(version)}?arch=${build}`,
      hash: { algorithm: "sha256", hex: sha256 },
    }),
  );
  const paths = [
    ...architectures.map((architecture) => `node_modules/${nodePackage(architecture)}`),
    ...bundled,
  ];
  const npm = paths.map((path): Part => {
    const locked = lock[path];
    if (locked?.integrity === undefined || locked.license === undefined)
      throw new Error(`package-lock.json does not say what ${path} is`);
    const name = path.replace(/^.*node_modules\//, "");
    const hex = Buffer.from(locked.integrity.replace(/^sha512-/, ""), "base64").toString("hex");
    return {
      name,
      version: locked.version,
      license: locked.license,
      purl: `pkg:npm/${name.replace("@", "%40")}@${locked.version}`,
      hash: { algorithm: "sha512", hex },
    };
  });
  return [...debian, ...npm];
}

export function billOfMaterials(
  parts: readonly Part[],
  architecture: Architecture,
  digest: string,
  { version, license, source, created }: Origin,
): object {
  const [, sha256 = ""] = digest.split(":");
  const purl = `pkg:oci/berth@${encodeURIComponent(digest)}?arch=${architecture}`;
  const image: Part = { name: "berth", version, license, purl, hash: { algorithm: "sha256", hex: sha256 } };
  const idOf = (position: number): string => `SPDXRef-Package-${position}`;
  return {
    spdxVersion: "SPDX-2.3",
    dataLicense: "CC0-1.0",
    SPDXID: "SPDXRef-DOCUMENT",
    name: `berth-${version}-${architecture}`,
    documentNamespace: `${source}/spdx/${sha256}`,
    creationInfo: { created: created.replace(/\.\d+Z$/, "Z"), creators: ["Tool: berth-make-image"] },
    packages: [image, ...parts].map(({ name, version, license, purl, hash }, position) => ({
      SPDXID: idOf(position),
      name,
      versionInfo: version,
      downloadLocation: "NOASSERTION",
      filesAnalyzed: false,
      licenseConcluded: "NOASSERTION",
      licenseDeclared: license,
      copyrightText: "NOASSERTION",
      checksums: [{ algorithm: hash.algorithm.toUpperCase(), checksumValue: hash.hex }],
      externalRefs: [{ referenceCategory: "PACKAGE-MANAGER", referenceType: "purl", referenceLocator: purl }],
    })),
    relationships: [
      relationship("SPDXRef-DOCUMENT", "DESCRIBES", idOf(0)),
      ...parts.map((_, position) => relationship(idOf(0), "CONTAINS", idOf(position + 1))),
    ],
  };
}

function relationship(spdxElementId: string, relationshipType: string, relatedSpdxElement: string): object {
  return { spdxElementId, relationshipType, relatedSpdxElement };
}

/** An in-toto statement without a signature: whoever publishes the image signs it. */
export function provenance(
  parts: readonly Part[],
  digest: string,
  { source, revision, version }: Origin,
): object {
  const [, sha256 = ""] = digest.split(":");
  const [gitCommit = ""] = revision.split("-");
  return {
    _type: "https://in-toto.io/Statement/v1",
    subject: [{ name: "berth", digest: { sha256 } }],
    predicateType: "https://slsa.dev/provenance/v1",
    predicate: {
      buildDefinition: {
        buildType: `${source}/make-image/v1`,
        externalParameters: { source, revision, version },
        resolvedDependencies: [
          { uri: `git+${source}`, digest: { gitCommit } },
          ...parts.map(({ purl, hash }) => ({ uri: purl, digest: { [hash.algorithm]: hash.hex } })),
        ],
      },
      runDetails: { builder: { id: `${source}/make-image` } },
    },
  };
}
