/** Real programs, run as the kubelet and Docker run them. */
import { readFile } from "node:fs/promises";
import { performance } from "node:perf_hooks";
import { describe, expect, it } from "vitest";
import {
  CredentialPlugins,
  type CredentialPluginsOptions,
  type CredentialProvider,
} from "./credential-plugins.ts";
import { credentialsFor, type DockerConfig } from "./docker-config.ts";
import { parseReference } from "./reference.ts";
import { type ProgramFolder, printing, programFolder } from "./testing/programs.ts";

const SECRET = "correct-horse-battery";
const credential = { username: "aws", password: SECRET };
const VERSION = "credentialprovider.kubelet.k8s.io/v1";

const provider = (name: string, more: Partial<CredentialProvider> = {}): CredentialProvider => ({
  name,
  apiVersion: VERSION,
  matchImages: ["*.example"],
  defaultCacheMs: 0,
  args: [],
  env: {},
  ...more,
});

interface Given extends Partial<Omit<CredentialPluginsOptions, "folder">> {
  readonly now?: () => number;
}

const pluginsOf = ({ path }: ProgramFolder, { now = () => 0, ...given }: Given): CredentialPlugins =>
  new CredentialPlugins({
    folder: path,
    providers: [],
    environment: { PATH: "/usr/bin:/bin" },
    clock: { monotonic: now },
    timeoutMs: 20_000,
    ...given,
  });

const image = (name: string): ReturnType<typeof parseReference> => parseReference(name);
const A = image("a.example/team/app:1");
const problemsOf = ({ problems }: DockerConfig): readonly string[] => problems;

/** How often a program has run, by what it appends to a file. */
const COUNTS = 'echo run >> "$(dirname "$0")/runs"';
const runsOf = async ({ path }: ProgramFolder): Promise<number> =>
  (await readFile(`${path}/runs`, "utf8").catch(() => "")).split("\n").length - 1;

/** Whether a process ends, which a program has written the number of. */
async function endedOf({ path }: ProgramFolder, file: string): Promise<void> {
  const pid = Number(await readFile(`${path}/${file}`, "utf8"));
  expect(pid).toBeGreaterThan(1);
  await expect.poll(() => isRunning(pid)).toBe(false);
}

async function isRunning(pid: number): Promise<boolean> {
  const text = await readFile(`/proc/${pid}/stat`, "utf8").catch(() => "");
  return text !== "" && !/\) Z /.test(text);
}

describe("credential providers", () => {
  it("are asked about the repository, with their arguments and the environment that is theirs", async () => {
    process.env["BERTH_TEST_PLANTED"] = SECRET;
    await using folder = await programFolder({
      ecr: `cat > request; echo "$@" > args; env > environment\n${printing({ auth: { "a.example": credential } })}`,
    });
    using plugins = pluginsOf(folder, {
      providers: [provider("ecr", { args: ["get", "$(id)"], env: { REGION: "eu", PATH: "/bin:/usr/bin" } })],
    });
    const config = await plugins.ofProviders(A);
    delete process.env["BERTH_TEST_PLANTED"];
    expect(credentialsFor([config], A)).toEqual([credential]);
    const written = (name: string): Promise<string> => readFile(`${folder.path}/${name}`, "utf8");
    expect(JSON.parse(await written("request"))).toEqual({
      apiVersion: VERSION,
      kind: "CredentialProviderRequest",
      image: "a.example/team/app",
    });
    expect(await written("args")).toBe("get $(id)\n");
    const names = (await written("environment")).match(/^\w+(?==)/gm) ?? [];
    // sh adds some of its own.
    const given = names.filter((name) => !["_", "PWD", "OLDPWD", "SHLVL"].includes(name));
    expect(new Set(given)).toEqual(new Set(["PATH", "REGION"]));
  });

  it("are asked where one of their places has the image, and all of these are", async () => {
    await using folder = await programFolder();
    for (const name of ["one", "two", "three"])
      await folder.program(name, printing({ auth: { "*.example": { username: name, password: "p" } } }));
    using plugins = pluginsOf(folder, {
      providers: [
        provider("one", { matchImages: ["a.example/team"] }),
        provider("two", { matchImages: ["b.example", "*.example:5000"] }),
        provider("three"),
      ],
    });
    const users = async (name: string): Promise<readonly unknown[]> =>
      credentialsFor([await plugins.ofProviders(image(name))], image(name)).map(({ username }) => username);
    expect(await users("a.example/team/app")).toEqual(["one", "three"]);
    expect(await users("a.example/other")).toEqual(["three"]);
    expect(await users("b.example/other")).toEqual(["two", "three"]);
    expect(await users("ghcr.io/a/b")).toEqual([]);
  });

  it("that answer for other images give nothing to this one", async () => {
    const auth = { "b.example": credential, "a.example/other": credential };
    await using folder = await programFolder({ ecr: printing({ auth }) });
    using plugins = pluginsOf(folder, { providers: [provider("ecr")] });
    expect(credentialsFor([await plugins.ofProviders(A)], A)).toEqual([]);
  });

  it.each([
    ["Image", [1, 2, 3]],
    ["Registry", [1, 1, 2]],
    ["Global", [1, 1, 1]],
  ])("answer once for each %s, as long as they say", async (cacheKeyType, expected) => {
    const answer = printing({ auth: { "*.example": credential }, cacheKeyType, cacheDuration: "1m0s" });
    await using folder = await programFolder({ ecr: `${COUNTS}\n${answer}` });
    let now = 0;
    using plugins = pluginsOf(folder, { providers: [provider("ecr")], now: () => now });
    const seen: number[] = [];
    for (const name of ["a.example/team/app:1", "a.example/team/other", "b.example/x"]) {
      await plugins.ofProviders(image(name));
      seen.push(await runsOf(folder));
    }
    expect(seen).toEqual(expected);
    await plugins.ofProviders(image("a.example/team/app:2"));
    expect(await runsOf(folder)).toBe(seen.at(-1));
    now = 60_000;
    await plugins.ofProviders(A);
    expect(await runsOf(folder)).toBe((seen.at(-1) ?? 0) + 1);
  });

  it("that say nothing about it are kept as long as the configuration says", async () => {
    await using folder = await programFolder({ ecr: `${COUNTS}\n${printing({ auth: {} })}` });
    using kept = pluginsOf(folder, { providers: [provider("ecr", { defaultCacheMs: 1 })] });
    for (const _ of [1, 2]) await kept.ofProviders(A);
    expect(await runsOf(folder)).toBe(1);
    using never = pluginsOf(folder, { providers: [provider("ecr")] });
    for (const _ of [1, 2]) await never.ofProviders(A);
    expect(await runsOf(folder)).toBe(3);
  });

  it("are run four at a time, and once for one question", async () => {
    const count =
      'echo x >> "$0.$$"; ls "$(dirname "$0")" | grep -c "^ecr[.]" >> most; sleep 0.2; rm "$0.$$"';
    await using folder = await programFolder({ ecr: `${COUNTS}\n${count}\n${printing({ auth: {} })}` });
    using plugins = pluginsOf(folder, { providers: [provider("ecr")] });
    const names = Array.from({ length: 10 }, (_, index) => `a.example/team/app-${index}`);
    await Promise.all([...names, ...names].map((name) => plugins.ofProviders(image(name))));
    expect(await runsOf(folder)).toBe(10);
    const most = (await readFile(`${folder.path}/most`, "utf8")).trim().split("\n").map(Number);
    expect(Math.max(...most)).toBeLessThanOrEqual(4);
  });

  it.each([
    ["is not there", undefined, "does not exist"],
    ["fails", `echo ${SECRET}; echo ${SECRET} >&2; exit 3`, "failed (exit code 3)"],
    ["is killed", `echo ${SECRET}; kill -9 $$`, "failed (SIGKILL)"],
    ["prints no JSON", `echo ${SECRET}`, "answers with what is no JSON"],
    ["prints 100 MB", `yes ${SECRET} | head -c 100000000`, "prints more than 262144 bytes"],
  ])("one that %s is told without what it printed, and the others count", async (_, script, why) => {
    await using folder = await programFolder({ good: printing({ auth: { "a.example": credential } }) });
    if (script !== undefined) await folder.program("bad", script);
    using plugins = pluginsOf(folder, { providers: [provider("bad"), provider("good")] });
    const config = await plugins.ofProviders(A);
    expect(credentialsFor([config], A)).toEqual([credential]);
    expect(problemsOf(config)).toEqual([`the credential provider bad ${why}`]);
  });

  it("one that may not be run is told", async () => {
    await using folder = await programFolder();
    using plugins = pluginsOf(folder, { providers: [provider(".")] });
    expect(problemsOf(await plugins.ofProviders(A))).toEqual([
      "the credential provider . cannot be run (EACCES)",
    ]);
  });

  it("one that hangs ends at the limit with all that it has started", async () => {
    const script = "echo $$ > main; sleep 1000 & echo $! > child; wait";
    await using folder = await programFolder({ ecr: script });
    using plugins = pluginsOf(folder, { providers: [provider("ecr")], timeoutMs: 500 });
    const config = await plugins.ofProviders(A);
    expect(problemsOf(config)).toEqual(["the credential provider ecr had not ended after 0.5 s"]);
    await endedOf(folder, "main");
    await endedOf(folder, "child");
  });

  it("one that leaves a process behind loses it, and its answer counts", async () => {
    const script = `sleep 1000 & echo $! > child\n${printing({ auth: { "a.example": credential } })}`;
    await using folder = await programFolder({ ecr: script });
    using plugins = pluginsOf(folder, { providers: [provider("ecr")] });
    const since = performance.now();
    expect(credentialsFor([await plugins.ofProviders(A)], A)).toEqual([credential]);
    expect(performance.now() - since).toBeLessThan(15_000);
    await endedOf(folder, "child");
  });

  it("one whose process leaves the group and holds its output ends at the limit", async () => {
    const left = "setsid sh -c 'echo > left; exec sleep 3' &\nuntil [ -e left ]; do sleep 0.01; done";
    const script = `${left}\n${printing({ auth: { "a.example": credential } })}`;
    await using folder = await programFolder({ ecr: script });
    using plugins = pluginsOf(folder, { providers: [provider("ecr")], timeoutMs: 500 });
    const config = await plugins.ofProviders(A);
    expect(problemsOf(config)).toEqual(["the credential provider ecr had not ended after 0.5 s"]);
  });

  it("end when they are no longer needed, and no more are started", async () => {
    await using folder = await programFolder({ ecr: "echo $$ > main; sleep 1000" });
    const plugins = pluginsOf(folder, { providers: [provider("ecr")] });
    const running = plugins.ofProviders(A);
    await expect.poll(() => readFile(`${folder.path}/main`, "utf8").catch(() => "")).not.toBe("");
    plugins[Symbol.dispose]();
    const stopped = ["the credential provider ecr was stopped"];
    expect(problemsOf(await running)).toEqual(stopped);
    await endedOf(folder, "main");
    expect(problemsOf(await plugins.ofProviders(A))).toEqual(stopped);
  });
});

describe("credential helpers", () => {
  it("are asked about the server of the image, as Docker asks them", async () => {
    const script = `server=$(cat); echo "$1 $server" >> asked; echo '{"Username":"me","Secret":"${SECRET}"}'`;
    await using folder = await programFolder({ "docker-credential-corp": script });
    using plugins = pluginsOf(folder, {});
    const helpers = [
      { host: "a.example", name: "corp" },
      { host: "index.docker.io", name: "corp" },
      { host: "b.example", name: "missing" },
    ];
    const found = async (name: string): Promise<readonly unknown[]> =>
      credentialsFor([await plugins.ofHelpers(helpers, image(name))], image(name));
    const me = { username: "me", password: SECRET };
    expect(await found("a.example/team/app")).toEqual([me]);
    expect(await found("a.example/other")).toEqual([me]);
    expect(await found("nginx")).toEqual([me]);
    expect(await found("c.example/x")).toEqual([]);
    expect(await readFile(`${folder.path}/asked`, "utf8")).toBe(
      "get a.example\nget https://index.docker.io/v1/\n",
    );
    const missing = await plugins.ofHelpers(helpers, image("b.example/x"));
    expect(problemsOf(missing)).toEqual(["the credential helper docker-credential-missing does not exist"]);
  });
});
