/**
 * A fleet of planes with `berth run` on each: a hub that is the project as well, and cells. Each Berth has the rights
 * that `berth manifests` prints for it, and no others.
 */
import { deepStrictEqual, ok } from "node:assert";
import { mkdtempDisposable, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import path from "node:path";
import {
  type Cell,
  cells,
  fleet,
  hubKinds,
  instances,
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
  secrets,
} from "@berth/kube";
import { product } from "@berth/placement";
import { type AuditMark, startTestFleet, type TestCluster, type TestFleet } from "@berth/testcluster";
import { runCommand } from "./command.ts";
import { applyPrinted, conditionOf, issueToken, rightsUnused } from "./fleet-fixture.ts";
import { patiently } from "./patience.ts";
import { type BerthProcess, startBerthProcess } from "./product.ts";

const HOME = "berth-system";
const CITIES: Readonly<Record<string, string>> = { "dfw-01": "DFW", "dfw-02": "DFW", "ord-01": "ORD" };
const ACCOUNTS = `system:serviceaccount:${HOME}:`;
const NO_SERVERS = ["--metrics-bind-address", "127.0.0.1:0", "--health-probe-bind-address", "127.0.0.1:0"];
const example = path.join(import.meta.dirname, "../examples/fleet/management.yaml");

export class HubFixture implements AsyncDisposable {
  readonly hub: KubeClient;
  readonly #planes: TestFleet;
  readonly #folder: string;
  readonly #owned: AsyncDisposableStack;
  readonly #marks = new Map<string, AuditMark>();
  /** By account, `hub berth`: what was printed for it. */
  readonly #rules = new Map<string, readonly PolicyRule[]>();
  #replicas: readonly BerthProcess[] = [];

  constructor(planes: TestFleet, folder: string, owned: AsyncDisposableStack) {
    this.#planes = planes;
    this.#folder = folder;
    this.#owned = owned;
    this.hub = planes.plane("hub").client;
  }

  plane(name: string): TestCluster {
    return this.#planes.plane(name);
  }

  /** Two replicas: one leads. @param config the text of a Fleet. Default: the example. */
  async startHub(config?: string): Promise<void> {
    await this.stopHub();
    const file = config === undefined ? example : path.join(this.#folder, "fleet.yaml");
    if (config !== undefined) await writeFile(file, config);
    await this.#install("hub", file);
    this.#replicas = [1, 2].map(() => this.#spawn("hub", "--config", file, "--leader-elect"));
    await Promise.all(this.#replicas.map((it) => it.ready()));
  }

  async stopHub(): Promise<void> {
    await Promise.all(this.#replicas.map((it) => it[Symbol.asyncDispose]()));
    this.#replicas = [];
  }

  async startCell(name: string): Promise<void> {
    const spec = `{mode: cell, cell: ${name}}`;
    const file = path.join(this.#folder, `${name}.yaml`);
    const head = "apiVersion: berth.dev/v1alpha1\nkind: Fleet\nmetadata: {name: fleet}\n";
    await writeFile(file, `${head}spec: ${spec}\n`);
    await this.#install(name, file);
    await this.#owned.use(this.#spawn(name, "--mode", "cell", "--cell", name)).ready();
  }

  /** As an administrator does it: an account in the cell, its kubeconfig, and one command. */
  async addCell(name: string): Promise<void> {
    const kubeconfig = await this.allowHub(name, "cell");
    const hub = ["--hub-kubeconfig", await this.#hubAdmin()];
    const how = ["--city", CITIES[name] ?? "", "--kubeconfig", kubeconfig, ...hub];
    // The API server knows rights a moment after they were given.
    await patiently(() => runCommand("cell", "add", name, ...how));
  }

  async forgetCell(name: string): Promise<void> {
    await runCommand("cell", "forget", name, "--yes", "--kubeconfig", await this.#hubAdmin());
  }

  #hubAdmin(): Promise<string> {
    return this.#write("hub-admin", this.plane("hub").kubeconfig());
  }

  /** Applies what `berth manifests access` prints. @returns the kubeconfig of the account: a file. */
  async allowHub(plane: string, to: "cell" | "hub" | "project"): Promise<string> {
    const { client } = this.plane(plane);
    const installation = to === "cell" ? [] : ["--installation", to];
    const account = to === "cell" ? "berth-hub" : `berth-${to}-hub`;
    const printed = await applyPrinted(client, "access", "--to", to, "--namespace", HOME, ...installation);
    this.#rules.set(`${plane} ${account}`, rulesIn(printed));
    const token = await patiently(async () => {
      const { data } = await client.get(secrets, { namespace: HOME, name: account });
      ok(data?.["token"] !== undefined, "the controller manager has not made the token yet");
      return Buffer.from(data["token"], "base64").toString();
    });
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

  /** What API servers did not let an account do: `dfw-01 berth-hub: 403 create pods/ ns-1/a`. */
  async refused(): Promise<readonly string[]> {
    const found = await Promise.all(
      [...this.#marks].map(async ([plane, mark]) => {
        const entries = await this.plane(plane).audit.entriesSince(mark);
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
    await this.stopHub();
    await this.#owned.disposeAsync();
  }
}

/** All planes with the CRDs, Berth in each cell, and a hub that has heard of them. */
export async function hubFixture(): Promise<HubFixture> {
  await using owned = new AsyncDisposableStack();
  const names = ["hub", ...Object.keys(CITIES)];
  const planes = owned.use(await startTestFleet({ planes: names, audit: true }));
  const folder = owned.use(await mkdtempDisposable(path.join(tmpdir(), "berth-hub-"))).path;
  const crds = [...(fleet.foreignKinds ?? []), ...hubKinds].map((kind) =>
    toCustomResourceDefinition(kind, product),
  );
  await Promise.all(
    names.map(async (name) => {
      for (const crd of crds) await apply(planes.plane(name).client, crd);
    }),
  );
  const cellNames = Object.keys(CITIES);
  const fixture = new HubFixture(planes, folder, owned.move());
  await Promise.all([fixture.startHub(), ...cellNames.map((name) => fixture.startCell(name))]);
  for (const name of cellNames) await fixture.addCell(name);
  await patiently(async () => {
    for (const name of cellNames) deepStrictEqual(await fixture.reachable(name), "True/Heard");
  });
  return fixture;
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
