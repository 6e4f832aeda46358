import { expect, it } from "vitest";
import { releaseNotes } from "./changelog.ts";

const FILE = "# Changelog\n\nHello.\n\n## Unreleased\n\n- New.\n\n## 0.1.0 (2026-01-02)\n\n- First.\n";
const RELEASED =
  "# Changelog\n\nHello.\n\n## Unreleased\n\n## 0.2.0 (2026-03-04)\n\n- New.\n\n## 0.1.0 (2026-01-02)\n\n- First.\n";

it("gives what is not released yet a version and a date", () => {
  expect(releaseNotes(FILE, "0.2.0", "2026-03-04")).toEqual({ text: RELEASED, notes: "- New." });
});

it("changes nothing when the version is there: an interrupted release goes on", () => {
  expect(releaseNotes(RELEASED, "0.2.0", "2026-05-06")).toEqual({ text: RELEASED, notes: "- New." });
});

it.each([
  ["nothing is written", RELEASED],
  ["there is no such section", "# Changelog\n"],
])("refuses to release when %s", (_, text) => {
  expect(() => releaseNotes(text, "0.3.0", "2026-05-06")).toThrow("CHANGELOG.md says nothing under");
});
