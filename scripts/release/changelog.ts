/** CHANGELOG.md: a section for each version, the newest first, and one for what is not released yet. */

const UNRELEASED = "## Unreleased\n";

export interface Release {
  /** The whole file. */
  readonly text: string;
  /** What changed in this version. */
  readonly notes: string;
}

/**
 * Gives what is not released yet a version. A file that has the version already stays as it is.
 * @throws Error when nothing is to be released.
 */
export function releaseNotes(text: string, version: string, date: string): Release {
  const [before, ...sections] = text.split(/^(?=## )/m);
  const known = sections.find((section) => section.startsWith(`## ${version} (`));
  if (known !== undefined) return { text, notes: bodyOf(known) };
  const unreleased = sections.find((section) => section.startsWith(UNRELEASED)) ?? "";
  const notes = bodyOf(unreleased);
  if (notes === "") throw new Error("CHANGELOG.md says nothing under `## Unreleased`");
  const rest = sections.filter((section) => section !== unreleased);
  return {
    text: [before, UNRELEASED, `\n## ${version} (${date})\n\n${notes}\n`, ...rest.map((it) => `\n${it}`)]
      .join("")
      .replace(/\n{3,}/g, "\n\n"),
    notes,
  };
}

function bodyOf(section: string): string {
  return section.slice(section.indexOf("\n") + 1).trim();
}
