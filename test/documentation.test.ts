/** The rules for what strangers read. `test/guides.cluster.test.ts` runs the commands; `make docs` writes the library reference. */
import { execFileSync } from "node:child_process";
import { globSync, readdirSync } from "node:fs";
import { basename, dirname, join } from "node:path";
import { hubReasons } from "@berth/fleet";
import { describe, expect, it } from "vitest";
import { repository } from "../scripts/revision.ts";
import { readGuides } from "./guides.ts";
import { alertRules, commandsIn, runbookOf } from "./monitoring.ts";
import { brokenLinksOf, longSentencesOf, read, root, undocumentedOf } from "./pages.ts";

describe.each(["kube", "registry", "runtime", "testcluster"])("the package %s", (name) => {
  it("has a doc comment on everything it exports", () => {
    expect(undocumentedOf(`packages/${name}/src/index.ts`)).toEqual([]);
  });
});

describe("the tools that are installed by themselves", () => {
  it.each(globSync("tools/*/package.json", { cwd: root }).map((manifest) => basename(dirname(manifest))))(
    "pins %s exactly, in step with its lockfile, and names no registry",
    (tool) => {
      const { devDependencies } = JSON.parse(read(`tools/${tool}/package.json`)) as {
        readonly devDependencies: Readonly<Record<string, string>>;
      };
      const lock = read(`tools/${tool}/package-lock.json`);
      const { packages } = JSON.parse(lock) as { readonly packages: Readonly<Record<string, unknown>> };
      expect(packages[""]).toMatchObject({ devDependencies });
      for (const version of Object.values(devDependencies)) expect(version).toMatch(/^\d+\.\d+\.\d+$/);
      expect(lock).not.toMatch(/"resolved": "http/);
    },
  );
});

it("make help lists every target that a person calls", () => {
  const targets = /^\.PHONY: (.*)$/m.exec(read("Makefile"))?.[1]?.split(" ");
  const help = execFileSync("make", ["help"], { cwd: root, encoding: "utf8" });
  const listed = [...help.matchAll(/^ {2}make (\S+) /gm)].map(([, name = ""]) => name);
  expect(listed.toSorted()).toEqual(targets?.toSorted());
});

const capabilityReadmes = globSync("packages/{fleet,placement/src/*}/{,src/}wiring.ts", { cwd: root }).map(
  (wiring) => join(wiring.replace(/(?:src\/)?wiring\.ts$/, ""), "README.md"),
);
const guides = readGuides();
const pages = globSync("**/*.md", { cwd: root, exclude: (path) => /node_modules|^docs\/api/.test(path) });

/** The pages that are written by hand, for users: in plain English. */
const plain = [
  "README.md",
  "SCOPE.md",
  "docs/runbooks.md",
  ...guides.map(({ name }) => `docs/guides/${name}`),
  ...capabilityReadmes,
  ...globSync("packages/{kube,registry,runtime,testcluster,placement,cli}/README.md", { cwd: root }),
  ...globSync("docs/reference/*.md", { cwd: root }).filter(
    (page) => !/(cli|metrics|reasons)\.md$/.test(page),
  ),
];

it.each(pages)("%s links only to what exists", (page) => expect(brokenLinksOf(page)).toEqual([]));

it.each(plain)("%s has sentences that are understood at first reading", (page) => {
  expect(longSentencesOf(page)).toEqual([]);
});

describe("README.md", () => {
  const text = read("README.md");

  it("is read in some minutes", () => expect(text.trimEnd().split("\n").length).toBeLessThanOrEqual(120));

  it("installs with commands that the guides run", () => {
    const install = /^## Install$[\s\S]*?^```sh\n([\s\S]*?)^```$/m.exec(text)?.[1] ?? "";
    const commands = guides.flatMap(({ steps }) => steps.map(({ command }) => command));
    expect(commands).toEqual(expect.arrayContaining(install.trimEnd().split("\n")));
  });
});

describe("docs/guides", () => {
  it("lists every guide", () => {
    const files = readdirSync(join(root, "docs/guides")).filter((name) => name !== "README.md");
    expect(guides.map(({ name }) => name).toSorted()).toEqual(files.toSorted());
  });

  it.each(guides)("$name begins with a short object and what the reader will see", ({ text, steps }) => {
    const [, first = "", rest = ""] = /^```yaml\n([\s\S]*?)^```$([\s\S]*)/m.exec(text) ?? [];
    const lines = first.trimEnd().split("\n");
    expect(lines.filter((line) => !line.startsWith("#")).length).toBeLessThanOrEqual(12);
    expect(rest.trimStart()).toMatch(/^\*\*You will see\*\* /);
    expect(steps.length).toBeGreaterThan(0);
  });
});

describe.each(capabilityReadmes)("%s", (name) => {
  const text = read(name);

  it("is a sample, guarantees, a decision table and failures, and leaves the cases to the reference", () => {
    expect(text.trimEnd().split("\n").length).toBeLessThanOrEqual(150);
    expect(text.slice(0, text.indexOf("\n## "))).toContain("```yaml\napiVersion: berth.dev/");
    const headings = [...text.matchAll(/^## (.*)$/gm)].map(([, heading]) => heading);
    expect(headings).toEqual(expect.arrayContaining(["What it guarantees", "Decision table", "Failures"]));
    expect(text).toContain(`docs/reference/${basename(dirname(name))}.md`);
  });
});

describe("docs/runbooks.md", () => {
  const reference = read("docs/reference/cli.md");

  it("has a section for each alert, and no other", () => {
    expect([...runbookOf.keys()]).toEqual(alertRules.map(({ alert }) => alert));
  });

  it.each(alertRules)("$alert says what it means, where to look and what to do", ({ alert, annotations }) => {
    const text = runbookOf.get(alert) ?? "";
    const url = `${repository()}/blob/main/docs/runbooks.md#${alert.toLowerCase()}`;
    expect(annotations["runbook_url"]).toBe(url);
    expect(text.match(/^\*\*(?:It means|Look|Do)\*\*/gm)).toEqual(["**It means**", "**Look**", "**Do**"]);
    expect(text.trimEnd().split("\n").length).toBeLessThanOrEqual(30);
  });

  it.each(alertRules)("$alert names commands and flags that there are", ({ alert }) => {
    const commands = commandsIn(runbookOf.get(alert) ?? "");
    expect(commands).not.toEqual([]);
    for (const command of commands.filter((it) => it.startsWith("berth "))) {
      const name = /^berth(?: [a-z]+)+/.exec(command)?.[0] ?? "";
      const sections = [...reference.matchAll(/^## (.*)\n([\s\S]*?)(?=^## |(?![\s\S]))/gm)];
      const [, , text = ""] =
        sections.findLast(([, heading = ""]) => `${name} `.startsWith(`${heading} `)) ?? [];
      const flags = command.match(/--?[a-zA-Z][-a-z]*/g) ?? [];
      expect({ command, isKnown: text !== "" && flags.every((flag) => text.includes(flag)) }).toEqual({
        command,
        isKnown: true,
      });
    }
  });
});

describe("docs/reference/fleet.md", () => {
  const rows = [
    ...read("docs/reference/fleet.md").matchAll(/^\| ([RHATF]\d+|8\.\d) \| .* \| (.*) \|$/gm),
  ].map(([, id = "", files = ""]) => ({
    id,
    files: [...files.matchAll(/`(\S+)`/g)].map(([, file = ""]) => file),
  }));

  it("has each reason of a hub, with its meaning", () => {
    const text = read("docs/reference/fleet.md");
    const rows = hubReasons.map(({ reason, meaning }) => `| \`${reason}\` | ${meaning} |`);
    expect(rows.filter((row) => !text.includes(row))).toEqual([]);
  });

  it("lists each case once", () => {
    const ids = rows.map(({ id }) => id);
    expect(ids.length).toBeGreaterThan(60);
    expect(new Set(ids).size).toBe(ids.length);
  });

  it.each(rows)("$id has a test of that name in each of its files", ({ id, files }) => {
    expect(files).not.toEqual([]);
    const title = new RegExp(`["'\`](?:[A-Z]?[\\d.]+,? )*${id.replace(".", "\\.")}[ ,]`);
    for (const file of files) {
      const path = file.startsWith("test/") ? file : `packages/fleet/src/${file}`;
      expect({ path, hasTest: title.test(read(path)) }).toEqual({ path, hasTest: true });
    }
  });
});
