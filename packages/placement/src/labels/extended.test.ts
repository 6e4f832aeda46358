import * as fc from "fast-check";
import { describe, expect, it } from "vitest";
import { labelKeyProblem } from "../node/validate.ts";
import { parseExtended } from "./extended.ts";

/** What a file says about a node with these labels: the value, or nothing. */
function valueOn(text: string, labels: Readonly<Record<string, string>>): string | undefined {
  const { cases, faults } = parseExtended(text);
  expect(faults).toEqual([]);
  const read = (_source: string, key: string): string | undefined =>
    Object.hasOwn(labels, key) ? labels[key] : undefined;
  for (const { when, value } of cases) if (when.test(read) === true) return value.of(read) as string;
  return undefined;
}

const faultsOf = (text: string): string[] =>
  parseExtended(text).faults.map(({ line, column }) => `${line}:${column}`);

describe("L-B6 the extended format", () => {
  it.each<[string, Readonly<Record<string, string>>, string | undefined]>([
    ["a", { a: "false" }, "true"],
    ["a", { b: "1" }, undefined],
    ["!a", { b: "1" }, "true"],
    ["! a", { a: "1" }, undefined],
    ["a=1", { a: "1" }, "true"],
    ["a=1", { a: "2" }, undefined],
    ["a==1", { a: "1" }, "true"],
    ["a = 1", { a: "1" }, "true"],
    ["a=", { a: "" }, "true"],
    ["a=", { a: "1" }, undefined],
    ["a=", {}, undefined],
    ["a!=1", { a: "2" }, "true"],
    ["a!=1", {}, "true"],
    ["a!=1", { a: "1" }, undefined],
    ["a in (1, 2)", { a: "2" }, "true"],
    ["a in (1,2)", { a: "3" }, undefined],
    ["a in(1)", { a: "1" }, "true"],
    ["a in ()", { a: "" }, "true"],
    ["a notin (1,2)", { a: "3" }, "true"],
    ["a notin (1,2)", {}, "true"],
    ["a notin (1,2)", { a: "1" }, undefined],
    ["a>2", { a: "3" }, "true"],
    ["a > 2", { a: "2" }, undefined],
    ["a>=2", { a: "2" }, "true"],
    ["a<2", { a: "1" }, "true"],
    ["a<2", {}, undefined],
    ["a<=16Gi", { a: "16Gi" }, "true"],
    ["a<2", { a: "few" }, undefined],
    ["a,b", { a: "1", b: "1" }, "true"],
    ["a,b", { a: "1" }, undefined],
    ["a=1, !b, c in (x), d", { a: "1", c: "x", d: "" }, "true"],
    ["a=1, !b, c in (x), d", { a: "1", c: "x", d: "", b: "" }, undefined],
    ["in", { in: "1" }, "true"],
    ["in in (in)", { in: "in" }, "true"],
    ["notin notin (notin)", { notin: "in" }, "true"],
    ["example.com/gpu in (a)", { "example.com/gpu": "a" }, "true"],
    ["a => x", { a: "1" }, "x"],
    ["a=>x", { a: "1" }, "x"],
    ["a=1=>x", { a: "1" }, "x"],
    ["a>=1=>x", { a: "1" }, "x"],
    ["a =>", { a: "1" }, ""],
    ["a => 1.0-rc_1", { a: "1" }, "1.0-rc_1"],
    ["# why\na", { a: "1" }, "true"],
    ["a # why => no", { a: "1" }, "true"],
    ["a => x # y", { a: "1" }, "x"],
    ["  # => x\n\t\n a\t", { a: "1" }, "true"],
    ["a\r\nb\r\n", { b: "1" }, "true"],
    ["a => x\r\n", { a: "1" }, "x"],
    ["\ufeffa", { a: "1" }, "true"],
    ["a => one\nb => two", { b: "1" }, "two"],
    ["a => one\na => two", { a: "1" }, "one"],
    ["!a => none\na => some", { a: "1" }, "some"],
    ["constructor", {}, undefined],
    ["", { a: "1" }, undefined],
  ])("%j on %j gives %j", (text, labels, expected) => {
    expect(valueOn(text, labels)).toBe(expected);
  });

  it.each([
    ["a b", "1:1", "is no label selector"],
    ["a\n\n  b c", "3:1", "is no label selector"],
    ["a, b c", "1:3", "is no label selector"],
    ["a,", "1:3", "is no label selector"],
    [",a", "1:1", "is no label selector"],
    ["=> x", "1:1", "is no label selector"],
    ["ain(b)", "1:1", "is no label selector"],
    ["anotin(b)", "1:1", "is no label selector"],
    ["a in (b", "1:1", "is no label selector"],
    ["a in b", "1:1", "is no label selector"],
    ["a in (b c)", "1:1", "is not a label value"],
    ["a = =b", "1:1", "is no label selector"],
    ["a\rb", "1:1", "is no label selector"],
    ["!a=b", "1:1", "stands before a key alone"],
    ["!!a", "1:1", "is no label selector"],
    ["a*", "1:1", "is not a label key"],
    ["a/b/c", "1:1", "is not a label key"],
    ["Upper/a", "1:1", "is not a label key"],
    ["// why", "1:1", "is no label selector"],
    ["a=-", "1:1", "is not a label value"],
    ["a=b#c", "1:1", "is not a label value"],
    ["a#c", "1:1", "is not a label key"],
    ["a>b", "1:1", "is not a number"],
    ["a<", "1:1", "is not a number"],
    ["a => b c", "1:5", "the value after => is not valid"],
    ['a => "b"', "1:5", "the value after => is not valid"],
    ["a => b => c", "1:5", "the value after => is not valid"],
    [`a => ${"x".repeat(64)}`, "1:5", "the value after => is not valid"],
    [`a,${"b,".repeat(500)}c`, "1:1000", "at most 1000 characters"],
  ])("%j has a fault at %s: %s", (text, at, message) => {
    expect(faultsOf(text)).toEqual([at]);
    expect(parseExtended(text).faults[0]?.message).toContain(message);
  });

  it("reports every line that is wrong, and takes the others", () => {
    const { cases, faults } = parseExtended("a b\nok\n\nc d\r\n# fine\n");
    expect(cases).toHaveLength(1);
    expect(faults.map(({ line }) => line)).toEqual([1, 4]);
  });

  it("quotes no more than a part of a bad line", () => {
    const [fault] = parseExtended(`a ${"?".repeat(900)}`).faults;
    expect(fault?.message.length).toBeLessThan(200);
  });
});

describe("any text", () => {
  const token = fc.oneof(
    fc.constantFrom(
      "a",
      "b/c",
      "in",
      "notin",
      "(",
      ")",
      ",",
      "!",
      "=",
      "==",
      "!=",
      ">",
      "<=",
      "=>",
      "#",
      " ",
    ),
    fc.constantFrom("\n", "\r\n", "\t", "x".repeat(70), "\ufeff", "1", "é"),
    fc.string({ maxLength: 3 }),
  );
  const text = fc.array(token, { maxLength: 40 }).map((parts) => parts.join(""));

  it("is taken line by line: each that says something is a case or has a fault, inside the line", () => {
    fc.assert(
      fc.property(text, (text) => {
        const { cases, faults } = parseExtended(text);
        const lines = text.split("\n");
        const said = lines.filter((line) => line.replace(/(^|\s)#.*$/s, "").trim() !== "");
        expect(cases.length + faults.length).toBe(said.length);
        for (const { line, column, message } of faults) {
          expect(message).not.toBe("");
          expect(column).toBeGreaterThanOrEqual(1);
          expect(column).toBeLessThanOrEqual((lines[line - 1] ?? "").length + 1);
        }
      }),
      { numRuns: 3000 },
    );
  });

  it("of label keys alone means the same as in the plain format", () => {
    const key = fc.stringMatching(/^([a-z]{1,3}\.[a-z]{1,3}\/)?[a-zA-Z0-9]([-._a-z0-9]{0,5}[a-z0-9])?$/);
    const keys = fc.array(fc.oneof(key, fc.constantFrom("a", "", "in", "notin")), { maxLength: 6 });
    fc.assert(
      fc.property(keys, fc.array(key, { maxLength: 3 }), (lines, standing) => {
        fc.pre(lines.every((line) => line === "" || labelKeyProblem(line) === undefined));
        const labels = Object.fromEntries(
          [...standing, ...lines.slice(0, 1)].filter((key) => key !== "").map((key) => [key, "x"]),
        );
        const expected = lines.some((line) => Object.hasOwn(labels, line)) ? "true" : undefined;
        expect(valueOn(lines.join("\n"), labels)).toBe(expected);
        const first = lines.filter((line, at) => line !== "" && lines.indexOf(line) === at);
        expect([...(parseExtended(lines.join("\n")).plain ?? [])]).toEqual(
          first.map((line) => [line, lines.indexOf(line) + 1]),
        );
      }),
      { numRuns: 1000 },
    );
  });
});
