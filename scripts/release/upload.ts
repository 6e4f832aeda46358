/** The commands that publish what `make release` has made. */

export interface Upload {
  readonly version: string;
  /** Without tag. */
  readonly image: string;
  readonly files: readonly string[];
}

/** A script that runs in the folder of the release. What it publishes first can be published again. */
export function uploadScript({ version, image, files }: Upload): string {
  const registry = image.replace(/\/[^/]+$/, "");
  const libraries = files.filter(
    (file) => /^berth-(?!chart|image).+\.tgz$/.test(file) && file !== chartOf(version),
  );
  return `#!/bin/sh
# Publishes Berth ${version}. Before: log in to ${registry} (docker login), npm, and the forge (gh auth login).
set -eu
cd "$(dirname "$0")"
sha256sum --check --quiet SHA256SUMS
mkdir -p image chart
tar -xf berth-image-${version}.oci.tar -C image
tar -xf berth-chart-${version}.oci.tar -C chart
go -C ../../scripts/image tool crane push "$PWD/image" ${image}:${version}
go -C ../../scripts/image tool crane push "$PWD/chart" ${registry}/charts/berth:${version}
rm -r image chart
git push origin HEAD v${version}
${libraries.map((file) => `npm publish --access public ./${file}\n`).join("")}gh release create v${version} --verify-tag --title "Berth ${version}" --notes-file notes.md${version.includes("-") ? " --prerelease" : ""} \\
  ${files.join(" ")}
`;
}

function chartOf(version: string): string {
  return `berth-${version}.tgz`;
}
