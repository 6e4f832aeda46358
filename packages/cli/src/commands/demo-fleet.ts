import { mkdtempDisposable, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { formatSeconds, Progress, type Style, styleFor } from "@berth/host";
import { whenAborted } from "@berth/runtime";
import { startTestFleet, type TestFleet } from "@berth/testcluster";
import type { CommandDeps } from "../command-deps.ts";
import { runBerth, startBerth } from "../demo/berth-process.ts";
import { CELLS, CELLS_SCENES, type CellsWorld, playCells } from "../demo/cells-story.ts";
import { serveFleetKinds } from "../demo/fleet-story.ts";
import { narrateFleet } from "../demo/narrator.ts";
import { CommandError, type ExitCode, exitCodes } from "../exit-codes.ts";
import { describeProgress } from "./cluster.ts";
import type { DemoOptions } from "./demo.ts";

const HUB = "hub";
const NAMES = Object.values(CELLS).flat();
const MANAGEMENT = `apiVersion: berth.dev/v1alpha1
kind: Fleet
metadata:
  name: demo
spec:
  mode: management
  hub: self
  projects: self
`;

/** Starts a hub and three cells with Berth in each as a process of its own, and plays scenes on them. */
export async function demoFleet(options: DemoOptions, deps: CommandDeps): Promise<ExitCode> {
  const { stdout, clock, signal } = deps;
  const style = styleFor(stdout);
  const startedAt = clock.monotonic();
  const say = (line: string): void =>
    stdout.write(`${style.aside(formatSeconds(clock.monotonic() - startedAt).padStart(6))} ${line}\n`);

  say(style.heading(`Starting four real clusters: ${[HUB, ...NAMES].join(", ")}`));
  await using planes = await startPlanes(deps);
  await using folder = await mkdtempDisposable(join(tmpdir(), "berth-demo-"));
  const kubeconfigOf = (name: string): string => join(folder.path, name);
  for (const name of [HUB, ...NAMES]) {
    await writeFile(kubeconfigOf(name), planes.plane(name).kubeconfig(), { mode: 0o600 });
    await serveFleetKinds(planes.plane(name).client, signal);
  }
  const config = join(folder.path, "management.yaml");
  await writeFile(config, MANAGEMENT);

  const stop = new AbortController();
  const ending = AbortSignal.any([signal, stop.signal]);
  const { client: hub } = planes.plane(HUB);
  const narration = await narrateFleet({ client: hub, clock, style, signal: ending, say });
  await using berths = new AsyncDisposableStack();
  const run = (name: string, args: readonly string[]) => {
    say(style.heading(`Berth runs in ${name}: ${deps.self} run ${args.join(" ")}`));
    const all = [...args, "--kubeconfig", kubeconfigOf(name)];
    return berths.use(startBerth(deps, all));
  };
  const processes = [
    run(HUB, ["--config", config]),
    ...NAMES.map((name) => run(name, ["--mode", "cell", "--cell", name])),
  ];
  const berth = (args: readonly string[]): Promise<string> =>
    runBerth({ ...deps, environment: { ...deps.environment, KUBECONFIG: kubeconfigOf(HUB) } }, args);
  for (const [city, names] of Object.entries(CELLS))
    for (const name of names) {
      say(style.heading(`berth cell add ${name} --city ${city} --kubeconfig ${kubeconfigOf(name)}`));
      await berth(["cell", "add", name, "--city", city, "--kubeconfig", kubeconfigOf(name)]);
    }
  const world: CellsWorld = {
    hub,
    cell: (name) => planes.plane(name),
    berth,
    say,
    signal: AbortSignal.any(processes.map(({ ended }) => ended)),
  };
  for (const scene of CELLS_SCENES) {
    say(style.heading(scene.title));
    await playCells(scene, world).catch((cause: unknown) => {
      if (signal.aborted) return;
      const why = cause instanceof Error ? cause.message : String(cause);
      const logs = processes.map((it) => it.log()).join("\n");
      throw new CommandError(`the demo expected that ${scene.expected}, but: ${why}\n${logs}`);
    });
    if (signal.aborted) return exitCodes.done;
    say(`  seen: ${scene.expected}`);
  }
  say(style.heading("The demo saw all of it happen"));
  stdout.write(lookAround(style, { self: deps.self, hub: kubeconfigOf(HUB), cell: kubeconfigOf("ord-01") }));
  if (!options.exit) {
    stdout.write("The clusters stay up until Ctrl-C.\n");
    await whenAborted(signal);
  }
  stop.abort();
  await narration.ended;
  return exitCodes.done;
}

async function startPlanes({ stderr, clock, signal, environment }: CommandDeps): Promise<TestFleet> {
  using progress = new Progress(stderr, clock, "looking for the control plane");
  return await startTestFleet({
    planes: [HUB, ...NAMES],
    env: environment,
    signal,
    onProgress: (step) => progress.update(describeProgress(step)),
  });
}

function lookAround(
  style: Style,
  { self, hub, cell }: { readonly self: string; readonly hub: string; readonly cell: string },
): string {
  return [
    "",
    style.heading("Look around:"),
    `  ${self} cell list --kubeconfig ${hub}`,
    `  kubectl --kubeconfig ${hub} apply -f examples/fleet/workload-two-cities.yaml`,
    `  ${self} fleet --kubeconfig ${hub}`,
    `  ${self} explain workload hello-cities --kubeconfig ${hub}`,
    `  kubectl --kubeconfig ${cell} get pods -A`,
    "",
    "",
  ].join("\n");
}
