/**
 * The guides, followed as one reader would: in one shell, on one cluster, in the order of their list. Try it starts the
 * cluster, Install starts Berth, and Uninstall ends both.
 */
import { execFile } from "node:child_process";
import { mkdtemp, rm, symlink, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { promisify } from "node:util";
import { anImage, REGISTRY_USER, startForwardProxy, startRegistry } from "@berth/testcluster";
import { describe, expect, it } from "vitest";
import { helmFolder } from "../scripts/chart/helm.ts";
import { type Guide, normal, readGuides } from "./guides.ts";
import { usualPorts } from "./usual-ports.ts";

const root = join(import.meta.dirname, "..");
const run = promisify(execFile);
const guides = readGuides();

/** All guides take four minutes, and more than ten beside much other work on a slow machine. Milliseconds. */
const LIMIT_MS = 2_400_000;
const MARK = "@@@step@@@";

/**
 * One shell for all; a failing command does not end it, as at a prompt. Whatever becomes of it, nothing that it has
 * started stays. The probes are waited for, because a reader types slower than a script.
 */
function scriptOf({ files, steps }: Guide): string {
  const saved = [...files].map(([name, text]) => `cat > ${name} << 'END_OF_FILE'\n${text}END_OF_FILE`);
  const typed = steps
    .map(({ command }) =>
      command.replace("curl -s localhost", "curl -sf --retry 20 --retry-all-errors localhost"),
    )
    .map((command) => `echo '${MARK}'; ${command}`);
  return [...saved, ...typed].join("\n");
}

/** The registry of a company, which wants a login, and which only its proxy finds. */
async function startCompany(): Promise<
  AsyncDisposable & { readonly ca: string; readonly environment: Readonly<Record<string, string>> }
> {
  await using owned = new AsyncDisposableStack();
  const name = "registry.corp.example";
  const registry = owned.use(await startRegistry({ tls: true, names: [name], users: [REGISTRY_USER] }));
  await registry.push(anImage("team/app:1").platforms("linux/amd64", "linux/arm64"));
  const proxy = owned.use(await startForwardProxy({ hosts: { [`${name}:443`]: registry.host } }));
  const started = owned.move();
  return {
    ca: registry.ca ?? "",
    environment: { COMPANY_PROXY: proxy.url },
    [Symbol.asyncDispose]: () => started.disposeAsync(),
  };
}

/** What each step of each guide printed, by the name of the guide. */
async function followAll(): Promise<ReadonlyMap<string, readonly string[]>> {
  await using _ports = await usualPorts();
  await using company = await startCompany();
  const folder = await mkdtemp(join(tmpdir(), "berth-guides-"));
  for (const linked of ["examples", "charts", "kustomize"])
    await symlink(join(root, linked), join(folder, linked));
  await writeFile(join(folder, "ca.pem"), company.ca);
  const script = ["trap 'kill $(jobs -p) 2> /dev/null' EXIT", ...guides.map(scriptOf)].join("\n");
  const path = `${join(root, "bin")}:${process.env["PATH"] ?? ""}:${helmFolder()}`;
  try {
    const { stdout } = await run("bash", ["-c", `${script}\n`], {
      cwd: folder,
      env: { ...process.env, ...company.environment, PATH: path, KUBECONFIG: "" },
      timeout: LIMIT_MS / 2,
    }).catch(({ stdout: said = "" }: { readonly stdout?: string }) => {
      const all = said.split(`${MARK}\n`);
      const of = guides.flatMap(({ name, steps }) => steps.map(({ command }) => `${name}: ${command}`));
      throw new Error(`the guides ended before their end, in ${of[all.length - 2]}\n${all.at(-1)}`);
    });
    const printed = stdout.split(`${MARK}\n`).slice(1).map(normal);
    return new Map(guides.map(({ name, steps }) => [name, printed.splice(0, steps.length)]));
  } finally {
    for (const dir of ["cluster", "fleet", "planes"])
      await run(join(root, "bin/berth"), ["cluster", "stop", "--dir", join(folder, dir)]).catch(
        () => undefined,
      );
    await rm(folder, { recursive: true, force: true });
  }
}

describe("docs/guides", () => {
  let followed: ReturnType<typeof followAll> | undefined;

  it.for(guides)("$name prints what it says", { timeout: LIMIT_MS }, async ({ name, steps }, { skip }) => {
    await run("which", ["curl"]).catch(() => skip("the guides use curl, which is not installed here"));
    followed ??= followAll();
    const printed = (await followed).get(name) ?? [];
    expect(steps.map(({ command }, index) => ({ command, output: printed[index] }))).toEqual(steps);
  });
});
