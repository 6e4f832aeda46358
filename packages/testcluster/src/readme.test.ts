import { readFile } from "node:fs/promises";
import { expect, it } from "vitest";

it("shows an example that is run against a real cluster", async () => {
  const readme = await readFile(new URL("../README.md", import.meta.url), "utf8");
  const example = await readFile(new URL("./readme.cluster.test.ts", import.meta.url), "utf8");
  expect(readme).toContain(`\`\`\`ts\n${example}\`\`\``);
});
