/** What is wrong with pages and with the comments of what is exported. */
import { existsSync, readFileSync } from "node:fs";
import { dirname, join, relative } from "node:path";

export const root: string = join(import.meta.dirname, "..");
export const read = (path: string): string => readFileSync(join(root, path), "utf8");

/** `export interface Name`, `export const name`, … as they begin a line here: the formatter sees to that. */
const DECLARATION =
  /^export (?:declare )?(?:abstract )?(?:async )?(?:interface|type|class|const|let|function\*?) (\w+)/;

/** The exported symbols of a module without a comment right above, as `path:line: name`; those in `names`, or all. */
function undocumented(path: string, names?: ReadonlySet<string>): readonly string[] {
  const lines = read(path).split("\n");
  return lines.flatMap((line, index) => {
    const name = DECLARATION.exec(line)?.[1];
    if (name === undefined || (names !== undefined && !names.has(name))) return [];
    const overload = lines.slice(0, index).some((earlier) => DECLARATION.exec(earlier)?.[1] === name);
    return overload || lines[index - 1]?.trimEnd().endsWith("*/") ? [] : [`${path}:${index + 1}: ${name}`];
  });
}

/** Follows the `export … from` of an index. What is generated has its reference elsewhere. */
export function undocumentedOf(index: string): readonly string[] {
  const exports = read(index).matchAll(/export (?:type )?(\*|\{[^}]*\}) from "(.+?)"/g);
  return [...exports].flatMap(([, what = "", from = ""]) => {
    const path = join(index, "..", from);
    if (from.includes("/generated/")) return [];
    if (from.endsWith("/index.ts")) return undocumentedOf(path);
    return undocumented(path, what === "*" ? undefined : new Set(what.match(/\w+(?=\s*[,}])/g)));
  });
}

const withoutBlocks = (text: string): string =>
  text.replaceAll(/^ *```[\s\S]*?^ *```$/gm, "").replaceAll(/<!--[\s\S]*?-->/g, "");

/** The anchors of a page: its headings as GitHub writes them. */
function anchorsOf(page: string): ReadonlySet<string> {
  const headings = withoutBlocks(read(page)).matchAll(/^#+ (.*)$/gm);
  return new Set(
    [...headings].map(([, heading = ""]) =>
      heading
        .replaceAll(/\[(.*?)\]\(.*?\)/g, "$1")
        .toLowerCase()
        .replaceAll(/[^\w\- ]/g, "")
        .replaceAll(" ", "-"),
    ),
  );
}

/** The links of a page to files or headings that do not exist. */
export function brokenLinksOf(page: string): readonly string[] {
  const links = withoutBlocks(read(page)).matchAll(/\]\(([^)\s]+)\)/g);
  return [...links].flatMap(([, link = ""]) => {
    if (/^\w+:/.test(link)) return [];
    const [path = "", anchor] = link.split("#");
    const target = path === "" ? page : relative(root, join(root, dirname(page), path));
    if (!existsSync(join(root, target))) return [`${page}: ${link}`];
    return anchor === undefined || anchorsOf(target).has(anchor) ? [] : [`${page}: ${link}`];
  });
}

/** Sentences of a page with more words than a reader takes in at first reading. Code and links are one word each. */
export function longSentencesOf(page: string): readonly string[] {
  const most = 25;
  const text = withoutBlocks(read(page))
    .replaceAll(/`[^`]*`/g, "code")
    .replaceAll(/\[([^\]]*)\]\([^)]*\)/g, "$1");
  const parts = text.split(/\n\s*\n|\n\s*(?:[-*]|\d+\.) |\||\n(?=#)|[.!?:](?=[\s*]|$)/);
  const sentences = parts.map((part) => part.replaceAll(/\s+/g, " ").trim());
  return sentences.filter((sentence) => sentence.split(" ").length > most).map((text) => `${page}: ${text}`);
}
