/** A short benchmark from beginning to end, so that it can be relied on when it is needed. */
import { execFile } from "node:child_process";
import { rm } from "node:fs/promises";
import path from "node:path";
import { promisify } from "node:util";
import { expect, it } from "vitest";

const root = path.join(import.meta.dirname, "..");
/** One small round of the parts that count patches in the audit log, without the Go peer, which takes minutes to build. */
const SHORT = "--only labels,steady --sizes 200 --pairs 1 --rest 1 --no-peer";

it("I-20 make bench runs to its end and measures every node that Berth wrote", async () => {
  const args = ["--conditions=berth-source", "bench/main.ts", ...SHORT.split(" ")];
  const { stdout } = await promisify(execFile)(process.execPath, args, { cwd: root });
  const result = /^written to (?<file>.+)$/m.exec(stdout)?.groups?.["file"] ?? "";
  await rm(result);
  expect(stdout).toContain("200 nodes, 100 labels");
});
