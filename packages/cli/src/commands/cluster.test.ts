import path from "node:path";
import { describe, expect, it } from "vitest";
import { exitCodes } from "../exit-codes.ts";
import { cli, testFolder } from "../testing/harness.ts";

describe("berth cluster without --dir", () => {
  it("has its cluster in the home folder", async () => {
    await using home = await testFolder();
    const { stdout } = await cli(["cluster", "status", "-o", "json"], { home: home.path });
    const dir = path.join(home.path, ".berth", "cluster");
    expect(JSON.parse(stdout)).toMatchObject({ dir, state: "stopped" });
    const stopped = await cli(["cluster", "stop"], { home: home.path });
    expect(stopped.stdout).toBe(`no cluster runs in ${dir}\n`);
  });

  it.each(["start", "stop", "status"])("%s needs it where there is no home", async (command) => {
    const { code, stderr } = await cli(["cluster", command]);
    expect([code, stderr]).toEqual([
      exitCodes.usage,
      "berth: there is no home folder for the cluster: give --dir\n",
    ]);
  });
});
