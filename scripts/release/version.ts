/** The version of a release, and the files of the repository that carry it. */

/** Semantic Versioning 2.0.0, but for build metadata: the tag of an image cannot have its `+`. */
const IDENTIFIER = "(?:0|[1-9]\\d*|\\d*[a-zA-Z-][\\da-zA-Z-]*)";
const SEMVER = new RegExp(
  `^(?:0|[1-9]\\d*)(?:\\.(?:0|[1-9]\\d*)){2}(?:-${IDENTIFIER}(?:\\.${IDENTIFIER})*)?$`,
);

export function isVersion(text: string): boolean {
  return SEMVER.test(text);
}

/** Globs of the files that carry it. */
export const VERSIONED: readonly string[] = [
  "package-lock.json",
  "packages/*/package.json",
  "packages/cli/src/version.ts",
  "charts/berth/Chart.yaml",
  "kustomize/base/objects.yaml",
  "docs/guides/{gitops,install}.md",
];

interface Package {
  version: string;
  readonly dependencies?: Record<string, string>;
  readonly devDependencies?: Record<string, string>;
}

/** What stands before it, outside of JSON. */
const BEFORE = '(?<= VERSION = "|^(?:appVersion|version): |targetRevision: |localhost/berth:|^ +Berth )';

/** The text of one of these files, with this version in place of its own. */
export function withVersion(file: string, text: string, version: string): string {
  if (!file.endsWith(".json"))
    return text.replace(new RegExp(`${BEFORE}\\d+\\.\\d+\\.\\d+[-.\\w]*(?<!\\.)`, "gm"), version);
  const json = JSON.parse(text) as Package & { readonly packages?: Readonly<Record<string, Package>> };
  const workspaces = Object.entries(json.packages ?? {}).filter(([path]) => path.startsWith("packages/"));
  for (const it of json.packages ? workspaces.map(([, entry]) => entry) : [json]) {
    it.version = version;
    for (const group of [it.dependencies ?? {}, it.devDependencies ?? {}])
      for (const name of Object.keys(group)) if (name.startsWith("@berth/")) group[name] = version;
  }
  return `${JSON.stringify(json, null, 2)}\n`;
}
