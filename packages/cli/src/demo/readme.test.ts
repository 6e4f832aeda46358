import { readFileSync } from "node:fs";
import path from "node:path";
import { expect, it } from "vitest";
import { ARCHITECTURE_SCENES } from "./architecture-story.ts";
import { DESCHEDULE_SCENES } from "./deschedule-story.ts";
import { FLEET_SCENES } from "./fleet-story.ts";
import { FOOTPRINT_SCENES } from "./footprint-story.ts";
import { GATE_SCENES } from "./gate-story.ts";
import { SCENES } from "./story.ts";

const readme = readFileSync(path.join(import.meta.dirname, "../../../../README.md"), "utf8");
const [, transcript = ""] = /^```text\n([\s\S]*?)^```$/m.exec(readme) ?? [];
const lines = [...transcript.matchAll(/^ *\d+ s (.*)$/gm)].map(([, line = ""]) => line);

it("README.md shows scenes of the demo as the demo prints them", () => {
  const scenes = [
    ...SCENES,
    ...DESCHEDULE_SCENES,
    ...GATE_SCENES,
    ...FOOTPRINT_SCENES,
    ...ARCHITECTURE_SCENES,
    ...FLEET_SCENES,
  ];
  const printed = new Set(scenes.flatMap(({ title, expected }) => [title, `  seen: ${expected}`]));
  const shown = lines.filter((line) => /^(?:[A-Z]| {2}seen: )/.test(line));
  expect(shown.length).toBeGreaterThan(5);
  expect(shown.filter((line) => !printed.has(line))).toEqual([]);
});
