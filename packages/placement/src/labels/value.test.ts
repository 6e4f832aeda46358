import * as fc from "fast-check";
import { describe, expect, it } from "vitest";
import { labelValueProblem } from "../node/validate.ts";
import type { ConditionFault } from "./condition.ts";
import type { LabelOutput } from "./document.ts";
import { type Fact, unknown } from "./facts.ts";
import { factsOf, formatFact } from "./testing/facts.ts";
import { compileValue, fixedValue, sanitizeValue } from "./value.ts";

const facts: Readonly<Record<string, Fact>> = {
  "NodeInfo/osImage": "Ubuntu 24.04.1 LTS",
  "NodeInfo/architecture": "arm64",
  "Label/example.com/gen": "4",
  "Label/empty": "",
  "Label/unread": unknown,
};

function valueOf(output: Omit<LabelOutput, "key">): Fact {
  const fail = ({ message }: ConditionFault): void => expect.unreachable(message);
  return compileValue({ key: "k", ...output }, fail).of(factsOf(facts));
}

describe("values", () => {
  it.each<[string, Omit<LabelOutput, "key">, Fact]>([
    ["is true when nothing is said", {}, "true"],
    ["is fixed", { value: "x" }, "x"],
    ["can be empty", { value: "" }, ""],
    ["is copied from a label", { valueFrom: { key: "example.com/gen" } }, "4"],
    ["is copied from another source", { valueFrom: { source: "NodeInfo", key: "architecture" } }, "arm64"],
    ["is copied as it is", { valueFrom: { source: "NodeInfo", key: "osImage" } }, "Ubuntu 24.04.1 LTS"],
    [
      "is the first group of a pattern",
      { valueFrom: { source: "NodeInfo", key: "osImage", pattern: "(\\d+)\\.(\\d+)" } },
      "24",
    ],
    [
      "is the whole match without a group",
      { valueFrom: { source: "NodeInfo", key: "osImage", pattern: "\\d+\\.\\d+" } },
      "24.04",
    ],
    [
      "is absent when the pattern does not match",
      { valueFrom: { source: "NodeInfo", key: "osImage", pattern: "Debian" } },
      undefined,
    ],
    ["is absent when the fact is", { valueFrom: { key: "nothing" } }, undefined],
    ["is empty when the fact is", { valueFrom: { key: "empty" } }, ""],
    ["cannot be told when the fact cannot", { valueFrom: { key: "unread", pattern: "x" } }, unknown],
    ["is put together", { valueTemplate: "v${Label/example.com/gen}-${NodeInfo/architecture}" }, "v4-arm64"],
    ["is text without placeholders", { valueTemplate: "plain$1}" }, "plain$1}"],
    ["is absent when one part is", { valueTemplate: "${NodeInfo/architecture}-${Label/no}" }, undefined],
    ["cannot be told when one part cannot", { valueTemplate: "a${Label/unread}" }, unknown],
    [
      "is sanitized",
      { valueFrom: { source: "NodeInfo", key: "osImage" }, sanitize: true },
      "Ubuntu_24.04.1_LTS",
    ],
    [
      "is sanitized as a whole",
      { valueTemplate: "-${NodeInfo/osImage}-", sanitize: true },
      "Ubuntu_24.04.1_LTS",
    ],
    ["stays absent when sanitized", { valueFrom: { key: "nothing" }, sanitize: true }, undefined],
    ["stays untold when sanitized", { valueTemplate: "${Label/unread}", sanitize: true }, unknown],
  ])("a value %s", (_what, output, expected) => {
    expect(valueOf(output)).toBe(expected);
  });

  it.each([
    ["${}", /expected a source and a key/],
    ["${Label}", /expected a source and a key/],
    ["${Label/}", /expected a source and a key/],
    ["${label/a}", /sources are Label, Annotation/],
    ["${toString/a}", /sources are Label, Annotation/],
    ["a${Label/b", /without a `}`/],
    ["${Label/a/b/c}", /at most one `\/`/],
    ["${Label/${Label/a}}", /is not a DNS subdomain/],
  ])("reports the template %s", (valueTemplate, message) => {
    const faults: ConditionFault[] = [];
    compileValue({ key: "k", valueTemplate }, (fault) => faults.push(fault));
    expect(faults).toHaveLength(1);
    expect(faults[0]).toMatchObject({ path: ["valueTemplate"], message: expect.stringMatching(message) });
  });

  it("reports a pattern that is none", () => {
    const faults: ConditionFault[] = [];
    compileValue({ key: "k", valueFrom: { key: "a", pattern: "(" } }, (fault) => faults.push(fault));
    expect(faults).toMatchObject([{ path: ["valueFrom", "pattern"] }]);
  });

  it("name the facts that they need", () => {
    const { reads } = compileValue({ key: "k", valueTemplate: "${Label/a}-${Taint/b:NoSchedule}" }, () => {});
    expect(reads.map(formatFact)).toEqual(["Label/a", "Taint/b:NoSchedule"]);
    expect(fixedValue("x").reads).toEqual([]);
  });
});

describe("sanitizing", () => {
  it.each([
    ["", ""],
    ["already-fine_1.0", "already-fine_1.0"],
    ["a b/c", "a_b_c"],
    ["  x  ", "x"],
    ["--x--", "x"],
    ["___", ""],
    ["żółw", "w"],
    ["a😀b", "a__b"],
    [`${"a".repeat(62)}--b`, "a".repeat(62)],
    ["a".repeat(100), "a".repeat(63)],
    [`${" ".repeat(4096)}late`, ""],
  ])("%j becomes %j", (text, expected) => {
    expect(sanitizeValue(text)).toBe(expected);
  });

  it("gives a label value from any text, and leaves one as it is", () => {
    const any = fc.oneof(
      fc.string(),
      fc.string({ unit: "binary" }),
      fc.stringMatching(/^[-_. a-z0-9]{0,80}$/),
    );
    fc.assert(
      fc.property(any, (text) => {
        const value = sanitizeValue(text);
        expect(labelValueProblem(value)).toBeUndefined();
        expect(sanitizeValue(value)).toBe(value);
        expect(value === text).toBe(labelValueProblem(text) === undefined);
      }),
      { numRuns: 500 },
    );
  });
});
