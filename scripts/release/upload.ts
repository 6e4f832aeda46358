/** The commands that publish what `make release` has made. */
import { LIBRARIES } from "./libraries.ts";

export interface Upload {
  readonly version: string;
  /** Without tag. */
  readonly image: string;
  readonly files: readonly string[];
}

/** A script for the folder of the release. It goes on after what an interrupted run has published. */
export function uploadScript({ version, image, files }: Upload): string {
  const registry = image.replace(/\/[^/]+$/, "");
  const isPreview = version.includes("-");
  return `#!/bin/sh
# Publishes Berth ${version}. Before: log in to ${registry} (docker login, or crane auth login), npm, and the forge (gh auth login).
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
for library in ${LIBRARIES.join(" ")}; do
  npm view "@berth/$library@${version}" version >/dev/null 2>&1 ||
    npm publish --access public --tag ${isPreview ? "next" : "latest"} "./berth-$library-${version}.tgz"
done
gh release create v${version} --verify-tag --title "Berth ${version}" --notes-file notes.md${isPreview ? " --prerelease" : ""} \\
  ${files.join(" ")}
`;
}
