import { mkdir, mkdtemp, rename, rm, symlink, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { dirname, join } from "node:path";
import { describe, expect, it } from "vitest";
import { watchFolder } from "./file-source.ts";
import type { FolderSnapshot } from "./folder-reader.ts";
import { publish } from "./testing/mounted.ts";
import { until, watched } from "./testing/watched-folder.ts";

function texts(snapshot: FolderSnapshot | undefined): Record<string, string | undefined> {
  return Object.fromEntries([...(snapshot?.files.values() ?? [])].map((file) => [file.path, file.text]));
}

const latest = ({ snapshots }: { readonly snapshots: readonly FolderSnapshot[] }) => texts(snapshots.at(-1));

describe("watchFolder", () => {
  it("delivers an empty folder as complete and empty, then a file in a new folder", async () => {
    await using w = await watched();
    expect(w.snapshots[0]).toMatchObject({ root: "read", complete: true, problems: [] });
    expect(latest(w)).toEqual({});
    await w.put("accelerators/edgetpu", "board\n");
    await until(() => latest(w)["accelerators/edgetpu"] === "board\n");
  });

  it("makes few deliveries of 20 rapid saves, and the last one is the last text", async () => {
    await using w = await watched({ debounceMs: 1_000, maxWaitMs: 5_000 });
    for (let i = 0; i <= 20; i++) await w.put("a/b", `version ${i}`);
    await until(() => latest(w)["a/b"] === "version 20");
    expect(w.snapshots.length).toBeLessThanOrEqual(4);
  });

  it("sees every swap of a ConfigMap volume, whole and without its bookkeeping entries", async () => {
    await using w = await watched({}, async (root) => {
      await mkdir(root);
      await publish(root, 0, { one: "0", two: "0" });
    });
    expect(latest(w)).toEqual({ one: "0", two: "0" });
    for (const revision of [1, 2, 3]) {
      await publish(w.root, revision, { one: `${revision}`, two: `${revision}` });
      await until(() => latest(w)["one"] === `${revision}`);
    }
    for (const snapshot of w.snapshots) expect(new Set(Object.values(texts(snapshot))).size).toBe(1);
  });

  it("does not deliver the empty middle of a truncate-then-write save", async () => {
    await using w = await watched({ settleMs: 60_000 }, async (root) => {
      await mkdir(root);
      await writeFile(join(root, "rule"), "old");
    });
    await w.put("rule", "");
    // Another change is delivered meanwhile: proof that the empty file was read and held back.
    await w.put("other", "x");
    await until(() => latest(w)["other"] === "x");
    await w.put("rule", "new");
    await until(() => latest(w)["rule"] === "new");
    expect(w.snapshots.map((snapshot) => texts(snapshot)["rule"])).not.toContain("");
  });

  it("says missing, not empty, until the root appears, and again after it was removed", async () => {
    await using w = await watched({}, async () => undefined);
    expect(w.snapshots[0]).toMatchObject({ root: "missing", complete: false });
    await w.put("a/b", "1");
    await until(() => latest(w)["a/b"] === "1");
    await rm(w.root, { recursive: true });
    await until(() => w.snapshots.at(-1)?.root === "missing");
    expect(w.snapshots.at(-1)?.complete).toBe(false);
    await w.put("a/b", "2");
    await until(() => latest(w)["a/b"] === "2");
    await w.put("a/b", "3");
    await until(() => latest(w)["a/b"] === "3");
  });

  it("follows folders that are moved in with files, renamed and removed", async () => {
    await using w = await watched();
    const outside = join(dirname(w.root), "outside");
    await mkdir(join(outside, "deep"), { recursive: true });
    await writeFile(join(outside, "deep", "rule"), "1");
    await rename(outside, join(w.root, "ns"));
    await until(() => latest(w)["ns/deep/rule"] === "1");
    await rename(join(w.root, "ns"), join(w.root, "other"));
    await until(() => Object.keys(latest(w)).join() === "other/deep/rule");
    await w.put("other/deep/rule", "2");
    await until(() => latest(w)["other/deep/rule"] === "2");
    await rm(join(w.root, "other"), { recursive: true });
    await until(() => Object.keys(latest(w)).length === 0);
    expect(w.snapshots.at(-1)).toMatchObject({ root: "read", complete: true });
  });

  it("watches a single file across atomic saves", async () => {
    await using w = await watched(
      {},
      async (root) => mkdir(root),
      (root) => join(root, "config.yaml"),
    );
    expect(w.snapshots[0]?.root).toBe("missing");
    for (const text of ["1", "2", "3"]) {
      await w.put("config.yaml.tmp", text);
      await rename(join(w.root, "config.yaml.tmp"), join(w.root, "config.yaml"));
      await until(() => latest(w)["config.yaml"] === text);
    }
    expect(Object.keys(latest(w))).toEqual(["config.yaml"]);
  });

  it("watches a single file that is a link into a ConfigMap volume elsewhere", async () => {
    await using w = await watched(
      {},
      async (root) => {
        await mkdir(root);
        await publish(root, 0, { "config.yaml": "0" });
        await mkdir(join(dirname(root), "etc"));
        await symlink(join(root, "config.yaml"), join(dirname(root), "etc", "berth.yaml"));
      },
      (root) => join(dirname(root), "etc", "berth.yaml"),
    );
    for (const revision of [1, 2]) {
      await publish(w.root, revision, { "config.yaml": `${revision}` });
      await until(() => latest(w)["berth.yaml"] === `${revision}`);
    }
    expect(w.snapshots.every((snapshot) => snapshot.complete)).toBe(true);
  });

  it("reports one unreadable file and goes on with the rest", async () => {
    await using w = await watched({}, async (root) => {
      await mkdir(root);
      await writeFile(join(root, "bad"), Buffer.from([0xff, 0xfe, 0x00]));
      await writeFile(join(root, "good"), "1");
    });
    expect(w.snapshots[0]?.files.get("bad")).toEqual({ path: "bad", problem: "not UTF-8 text" });
    expect(w.problems).toEqual([{ path: "bad", problem: "not UTF-8 text" }]);
    await w.put("good", "2");
    await until(() => latest(w)["good"] === "2");
    expect(w.problems).toHaveLength(1);
    expect(w.snapshots.at(-1)?.complete).toBe(true);
  });

  it("goes on by polling, and says so, when nothing can be watched", async () => {
    const refuse = (): never => {
      throw Object.assign(new Error("no space"), { code: "ENOSPC" });
    };
    await using w = await watched({ notifier: refuse, blindPollMs: 20 });
    await w.put("a/b", "1");
    await until(() => latest(w)["a/b"] === "1");
    await w.put("a/b", "2");
    await until(() => latest(w)["a/b"] === "2");
    expect(w.problems.some(({ problem }) => problem.includes("max_user_watches"))).toBe(true);
  });

  it("keeps delivering under a storm that never pauses", async () => {
    await using w = await watched({ debounceMs: 2_000, maxWaitMs: 1_000 });
    let round = 0;
    await until(() => w.snapshots.length >= 4, {
      meanwhile: () => w.put("a/b", `${++round}`),
    });
    expect(round).toBeGreaterThan(20);
  });

  it("survives a receiver that throws, and reports it", async () => {
    let calls = 0;
    const problems: string[] = [];
    const stop = new AbortController();
    const root = await mkdtemp(join(tmpdir(), "berth-files-"));
    const done = watchFolder({
      path: root,
      debounceMs: 10,
      signal: stop.signal,
      onProblem: ({ problem }) => problems.push(problem),
      onChange: () => {
        calls += 1;
        throw new Error("not today");
      },
    });
    await until(() => calls === 1);
    await writeFile(join(root, "a"), "1");
    await until(() => calls === 2);
    expect(problems.every((problem) => problem.includes("not today"))).toBe(true);
    stop.abort();
    await done;
    await rm(root, { recursive: true });
  });
});
