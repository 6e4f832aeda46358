import { describe, expect, it } from "vitest";
import { bindLabels, folderOf, labelsOf, planWith, settle } from "../node/testing/labels.ts";
import { editNode, makeNode } from "../node/testing/world.ts";
import { type ParsedFolder, parseLabelFolder } from "./folder.ts";

const keys = (files: Readonly<Record<string, string | undefined>>): string[] => [
  ...parseLabelFolder(folderOf(files)).rules.byKey.keys(),
];

const inputs = (text: string): string[] => {
  const { set } = parseLabelFolder(folderOf({ "a/b": text }));
  return [...(set.rules[0]?.plain?.keys() ?? [])];
};

const problems = (
  files: Readonly<Record<string, string | undefined>>,
  allowReserved: string[] = [],
): string[] =>
  parseLabelFolder(folderOf(files), { allowReserved }).problems.map(
    ({ severity, file, line, column, reason }) =>
      `${severity} ${file}:${line ?? ""}:${column ?? ""} ${reason}`,
  );

describe("the folder format", () => {
  it("L-P1 takes the path as label key and every line as an alternative", () => {
    expect(keys({ "accelerators/edgetpu": "x\n" })).toEqual(["accelerators/edgetpu"]);
    expect(inputs("kkohtaka.org/edgetpu\nfeature.node.kubernetes.io/usb-fe_1a6e_089a.present\n")).toEqual([
      "kkohtaka.org/edgetpu",
      "feature.node.kubernetes.io/usb-fe_1a6e_089a.present",
    ]);
  });

  it("L-P11 takes blank lines and a missing final newline as nothing", () => {
    expect(inputs("\n\na\n\nb")).toEqual(["a", "b"]);
  });

  it("L-P12 takes a file at the top as an unprefixed label", () => {
    expect(keys({ foo: "x" })).toEqual(["foo"]);
  });

  it.each([
    ["a carriage return", "a\r\nb", ["a\r", "b"]],
    ["a trailing blank", "a ", ["a "]],
    ["a leading tab", "\ta", ["\ta"]],
    ["a comment", "# a", ["# a"]],
    ["a value", "a=true", ["a=true"]],
    ["other line separators", "a\u2028b\fc\u0085d", ["a\u2028b\fc\u0085d"]],
    ["a key named like a property", "__proto__\nconstructor", ["__proto__", "constructor"]],
  ])("keeps a line with %s byte for byte", (_what, text, expected) => {
    expect(inputs(text)).toEqual(expected);
  });

  it("gives the same rules whatever the order of the files", () => {
    expect(keys({ b: "x", a: "y", "c/d": "z" })).toEqual(keys({ "c/d": "z", a: "y", b: "x" }));
  });
});

describe("faults of the folder", () => {
  it.each([
    ["a/b/c", "two slashes"],
    [".x.swp", "a swap file"],
    [".gitkeep", "a dotfile"],
    ["foo~", "a backup"],
    ["#foo#", "an autosave"],
    ["ns/.foo.swp", "a swap file in a namespace"],
    ["Upper/foo", "an upper-case domain"],
    ["x".repeat(64), "64 characters"],
    [`${"d".repeat(254)}/foo`, "a domain of 254 characters"],
    ["a/-b", "a name that begins with a dash"],
  ])("L-B3 reports %s (%s) and goes on with the other rules", (path) => {
    expect(problems({ [path]: "x", "good/rule": "y" })).toEqual([`error ${path}:: InvalidLabelKey`]);
    expect(keys({ [path]: "x", "good/rule": "y" })).toEqual(["good/rule"]);
  });

  it.each(["foo.swp", "foo.bak", "ns/foo.orig", "4913"])(
    "warns of %s, which is a rule all the same",
    (path) => {
      expect(problems({ [path]: "x" })).toEqual([`warning ${path}:: EditorLeftover`]);
      expect(keys({ [path]: "x" })).toEqual([path]);
    },
  );

  it("L-B2 skips the bookkeeping of a ConfigMap volume without a word", () => {
    expect(problems({ "..2026_01_01_00_00_00.1/edgetpu": "x", "..data": "y" })).toEqual([]);
    expect(keys({ "..2026_01_01_00_00_00.1/edgetpu": "x", "..data": "y" })).toEqual([]);
  });

  it.each(["kubernetes.io/hostname", "node-role.kubernetes.io/edge", "k8s.io/x", "deep.sub.k8s.io/x"])(
    "L-B8 refuses the reserved key %s",
    (path) => {
      expect(problems({ [path]: "x" })).toEqual([`error ${path}:: ReservedLabelKey`]);
      expect(keys({ [path]: "x" })).toEqual([]);
    },
  );

  it.each([
    ["node-role.kubernetes.io/edge", "node-role.kubernetes.io"],
    ["node-role.kubernetes.io/edge", "node-role.kubernetes.io/edge"],
  ])("L-B8 takes the reserved key %s when %s is allowed", (path, allowed) => {
    expect(problems({ [path]: "x" }, [allowed])).toEqual([]);
  });

  it("L-B8 allows a domain without its subdomains, and nothing that only looks alike", () => {
    expect(problems({ "node-role.kubernetes.io/edge": "x" }, ["kubernetes.io"])).toHaveLength(1);
    expect(problems({ "notkubernetes.io/x": "x" })).toEqual([]);
  });

  it.each([
    ["a\r\nb", "warning f:1:2 NeverMatches"],
    ["a\nb ", "warning f:2:2 NeverMatches"],
    [" a", "warning f:1:1 NeverMatches"],
    ["# why", "warning f:1:1 NeverMatches"],
    ["a=true", "warning f:1:2 NeverMatches"],
    ["!a", "warning f:1:1 NeverMatches"],
    ["a*", "warning f:1:2 NeverMatches"],
    ["a/b/c", "warning f:1:1 NeverMatches"],
  ])("warns of the line %j, which no label can equal", (text, expected) => {
    expect(problems({ f: text })).toEqual([expected]);
  });

  it("warns of a file without a line, and lists no more than twenty bad lines of one file", () => {
    expect(problems({ f: "\n\n" })).toEqual(["warning f:: EmptyRule"]);
    expect(problems({ f: "?\n".repeat(10_000) })).toHaveLength(21);
  });

  it("reports a file that cannot be read and a folder that was not seen whole", () => {
    const { problems, rules } = parseLabelFolder(folderOf({ f: undefined }, false));
    expect(problems.map(({ file, reason }) => `${file} ${reason}`)).toEqual([
      " FolderIncomplete",
      "f FileUnreadable",
    ]);
    expect([...rules.frozen]).toEqual([["f", "RuleUnreadable"]]);
    expect([...rules.policy.sourcesRead]).toEqual([]);
  });

  it("L-B9 reports rules that depend on themselves, with file and line", () => {
    const folder = { self: "x\nself", a: "b", b: "\na\ny", c: "a", "d/e": "f" };
    expect(problems(folder)).toEqual([
      "warning a:1:1 CyclicRule",
      "warning b:2:1 CyclicRule",
      "warning self:2:1 CyclicRule",
    ]);
    expect(keys(folder)).toHaveLength(5);
  });

  it("finds a cycle of any length without recursion", () => {
    const ring: Record<string, string> = {};
    for (let i = 0; i < 20_000; i += 1) ring[`k${i}`] = `k${(i + 1) % 20_000}`;
    expect(problems(ring)).toHaveLength(20_000);
  });
});

describe("L-B6 the extended format", () => {
  const read = (files: Readonly<Record<string, string | undefined>>): ParsedFolder =>
    parseLabelFolder(folderOf(files), { allowReserved: [], format: "Extended" });
  const bound = (files: Readonly<Record<string, string>>) => [bindLabels(() => read(files).rules)];
  const listed = (files: Readonly<Record<string, string | undefined>>): string[] =>
    read(files).problems.map(
      ({ severity, file, line, column, reason }) =>
        `${severity} ${file}:${line ?? ""}:${column ?? ""} ${reason}`,
    );

  it("L-B6 sets values by selectors, in files with comments and CRLF", () => {
    const files = { tier: "# by generation\r\ngen in (3, 4), !legacy => new\r\ngen=2 => old\r\nforced\r\n" };
    for (const [labels, tier] of [
      [{ gen: "3" }, "new"],
      [{ gen: "3", legacy: "", forced: "1" }, "true"],
      [{ gen: "2" }, "old"],
      [{ gen: "1" }, undefined],
    ] as const) {
      expect(labelsOf(settle(makeNode({ labels }), bound(files)))["tier"]).toBe(tier);
    }
    expect(listed(files)).toEqual([]);
  });

  it("L-B6 keeps the meaning of plain files unless it is asked for", () => {
    const files = { a: "gen=2 => old", b: "# why", c: "!d" };
    const plain = parseLabelFolder(folderOf(files));
    expect(plain.problems.map(({ reason }) => reason)).toEqual([
      "NeverMatches",
      "NeverMatches",
      "NeverMatches",
    ]);
    const node = makeNode({ labels: { gen: "2" } });
    expect(planWith(node, [bindLabels(() => plain.rules)]).patch).toBeUndefined();
    expect(labelsOf(settle(node, bound(files)))).toEqual({ gen: "2", a: "old", c: "true" });
  });

  it("reports every line that is wrong with line and column, at most twenty of a file", () => {
    expect(listed({ a: "ok\nnot ok\n\na=b => c d", b: "fine" })).toEqual([
      "error a:2:1 RuleInvalid",
      "error a:4:7 RuleInvalid",
    ]);
    expect(listed({ a: "not ok\n".repeat(10_000) })).toHaveLength(21);
    expect(listed({ a: "# nothing\n" })).toEqual(["warning a:: EmptyRule"]);
  });

  it("leaves the label of a file with a fault as it is", () => {
    const set = settle(makeNode({ labels: { x: "1" } }), bound({ a: "x", b: "a" }));
    const gone = editNode(set, { labels: { x: null } });
    const plan = planWith(gone, bound({ a: "x y", b: "a" }));
    expect(plan.patch).toBeUndefined();
    expect(plan.stays).toMatchObject([{ id: "label/a", reason: "RuleInvalid" }]);
    expect(planWith(makeNode({ labels: { x: "1" } }), bound({ a: "x y" })).patch).toBeUndefined();
    expect(planWith(makeNode(), bound({ a: "x y", b: "!a" })).patch).toBeUndefined();
    expect(labelsOf(settle(gone, bound({ a: "x", b: "a" })))).toEqual({});
  });

  it("takes cycles of lines that are keys alone as the plain format does, and refuses others", () => {
    expect(listed({ a: "b\nx", b: "a" })).toEqual(["warning a:1:1 CyclicRule", "warning b:1:1 CyclicRule"]);
    expect(listed({ a: "b=1\nx", b: "a" })).toEqual(["error a:: CyclicRule"]);
    expect(labelsOf(settle(makeNode({ labels: { x: "1" } }), bound({ a: "b\nx", b: "a" })))).toEqual({
      x: "1",
      a: "true",
      b: "true",
    });
  });
});
