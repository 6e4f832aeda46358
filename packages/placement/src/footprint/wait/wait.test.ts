import { execFile } from "node:child_process";
import { chmod, mkdtemp, rm, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import path from "node:path";
import { promisify } from "node:util";
import { applyPatch } from "@berth/host";
import { describe, expect, it } from "vitest";
import type { PortWait } from "../../api/wait-container.ts";
import { waitContainer } from "../../api/wait-container.ts";
import { injectWait } from "./admit.ts";

const wait: PortWait = {
  containerName: "wait-for-atelet",
  image: "busybox:1.36",
  port: 8085,
};
const container = waitContainer(wait);

/** Runs the script with an `nc` that finds nobody for so many times. */
async function run(timeoutSeconds: number | undefined, misses: number): Promise<string> {
  await using owned = new AsyncDisposableStack();
  const folder = await mkdtemp(path.join(tmpdir(), "berth-wait-"));
  owned.defer(() => rm(folder, { recursive: true }));
  const nc = path.join(folder, "nc");
  await writeFile(
    nc,
    `#!/bin/sh\necho "$@" >>${folder}/calls\n[ "$(wc -l <${folder}/calls)" -gt ${misses} ]\n`,
  );
  await chmod(nc, 0o755);
  await writeFile(path.join(folder, "sleep"), "#!/bin/sh\n");
  await chmod(path.join(folder, "sleep"), 0o755);
  const { command = [] } = waitContainer({
    ...wait,
    ...(timeoutSeconds !== undefined && { timeoutSeconds }),
  });
  const [shell = "", ...rest] = command;
  const env = { PATH: `${folder}:/usr/bin:/bin`, HOST_IP: "10.0.0.7" };
  await promisify(execFile)(shell, rest, { env, timeout: 20_000 });
  const { stdout } = await promisify(execFile)("sort", ["-u", `${folder}/calls`], { env });
  return stdout.trim();
}

describe("the container that waits for the agent", () => {
  it("F-9 is the one of the original, field by field", () => {
    expect(container).toEqual({
      name: "wait-for-atelet",
      image: "busybox:1.36",
      command: ["sh", "-c", 'until nc -z "$HOST_IP" 8085; do sleep 1; done'],
      env: [{ name: "HOST_IP", valueFrom: { fieldRef: { fieldPath: "status.hostIP" } } }],
    });
  });

  it("ends when somebody listens at the address of the node", async () => {
    expect(await run(undefined, 2)).toBe("-z 10.0.0.7 8085");
    expect(await run(600, 2)).toBe("-z -w 2 10.0.0.7 8085");
  });

  it("F-E17 ends well after its timeout, though nobody listens", async () => {
    expect(await run(1, 1_000_000)).toBe("-z -w 2 10.0.0.7 8085");
  });
});

describe("a pod that is to wait", () => {
  const main = { name: "main", image: "i" };

  it.each([
    ["without init containers", { containers: [main] }, ["wait-for-atelet"]],
    [
      "before its other init containers",
      { containers: [main], initContainers: [{ name: "a" }, { name: "b" }] },
      ["wait-for-atelet", "a", "b"],
    ],
    [
      "not twice",
      { containers: [main], initContainers: [{ name: "a" }, container] },
      ["a", "wait-for-atelet"],
    ],
  ])("gets the container %s", (_name, spec, names) => {
    const after = applyPatch({ spec }, injectWait(spec, [container])) as {
      readonly spec: { readonly initContainers: readonly { readonly name: string }[] };
    };
    expect(after.spec.initContainers.map(({ name }) => name)).toEqual(names);
    expect(injectWait(after.spec, [container])).toEqual([]);
  });

  it("gets none whose name another container has: the API server would refuse the pod", () => {
    expect(injectWait({ containers: [{ name: "wait-for-atelet" }] }, [container])).toEqual([]);
  });

  it("gets those of several agents in their order", () => {
    const others = { ...container, name: "wait-for-other" };
    const spec = { containers: [main], initContainers: [{ name: "a" }] };
    const { spec: after } = applyPatch({ spec }, injectWait(spec, [container, others])) as {
      spec: typeof spec;
    };
    expect(after.initContainers.map(({ name }) => name)).toEqual(["wait-for-atelet", "wait-for-other", "a"]);
  });

  it.each([
    null,
    7,
    "x",
    [],
    { initContainers: 7 },
    { initContainers: [null, 7, { name: 7 }], containers: {} },
  ])("can be anything: %j", (spec) => {
    expect(() => injectWait(spec, [container])).not.toThrow();
  });
});
