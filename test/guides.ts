/** The guides of `docs/guides`, in the order of their list: the files that a reader saves, and what they type and see. */
import { readFileSync } from "node:fs";
import { join } from "node:path";

const folder = join(import.meta.dirname, "../docs/guides");

/** A `$ command` of a console block, `> ` going on with it, and the lines after it. */
export interface Step {
  readonly command: string;
  readonly output: string;
}

export interface Guide {
  readonly name: string;
  readonly text: string;
  /** Documents whose first line is `# name.yaml`, by that name. */
  readonly files: ReadonlyMap<string, string>;
  readonly steps: readonly Step[];
}

/** A fenced block, of a list item perhaps, or in a comment: what stands for an installation that a reader has. */
const BLOCK = /^( *)```(console|yaml)\n([\s\S]*?)^\1```$/gm;

export function readGuides(): readonly Guide[] {
  const list = readFileSync(join(folder, "README.md"), "utf8");
  const names = [...list.matchAll(/^\| \[.*?\]\((\S+\.md)\)/gm)].map(([, name = ""]) => name);
  return names.map((name) => toGuide(name, readFileSync(join(folder, name), "utf8")));
}

function toGuide(name: string, text: string): Guide {
  const blocks = [...text.matchAll(BLOCK)].map(([, indent = "", language, body = ""]) => ({
    language,
    body: body.replaceAll(new RegExp(`^${indent}`, "gm"), ""),
  }));
  const documents = blocks.filter(({ language }) => language === "yaml").map(({ body }) => body);
  return {
    name,
    text,
    files: new Map(
      documents.flatMap((body) => {
        const file = /^# (\S+\.yaml)\n/.exec(body)?.[1];
        return file === undefined ? [] : [[file, body] as const];
      }),
    ),
    steps: blocks.filter(({ language }) => language === "console").flatMap(({ body }) => toSteps(body)),
  };
}

function toSteps(block: string): readonly Step[] {
  const texts = block.split(/^\$ /m).slice(1);
  return texts.map((text) => {
    const [first = "", ...lines] = text.split("\n");
    const output = lines.findIndex((line) => !line.startsWith("> "));
    const more = lines.slice(0, output).map((line) => line.slice(2));
    return { command: [first, ...more].join("\n"), output: normal(lines.slice(output).join("\n")) };
  });
}

/** Without what differs from run to run: times and ages, and the spaces after these and after their heading. */
export function normal(output: string): string {
  return (
    output
      .replaceAll(/\d{4}-\d\d-\d\dT[\d:]+Z/g, "<time>")
      // Newer versions of kubectl say from where.
      .replaceAll(/(?<= deleted) from \S+ namespace$/gm, "")
      .replaceAll(/^LAST DEPLOYED: .*/gm, "LAST DEPLOYED: <time>")
      .replaceAll(/\b(?:\d+m)?\d+[ms](?= |$|\)| ago) */gm, "<age> ")
      .replaceAll(/(?<= )AGE +/g, "AGE ")
      .replaceAll(/ +$/gm, "")
      .trim()
  );
}
