/** Starts the processes of one cluster in a folder and waits until the API server is ready. */
import { mkdir } from "node:fs/promises";
import type { ConnectOptions } from "@berth/kube";
import { type ComponentName, findPrograms, genericOf, type Program, type Programs } from "./assets.ts";
import type { BuildProgress } from "./build.ts";
import {
  componentsOf,
  flagsOf,
  type Layout,
  logFileOf,
  type OptionalComponent,
  type Ports,
} from "./components.ts";
import { type ClusterCredentials, serverUrl, type TokenUser, writeCredentials } from "./credentials.ts";
import { eventually } from "./eventually.ts";
import { findFreePort } from "./ports.ts";
import { type Component, ComponentFailedError, failWhenEnded, lastLines, startComponent } from "./process.ts";
import { callServer, type ServerCall } from "./server-call.ts";

/** What a start is doing now, for a person who waits. */
export type StartProgress =
  | ({ readonly step: "build" } & BuildProgress)
  | { readonly step: "start"; readonly component: ComponentName }
  | { readonly step: "ready"; readonly component: ComponentName; readonly elapsedMs: number };

export interface ControlPlaneOptions {
  readonly folder: string;
  readonly with: ReadonlySet<OptionalComponent>;
  /** Port of the API server; absent: a free one. */
  readonly port?: number;
  readonly audit: boolean;
  /** Kubernetes' generic API server. Default false. */
  readonly small?: boolean;
  readonly users: readonly Pick<TokenUser, "name" | "groups">[];
  readonly flags: Layout["flags"];
  readonly env: Readonly<Record<string, string | undefined>>;
  /** For the API server to be ready, the build not counted. Milliseconds. */
  readonly timeoutMs: number;
  readonly onProgress?: (progress: StartProgress) => void;
  readonly signal?: AbortSignal;
}

/** Running processes and what is needed to talk to them. Disposing kills them. */
export interface ControlPlane extends AsyncDisposable {
  readonly layout: Layout;
  readonly url: string;
  readonly credentials: ClusterCredentials;
  readonly components: ReadonlyMap<ComponentName, Component>;
  /** Starts one again with the flags and data it had; resolves when it is ready. */
  start(name: ComponentName): Promise<void>;
}

const PORT_ATTEMPTS = 3;

/** @throws MissingAssetsError, BuildFailedError, ComponentFailedError, NotEventuallyError; nothing is left running then. */
export async function startControlPlane(options: ControlPlaneOptions): Promise<ControlPlane> {
  const { onProgress } = options;
  const programs = await findPrograms(componentsOf(options.with), {
    env: options.env,
    ...(onProgress ? { onProgress: (build) => onProgress({ step: "build", ...build }) } : {}),
    ...(options.signal ? { signal: options.signal } : {}),
  });
  await mkdir(options.folder, { recursive: true, mode: 0o700 });
  for (let attempt = 1; ; attempt++) {
    try {
      return await startOnPorts(await choosePorts(options.port), programs, options);
    } catch (error) {
      // Another process took a port between our look and the component's; only chosen ports can be chosen again.
      const taken = error instanceof ComponentFailedError && /address already in use/.test(error.message);
      if (!taken || options.port !== undefined || attempt === PORT_ATTEMPTS) throw error;
    }
  }
}

async function choosePorts(apiServer: number | undefined): Promise<Ports> {
  return {
    etcdClient: await findFreePort(),
    etcdPeer: await findFreePort(),
    apiServer: apiServer ?? (await findFreePort()),
  };
}

async function startOnPorts(
  ports: Ports,
  programs: Programs,
  options: ControlPlaneOptions,
): Promise<ControlPlane> {
  const { folder, audit, flags, small = false } = options;
  const layout: Layout = { folder, ports, with: options.with, audit, small, flags };
  const credentials = await writeCredentials(layout, options.users);
  const components = new Map<ComponentName, Component>();
  await using undo = new AsyncDisposableStack();
  const stopAll = async (): Promise<void> => {
    await Promise.all([...components.values()].map((component) => component[Symbol.asyncDispose]()));
  };
  undo.defer(stopAll);
  const launch = async (name: ComponentName): Promise<Component> => {
    options.onProgress?.({ step: "start", component: name });
    const component = await startComponent({
      name,
      program: programOf(programs, name, small),
      flags: flagsOf(name, layout),
      logFile: logFileOf(folder, name),
    });
    components.set(name, component);
    return component;
  };
  /** Each in its place from now on, whichever starts first: what ends later ends in the reverse of this order. */
  const inOrder = (names: readonly ComponentName[]): void => {
    for (const name of names) {
      const component = components.get(name);
      if (component === undefined) continue;
      components.delete(name);
      components.set(name, component);
    }
  };
  const probes = createProbes(layout, credentials);
  const start = async (...names: readonly ComponentName[]): Promise<void> => {
    const startedAt = performance.now();
    const launched = await Promise.all(names.map(launch));
    inOrder(names);
    for (const component of launched) {
      await untilReady(component, launched, probes, options);
      options.onProgress?.({
        step: "ready",
        component: component.name,
        elapsedMs: performance.now() - startedAt,
      });
    }
  };
  // The API server waits for etcd by itself, so both load at the same time. The others give up on a missing server.
  await start("etcd", "kube-apiserver");
  await start(...componentsOf(options.with).slice(2));
  undo.move();
  return {
    layout,
    url: serverUrl(layout),
    credentials,
    components,
    start: (name) => start(name),
    [Symbol.asyncDispose]: stopAll,
  };
}

/** Asks a component whether it is ready; throws while it is not. Those without an answer are ready when running. */
type Probe = (signal: AbortSignal) => Promise<void>;
type Probes = Readonly<Partial<Record<ComponentName, Probe>>>;

function createProbes(layout: Layout, { authority, admin }: ClusterCredentials): Probes {
  const server = { ca: authority.certificate, token: admin.token };
  const url = serverUrl(layout);
  const probe =
    (call: Pick<ServerCall, "url" | "ca" | "token">): Probe =>
    async (signal) => {
      await callServer({ ...call, signal });
    };
  return {
    etcd: probe({ url: `http://127.0.0.1:${layout.ports.etcdClient}/readyz` }),
    "kube-apiserver": probe({ ...server, url: `${url}/readyz` }),
    // Until this account exists, every pod of the namespace is refused.
    "kube-controller-manager": probe({
      ...server,
      url: `${url}/api/v1/namespaces/default/serviceaccounts/default`,
    }),
  };
}

async function untilReady(
  component: Component,
  needed: readonly Component[],
  probes: Probes,
  { timeoutMs, signal }: Pick<ControlPlaneOptions, "timeoutMs" | "signal">,
): Promise<void> {
  const probe = probes[component.name];
  if (probe === undefined) return;
  const done = new AbortController();
  try {
    await Promise.race([
      eventually(probe, { timeoutMs, everyMs: 25, ...(signal ? { signal } : {}) }),
      ...needed.map((each) => failWhenEnded(each, done.signal)),
    ]);
  } catch (error) {
    if (error instanceof ComponentFailedError) throw error;
    const log = await lastLines(component.logFile);
    throw new ComponentFailedError(`${component.name} did not become ready; its log ends:\n${log}`, {
      cause: error,
    });
  } finally {
    done.abort();
  }
}

function programOf(programs: Programs, name: ComponentName, small: boolean): Program {
  const program = programs.get(name);
  if (program === undefined) throw new Error(`${name} is not part of this cluster`);
  return small && name === "kube-apiserver" ? genericOf(program) : program;
}

/** How our own clients of a cluster connect: named so that no test takes them for what it tests. */
export function connectionTo({ url, credentials }: ControlPlane): Pick<
  ConnectOptions,
  "server" | "ca" | "userAgent"
> & {
  readonly ca: string;
} {
  return { server: url, ca: credentials.authority.certificate, userAgent: "berth-testcluster" };
}
