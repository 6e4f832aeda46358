/**
 * A fleet of planes with `berth run` on each: a hub that is the project as well, and cells. Each Berth has the rights
 * that `berth manifests` prints for it, and no others.
 */
import { deepStrictEqual, ok } from "node:assert";
import { execFile } from "node:child_process";
import { mkdtempDisposable, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import path from "node:path";
import { promisify } from "node:util";
import {
  type Cell,
  cells,
  fleet,
  hubKinds,
  instances,
  type Workload,
  type WorkloadDeployment,
  workloadDeployments,
} from "@berth/fleet";
import { toCustomResourceDefinition } from "@berth/host";
import {
  customResourceDefinitions,
  type KubeClient,
  type KubeObject,
  type PolicyRule,
  pods,
} from "@berth/kube";
import { product } from "@berth/placement";
import {
  type AuditMark,
  findFreePort,
  startTestCluster,
  startTestFleet,
  type TestCluster,
  type TestFleet,
} from "@berth/testcluster";
import { exitCodes } from "../packages/cli/src/exit-codes.ts";
import { helmFolder } from "../scripts/chart/helm.ts";
import { runCommand } from "./command.ts";
import { applyPrinted, conditionOf, issueToken, rightsUnused } from "./fleet-fixture.ts";
import { patiently } from "./patience.ts";
import { type BerthProcess, documentsText, startBerthProcess } from "./product.ts";

const HOME = "berth-system";
const CITIES: Readonly<Record<string, string>> = { "dfw-01": "DFW", "dfw-02": "DFW", "ord-01": "ORD" };
const ACCOUNTS = `system:serviceaccount:${HOME}:`;
const REPLICAS = [0, 1];
const NO_SERVERS = ["--metrics-bind-address", "127.0.0.1:0", "--health-probe-bind-address", "127.0.0.1:0"];
const example = path.join(import.meta.dirname, "../examples/fleet/management.yaml");

export class HubFixture implements AsyncDisposable {
  readonly hub: KubeClient;
  readonly #planes: TestFleet;
  readonly #folder: string;
  readonly #owned: AsyncDisposableStack;
  readonly #marks = new Map<string, AuditMark>();
  /** Where `refused` begins instead. */
  readonly #refusedSince = new Map<string, AuditMark>();
  /** By account, `hub berth`: what was printed for it. */
  readonly #rules = new Map<string, readonly PolicyRule[]>();
  /** Files with an AdmissionServer, one for each replica: there is no Service. None: the API server does not ask. */
  readonly #admission: string[] = [];
  #replicas: BerthProcess[] = [];
  readonly #cells = new Map<string, BerthProcess>();
  #config = example;

  constructor(planes: TestFleet, folder: string, owned: AsyncDisposableStack) {
    this.#planes = planes;
    this.#folder = folder;
    this.#owned = owned;
    this.hub = planes.plane("hub").client;
  }

  plane(name: string): TestCluster {
    return this.#planes.plane(name);
  }

  /** From the next start of the hub on, its API server asks Berth about what users write. */
  async serveAdmission(): Promise<void> {
    for (const replica of REPLICAS) {
      const address = `127.0.0.1:${await findFreePort()}`;
      const spec = { bindAddress: address, url: `https://${address}` };
      const text = documentsText([{ kind: "AdmissionServer", spec }]);
      this.#admission.push(await this.#write(`admission-${replica}.yaml`, text));
    }
  }

  /** Two replicas: one leads. @param config the text of a Fleet. Default: the example. */
  async startHub(config?: string): Promise<void> {
    await this.spawnHub(config);
    await this.ready();
  }

  async ready(): Promise<void> {
    await Promise.all(this.#replicas.map((it) => it.ready()));
  }

  /** Whether a replica of the hub answers so when it is asked whether it is ready. The one that leads knows more. */
  async says(what: RegExp): Promise<boolean> {
    const answers = await Promise.all(this.#replicas.map((it) => it.readiness()));
    return answers.some(({ text }) => what.test(text));
  }

  /** The same, and waits for nothing. */
  async spawnHub(config?: string): Promise<void> {
    await this.stopHub();
    this.#config = config === undefined ? example : await this.#write("fleet.yaml", config);
    const file = this.#config;
    await this.#install("hub", file);
    for (const at of REPLICAS) {
      const configs = [file, ...this.#admission.slice(at, at + 1)];
      this.#startReplica(at, [...configs.flatMap((it) => ["--config", it]), "--leader-elect"]);
    }
  }

  /** Of each replica: any of them may lead. */
  async metrics(...asked: Parameters<BerthProcess["metric"]>): Promise<readonly number[]> {
    return Promise.all(this.#replicas.map((it) => it.metric(...asked)));
  }

  async stopHub(): Promise<void> {
    const stopped = this.#replicas;
    this.#replicas = [];
    const ends = stopped.map(({ exit }) => exit);
    await Promise.all(stopped.map((it) => it[Symbol.asyncDispose]()));
    for (const [at, end] of ends.entries())
      ok(
        end === undefined || end === exitCodes.leaseLost,
        `a replica ended with ${end}:\n${stopped[at]?.output}`,
      );
  }

  #startReplica(at: number, args: readonly string[]): void {
    const process = this.#spawn("hub", ...args);
    this.#replicas[at] = process;
    void this.#startAgain(process, at, args);
  }

  /** As a kubelet does it with one that has lost its Lease: it stands by then. */
  async #startAgain(process: BerthProcess, at: number, args: readonly string[]): Promise<void> {
    const end = await process.ended;
    if (end === exitCodes.leaseLost && this.#replicas[at] === process) this.#startReplica(at, args);
  }

  /** @param config the text of its Fleet. Default: that of the mode. */
  async startCell(name: string, config?: string): Promise<void> {
    const file = path.join(this.#folder, `${name}.yaml`);
    const head = "apiVersion: berth.dev/v1alpha1\nkind: Fleet\nmetadata: {name: fleet}\n";
    await writeFile(file, config ?? `${head}spec: {mode: cell, cell: ${name}}\n`);
    await this.#install(name, file);
    const args = config === undefined ? ["--mode", "cell", "--cell", name] : ["--config", file];
    const process = this.#owned.use(this.#spawn(name, ...args));
    this.#cells.set(name, process);
    await process.ready();
  }

  /** Berth in it ends in order, so that another one need not wait for its Lease. */
  async stopCell(name: string): Promise<void> {
    await this.#cells.get(name)?.[Symbol.asyncDispose]();
  }

  /** Changes the file of a hub that was started with a text. */
  async configure(config: string): Promise<void> {
    await writeFile(path.join(this.#folder, "fleet.yaml"), config);
  }

  /** A kubeconfig by which a Fleet may name a server. */
  writeKubeconfig(name: string, text: string): Promise<string> {
    return this.#write(name, text);
  }

  /** As an administrator does it: an account in the cell, its kubeconfig, and one command. */
  async addCell(name: string): Promise<void> {
    const kubeconfig = await this.allowHub(name, "cell");
    const hub = ["--hub-kubeconfig", await this.hubAdmin()];
    const how = ["--city", CITIES[name] ?? "", "--kubeconfig", kubeconfig, ...hub];
    // The API server knows rights a moment after they were given.
    await patiently(() => runCommand("cell", "add", name, ...how));
  }

  /** A Workload of Berth's own cluster. */
  async explained(workload: string): Promise<string> {
    const how = ["--config", this.#config, "--kubeconfig", await this.hubAdmin()];
    return runCommand("explain", "workload", workload, ...how);
  }

  /** What `berth fleet` prints. */
  async listed(): Promise<string> {
    return runCommand("fleet", "--kubeconfig", await this.hubAdmin());
  }

  async forgetCell(name: string): Promise<void> {
    await runCommand("cell", "forget", name, "--yes", "--kubeconfig", await this.hubAdmin());
  }

  /** Resolves with what the command says when the cell is empty, or at once. */
  async drainCell(name: string, ...how: readonly string[]): Promise<string> {
    return runCommand("cell", "drain", name, ...how, "--kubeconfig", await this.hubAdmin());
  }

  async undrainCell(name: string): Promise<void> {
    await runCommand("cell", "undrain", name, "--kubeconfig", await this.hubAdmin());
  }

  /** What `kubectl apply` says on the hub, with the warnings of its API server. */
  async apply(workload: Workload, ...how: readonly string[]): Promise<string> {
    const file = await this.#write("applied.json", JSON.stringify(workload));
    const args = ["apply", "--filename", file, "--kubeconfig", await this.hubAdmin(), ...how];
    const { stdout, stderr } = await promisify(execFile)(path.join(helmFolder(), "kubectl"), args);
    return `${stderr}${stdout}`;
  }

  /** What `berth plan` says of the Workload on the hub. */
  async plan(workload: Workload, ...how: readonly string[]): Promise<string> {
    const file = await this.#write("planned.json", JSON.stringify(workload));
    const as = ["--config", this.#config, "--kubeconfig", await this.hubAdmin()];
    return runCommand("plan", "-f", file, ...as, ...how);
  }

  /** Berth's account on the hub. */
  async asBerth(): Promise<KubeClient> {
    const token = await issueToken(this.hub, { namespace: HOME, name: "berth" });
    return this.#owned.use(this.plane("hub").connect({ user: { name: "berth", groups: [], token } }));
  }

  /** The kubeconfig of an operator. */
  hubAdmin(): Promise<string> {
    return this.#write("hub-admin", this.plane("hub").kubeconfig());
  }

  /** Applies what `berth manifests access` prints. @returns the kubeconfig of the account: a file. */
  async allowHub(plane: string, to: "cell" | "hub" | "project" | "write-back"): Promise<string> {
    const { client } = this.plane(plane);
    const installation = to === "cell" ? [] : ["--installation", to];
    const account = to === "cell" ? "berth-hub" : `berth-${to}-hub`;
    const printed = await applyPrinted(client, "access", "--to", to, "--namespace", HOME, ...installation);
    this.#rules.set(`${plane} ${account}`, rulesIn(printed));
    // As the token of the Secret that is printed, which needs a controller manager.
    const token = await issueToken(client, { namespace: HOME, name: account });
    const text = this.plane(plane).kubeconfig({ user: { name: account, groups: [], token } });
    return this.#write(`${plane}-${to}`, text);
  }

  /** `True/Heard` */
  async reachable(name: string): Promise<string> {
    const cell: Cell = await this.hub.get(cells, { name });
    const { status, reason } = conditionOf(cell, "Reachable") ?? {};
    return `${status}/${reason}`;
  }

  /** The copies of a deployment on the hub, whatever namespace they are in. */
  async onHub(name: string): Promise<WorkloadDeployment | undefined> {
    const { items } = await this.hub.list(workloadDeployments);
    return items.find(({ metadata }) => metadata?.name === name && metadata.namespace?.startsWith("ns-"));
  }

  /** `dfw-01/w-us-dfw-0 registry.test/web:1`, of all cells. */
  async running(): Promise<readonly string[]> {
    const found = await Promise.all(
      Object.keys(CITIES).map(async (cell) => {
        const { items } = await this.plane(cell).client.list(pods);
        return items.flatMap(({ metadata, spec, status }) =>
          status?.phase === "Running" ? [`${cell}/${metadata?.name} ${spec?.containers[0]?.image}`] : [],
        );
      }),
    );
    return found.flat().sort();
  }

  /** Names of Instances in the project. */
  async shown(namespace: string): Promise<readonly string[]> {
    const { items } = await this.hub.list(instances, { namespace });
    return items.map(({ metadata }) => metadata?.name ?? "").sort();
  }

  /** Has the hub put back to a backup. Until its API server is ready, it refuses all. */
  async putBack(restore: () => Promise<void>): Promise<void> {
    deepStrictEqual(await this.refused(), []);
    await restore();
    this.#refusedSince.set("hub", await this.plane("hub").audit.mark());
  }

  /** What API servers did not let an account do: `dfw-01 berth-hub: 403 create pods/ ns-1/a`. */
  async refused(): Promise<readonly string[]> {
    const found = await Promise.all(
      [...this.#marks].map(async ([plane, mark]) => {
        const entries = await this.plane(plane).audit.entriesSince(this.#refusedSince.get(plane) ?? mark);
        // What a policy refuses is 422.
        return entries.flatMap(({ user, code, verb, resource, subresource, namespace, name }) =>
          user.startsWith(ACCOUNTS) && [401, 403, 422].includes(code)
            ? `${plane} ${user.slice(ACCOUNTS.length)}: ${code} ${verb} ${resource}/${subresource} ${namespace}/${name}`
            : [],
        );
      }),
    );
    return found.flat();
  }

  /** What an account of a plane may do, and has not done yet: `watch leases.coordination.k8s.io`. */
  async unused(plane: string, account: string): Promise<readonly string[]> {
    const mark = this.#marks.get(plane);
    ok(mark !== undefined, `nothing is installed in ${plane}`);
    const entries = await this.plane(plane).audit.entriesSince(mark, { user: `${ACCOUNTS}${account}` });
    return rightsUnused(this.#rules.get(`${plane} ${account}`) ?? [], entries);
  }

  /** The process of the test is the pod of what is printed: it has its account. */
  async #install(plane: string, config: string): Promise<void> {
    const { client, audit } = this.plane(plane);
    const how = ["--config", config, "--image", "registry.test/berth:1"];
    const printed = await applyPrinted(client, ...how, "--namespace", HOME);
    this.#rules.set(`${plane} berth`, rulesIn(printed));
    const token = await issueToken(client, { namespace: HOME, name: "berth" });
    const user = { name: "berth", groups: [], token };
    await this.#write(plane, this.plane(plane).kubeconfig({ user }));
    if (!this.#marks.has(plane)) this.#marks.set(plane, await audit.mark());
  }

  async #write(file: string, text: string): Promise<string> {
    const written = path.join(this.#folder, file);
    await writeFile(written, text, { mode: 0o600 });
    return written;
  }

  #spawn(plane: string, ...args: readonly string[]): BerthProcess {
    const connection = ["--kubeconfig", path.join(this.#folder, plane)];
    return startBerthProcess({ args: ["run", ...args, ...connection, ...NO_SERVERS] });
  }

  async [Symbol.asyncDispose](): Promise<void> {
    await using _planes = this.#owned;
    await this.stopHub();
  }
}

/** All planes with the CRDs, Berth in each cell, and a hub that has heard of them. */
export async function hubFixture(): Promise<HubFixture> {
  const cellNames = Object.keys(CITIES);
  const names = ["hub", ...cellNames];
  const fixture = await fixtureOf(names, await startTestFleet({ planes: names, audit: true }));
  await fixture.serveAdmission();
  await Promise.all([fixture.startHub(), ...cellNames.map((name) => fixture.startCell(name))]);
  await addCells(fixture, cellNames);
  return fixture;
}

/**
 * Planes without controllers, so that no pods run. The Berth of the hub runs in the one called hub.
 * @param small those in which no Berth runs.
 */
export async function barePlanes(
  withBerth: readonly string[],
  small: readonly string[],
): Promise<HubFixture> {
  const names = [...withBerth, ...small];
  await using owned = new AsyncDisposableStack();
  const started = names.map(
    async (name) =>
      [name, owned.use(await startTestCluster({ small: small.includes(name), audit: true }))] as const,
  );
  const clusters = new Map(await Promise.all(started));
  const running = owned.move();
  return fixtureOf(names, {
    plane(name) {
      const found = clusters.get(name);
      ok(found, `there is no plane ${name}`);
      return found;
    },
    [Symbol.asyncDispose]: () => running.disposeAsync(),
  });
}

/** Resolves when the hub has heard of them. */
export async function addCells(fixture: HubFixture, names: readonly string[]): Promise<void> {
  for (const name of names) await fixture.addCell(name);
  await patiently(async () => {
    for (const name of names) deepStrictEqual(await fixture.reachable(name), "True/Heard");
  });
}

async function fixtureOf(names: readonly string[], started: TestFleet): Promise<HubFixture> {
  await using owned = new AsyncDisposableStack();
  const planes = owned.use(started);
  const folder = owned.use(await mkdtempDisposable(path.join(tmpdir(), "berth-hub-"))).path;
  const crds = [...(fleet.foreignKinds ?? []), ...hubKinds].map((kind) =>
    toCustomResourceDefinition(kind, product),
  );
  await Promise.all(
    names.map(async (name) => {
      for (const crd of crds) await apply(planes.plane(name).client, crd);
    }),
  );
  return new HubFixture(planes, folder, owned.move());
}

async function apply(client: KubeClient, crd: KubeObject): Promise<void> {
  await client.apply(customResourceDefinitions, crd, { fieldManager: "installer", force: true });
}

/** For the fleet alone. */
function rulesIn(printed: readonly KubeObject[]): readonly PolicyRule[] {
  return printed.flatMap((it) =>
    /(?:-fleet|-hub)$/.test(it.metadata?.name ?? "")
      ? ((it as { readonly rules?: readonly PolicyRule[] }).rules ?? [])
      : [],
  );
}
