import { displayWidth, formatColumns, styleFor } from "@berth/host";
import * as fc from "fast-check";
import { describe, expect, it } from "vitest";
import { parse } from "yaml";
import { cli } from "../testing/harness.ts";
import { printData } from "./data.ts";
import { guardOutput } from "./guard.ts";

function terminal() {
  const written: string[] = [];
  const output = guardOutput({ write: (text) => void written.push(text), isTerminal: true, columns: 80 });
  return { output, text: () => written.join("") };
}

/** What moves the cursor, paints, or turns the direction of text. */
const CONTROL = /[^\P{Cc}\n\t]|[\u061c\u200e\u200f\u202a-\u202e\u2066-\u2069]/u;
const name = fc
  .array(fc.constantFrom("a", "\u001b[2J", "\u001b[31m", "\u009b1m", "\u202e", "\r", "\u0007", "\u{1f600}"))
  .map((parts) => parts.join(""));

describe("S-10 what tenants have named", () => {
  it("reaches a terminal without control and bidi characters, between colours that do", () => {
    fc.assert(
      fc.property(name, (given) => {
        const { output, text } = terminal();
        output.write(`${styleFor(output).heading("pod")} ${given}\n`);
        expect(text().slice(0, 13)).toBe("\u001b[1mpod\u001b[22m ");
        expect(text().slice(13)).not.toMatch(CONTROL);
      }),
    );
  });

  it("is escaped in whatever a command says", async () => {
    const { stderr } = await cli(["\u001b[31m\u202ename"]);
    expect(stderr).toContain("\\u001b[31m\\u202ename");
    expect(stderr).not.toMatch(CONTROL);
  });

  it("does not pass for a sequence of Berth, nor for another row", () => {
    const { output, text } = terminal();
    const style = styleFor(output);
    expect(displayWidth(style.added("abc"))).toBe(3);
    output.write(
      formatColumns([
        ["web", "image\nnode/n1 is fine"],
        ["\u001b[1000;1000;1000;31mred", "x"],
      ]),
    );
    expect(text().trimEnd().split("\n")).toHaveLength(2);
    expect(text()).not.toMatch(CONTROL);
  });

  it("means the same in data for scripts", () => {
    fc.assert(
      fc.property(name, (given) => {
        const json = terminal();
        printData(json.output, { given }, "json");
        expect(JSON.parse(json.text())).toEqual({ given });
        const yaml = terminal();
        printData(yaml.output, { given }, "yaml");
        expect(parse(yaml.text(), { version: "1.1" })).toEqual({ given });
        expect(json.text() + yaml.text()).not.toMatch(CONTROL);
      }),
    );
  });
});
