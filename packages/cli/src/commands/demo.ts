import { mkdir, mkdtempDisposable, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { formatSeconds, Progress, type Style, styleFor } from "@berth/host";
import { nodes } from "@berth/kube";
import { whenAborted } from "@berth/runtime";
import {
  eventually,
  findFreePort,
  REGISTRY_USER,
  startRegistry,
  startTcpProxy,
  startTestCluster,
  type TestCluster,
  type TestRegistry,
} from "@berth/testcluster";
import type { CommandDeps } from "../command-deps.ts";
import { ARCHITECTURE_SCENES, admissionServer, setTheArchitectureStage } from "../demo/architecture-story.ts";
import { runBerth, startBerth } from "../demo/berth-process.ts";
import { COMPANY_HOST, COMPANY_SCENES, openCompany } from "../demo/company.ts";
import { DESCHEDULE_SCENES } from "../demo/deschedule-story.ts";
import { FLEET_SCENES, fleetDocument, setTheFleetStage } from "../demo/fleet-story.ts";
import { FOOTPRINT_SCENES } from "../demo/footprint-story.ts";
import { GATE, GATE_SCENES, NAMESPACE, setTheGateStage } from "../demo/gate-story.ts";
import { narrate } from "../demo/narrator.ts";
import { DERIVED, play, SCENES, setTheStage, type World } from "../demo/story.ts";
import { CommandError, type ExitCode, exitCodes } from "../exit-codes.ts";
import { describeProgress } from "./cluster.ts";

export interface DemoOptions {
  /** Ends after the last scene instead of waiting for Ctrl-C. */
  readonly exit: boolean;
}

/** Starts a real cluster with Berth as a separate process, and plays scenes on them. */
export async function demo(options: DemoOptions, deps: CommandDeps): Promise<ExitCode> {
  const { stdout, clock, signal } = deps;
  const style = styleFor(stdout);
  const startedAt = clock.monotonic();
  const say = (line: string): void =>
    stdout.write(`${style.aside(formatSeconds(clock.monotonic() - startedAt).padStart(6))} ${line}\n`);

  say(style.heading("Starting a real cluster: etcd, API server, scheduler, controller manager, kwok"));
  await using cluster = await startCluster(deps);
  await using registry = await startImages(deps);
  await using quota = await startTcpProxy({ target: new URL(cluster.url) });
  await using folder = await mkdtempDisposable(join(tmpdir(), "berth-demo-"));
  const kubeconfig = join(folder.path, "kubeconfig");
  const rules = join(folder.path, "labels");
  await writeFile(kubeconfig, cluster.kubeconfig(), { mode: 0o600 });
  const quotaKubeconfig = join(folder.path, "quota-kubeconfig");
  await writeFile(quotaKubeconfig, cluster.kubeconfig({ server: quota.url }), { mode: 0o600 });
  const config = join(folder.path, "config");
  await mkdir(config);
  await writeFile(join(config, "startup-gate.yaml"), GATE);
  await using company = await openCompany(folder.path, registry);
  const berthDeps = { ...deps, environment: { ...deps.environment, ...company.environment } };
  await writeFile(join(config, "admission-server.yaml"), admissionServer(await findFreePort()));
  await writeFile(join(config, "fleet.yaml"), fleetDocument(quotaKubeconfig));
  const { images, node: third } = await setTheArchitectureStage({ client: cluster.client }, company);
  const names = [...(await setTheStage({ client: cluster.client, rules })), third];
  await setTheGateStage({ client: cluster.client });
  const unpullable = await setTheFleetStage({ client: cluster.client, signal }, company);
  await allReady(cluster, names, signal);
  say(`The nodes ${names.join(", ")} are Ready`);

  const stop = new AbortController();
  const ending = AbortSignal.any([signal, stop.signal]);
  const narration = await narrate({ client: cluster.client, clock, style, signal: ending, say });
  const args = ["--kubeconfig", kubeconfig, "--label-dir", rules, "--config", config];
  await using berth = startBerth(berthDeps, [...args, "--namespace", NAMESPACE]);
  say(style.heading(`Berth runs: ${deps.self} run ${args.join(" ")}`));
  say(
    `Its images are of ${COMPANY_HOST}, which wants a login and is behind the proxy ${company.environment.HTTPS_PROXY}`,
  );

  const node = (name: string) =>
    narration.nodes.get({ cluster: narration.nodes.cluster, namespace: "", name });
  const world: World = {
    client: cluster.client,
    rules,
    node,
    berth: (command) => runBerth(berthDeps, [...command, "--kubeconfig", kubeconfig, "--config", config]),
    images,
    unpullable,
    policyFile: join(config, "architecture-policy.yaml"),
    footprintFile: join(config, "node-footprint.yaml"),
    descheduleFile: join(config, "deschedule-policy.yaml"),
    quota,
    hasPrinted: (text) => berth.hasPrinted(text),
    say,
    signal: berth.ended,
  };
  const later = [
    ...GATE_SCENES,
    ...FOOTPRINT_SCENES,
    ...ARCHITECTURE_SCENES,
    ...FLEET_SCENES,
    ...COMPANY_SCENES,
  ];
  for (const scene of [...SCENES, ...DESCHEDULE_SCENES, ...later]) {
    say(style.heading(scene.title));
    await play(scene, world).catch((cause: unknown) => {
      if (signal.aborted) return;
      const why = cause instanceof Error ? cause.message : String(cause);
      throw new CommandError(`the demo expected that ${scene.expected}, but: ${why}\n${berth.log()}`);
    });
    if (signal.aborted) return exitCodes.done;
    say(`  seen: ${scene.expected}`);
  }
  say(style.heading("The demo saw all of it happen"));
  stdout.write(
    lookAround(style, {
      self: deps.self,
      kubeconfig,
      rules,
      config,
      image: images.web,
      proxy: company.environment.HTTPS_PROXY,
    }),
  );
  if (!options.exit) {
    stdout.write("The cluster stays up until Ctrl-C.\n");
    await whenAborted(signal);
  }
  stop.abort();
  await narration.ended;
  return exitCodes.done;
}

async function startCluster(deps: CommandDeps): Promise<TestCluster> {
  const { stderr, clock, signal, environment } = deps;
  using progress = new Progress(stderr, clock, "looking for the control plane");
  return await startTestCluster({
    with: ["scheduler", "controller-manager", "kwok"],
    env: environment,
    signal,
    onProgress: (step) => progress.update(describeProgress(step)),
  });
}

async function startImages({ stderr, clock, signal, environment }: CommandDeps): Promise<TestRegistry> {
  using progress = new Progress(stderr, clock, "looking for the image registry");
  return await startRegistry({
    env: environment,
    signal,
    tls: true,
    names: [COMPANY_HOST],
    users: [REGISTRY_USER],
    onProgress: ({ packages }) =>
      progress.update(`building the image registry, once, about a minute: ${packages} packages`),
  });
}

async function allReady(cluster: TestCluster, names: readonly string[], signal: AbortSignal): Promise<void> {
  await eventually(
    async () => {
      for (const name of names) {
        const node = await cluster.client.get(nodes, { name });
        const ready = node.status?.conditions?.find(({ type }) => type === "Ready")?.status === "True";
        if (!ready || (node.spec?.taints ?? []).length > 0) throw new Error(`${name} is not ready`);
      }
    },
    { timeoutMs: 60_000, signal },
  );
}

type Place = "self" | "kubeconfig" | "rules" | "config" | "image" | "proxy";

function lookAround(
  style: Style,
  { self, kubeconfig, rules, config, image, proxy }: Readonly<Record<Place, string>>,
): string {
  const berth = `--kubeconfig ${kubeconfig} --label-dir ${rules} --config ${config}`;
  return [
    "",
    style.heading("Look around:"),
    `  kubectl --kubeconfig ${kubeconfig} get nodes -L ${DERIVED}`,
    `  kubectl --kubeconfig ${kubeconfig} get events.events.k8s.io -A`,
    `  ${self} explain node core-1 ${berth}`,
    `  ${self} plan ${berth}`,
    `  ${self} explain pod default/sensor-2 --kubeconfig ${kubeconfig} --config ${config}`,
    `  HTTPS_PROXY=${proxy} ${self} image inspect ${image} --config ${config}`,
    `  kubectl --kubeconfig ${kubeconfig} get workloads,workloaddeployments,instances`,
    `  ${self} explain workload default/api --kubeconfig ${kubeconfig} --config ${config}`,
    `  ${self} gate list --kubeconfig ${kubeconfig} --config ${config}`,
    `  kubectl --kubeconfig ${kubeconfig} scale deployment shop --replicas=4    # its agent follows`,
    `  echo kubernetes.io/arch >> ${join(rules, DERIVED)}    # every node gets the label`,
    `  ${self} clean --kubeconfig ${kubeconfig}`,
    "",
    "",
  ].join("\n");
}
