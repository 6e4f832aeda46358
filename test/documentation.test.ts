/** The rules for what strangers read: the reference itself is written, and its links checked, by `make docs`. */
import { readFileSync } from "node:fs";
import { join } from "node:path";
import { describe, expect, it } from "vitest";

const root = join(import.meta.dirname, "..");
const read = (path: string): string => readFileSync(join(root, path), "utf8");

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
function undocumentedOf(index: string): readonly string[] {
  const exports = read(index).matchAll(/export (?:type )?(\*|\{[^}]*\}) from "(.+?)"/g);
  return [...exports].flatMap(([, what = "", from = ""]) => {
    const path = join(index, "..", from);
    if (from.includes("/generated/")) return [];
    if (from.endsWith("/index.ts")) return undocumentedOf(path);
    return undocumented(path, what === "*" ? undefined : new Set(what.match(/\w+(?=\s*[,}])/g)));
  });
}

describe.each(["kube", "registry", "runtime", "testcluster"])("the package %s", (name) => {
  it("has a doc comment on everything it exports", () => {
    expect(undocumentedOf(`packages/${name}/src/index.ts`)).toEqual([]);
  });
});

describe("the tools that are installed by themselves", () => {
  it("are pinned exactly, in step with their lockfile, and name no registry", () => {
    const { devDependencies } = JSON.parse(read("tools/typedoc/package.json")) as {
      readonly devDependencies: Readonly<Record<string, string>>;
    };
    const lock = read("tools/typedoc/package-lock.json");
    const { packages } = JSON.parse(lock) as { readonly packages: Readonly<Record<string, unknown>> };
    expect(packages[""]).toMatchObject({ devDependencies });
    for (const version of Object.values(devDependencies)) expect(version).toMatch(/^\d+\.\d+\.\d+$/);
    expect(lock).not.toMatch(/"resolved": "http/);
  });
});
