/** The dashboard, by Grafana's own schema. */
import { spawnSync } from "node:child_process";
import { join } from "node:path";
import { expect, it } from "vitest";
import { dashboard } from "../../scripts/dashboard.ts";
import { root } from "../pages.ts";

function problemsOf(input: string): string {
  const { stderr } = spawnSync("go", ["run", "."], {
    cwd: join(root, "tools/grafana"),
    input,
    encoding: "utf8",
  });
  return stderr;
}

it("has every field that Grafana needs, and no other", () => expect(problemsOf(dashboard())).toBe(""));

it("is refused with a field that Grafana does not know", () => {
  const text = JSON.stringify({ ...JSON.parse(dashboard()), colour: "red" });
  expect(problemsOf(text)).toContain("colour");
});
