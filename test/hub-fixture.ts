/** A fleet of planes with `berth run` on each: a hub that is the project as well, and cells. */
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
  namespaces,
  pods,
  secrets,
} from "@berth/kube";
import { product } from "@berth/placement";
import { startTestFleet, type TestCluster, type TestFleet } from "@berth/testcluster";
import { conditionOf } from "./fleet-fixture.ts";
import { patiently } from "./patience.ts";
import { type BerthProcess, startBerthProcess } from "./product.ts";

const HOME = "berth-system";
const CITIES: Readonly<Record<string, string>> = { "dfw-01": "DFW", "dfw-02": "DFW", "ord-01": "ORD" };
const NO_SERVERS = ["--metrics-bind-address", "127.0.0.1:0", "--health-probe-bind-address", "127.0.0.1:0"];
const example = path.join(import.meta.dirname, "../examples/fleet/management.yaml");

export class HubFixture implements AsyncDisposable {
  readonly hub: KubeClient;
  readonly #planes: TestFleet;
  readonly #folder: string;
  readonly #owned: AsyncDisposableStack;
  #berth: BerthProcess | undefined;

  constructor(planes: TestFleet, folder: string, owned: AsyncDisposableStack) {
    this.#planes = planes;
    this.#folder = folder;
    this.#owned = owned;
    this.hub = planes.plane("hub").client;
  }

  plane(name: string): TestCluster {
    return this.#planes.plane(name);
  }

  /** The Berth of the hub. */
  get berth(): BerthProcess {
    ok(this.#berth, "the Berth of the hub was not started");
    return this.#berth;
  }

  /** @param config the text of a Fleet. Kubeconfigs in it are named as the planes. Default: the example. */
  async startHub(config?: string): Promise<void> {
    await this.#berth?.[Symbol.asyncDispose]();
    const file = config === undefined ? example : path.join(this.#folder, "fleet.yaml");
    if (config !== undefined) await writeFile(file, config);
    this.#berth = this.#spawn("hub", "--config", file);
    await this.#berth.ready();
  }

  async startCell(name: string): Promise<void> {
    await this.#owned.use(this.#spawn(name, "--mode", "cell", "--cell", name)).ready();
  }

  /** Its Secret is made as an operator does it: with a connection of its own. */
  async addCell(name: string): Promise<void> {
    const { client } = this.plane(name);
    const { metadata } = await client.get(namespaces, { name: "kube-system" });
    const kubeconfig = Buffer.from(this.plane(name).kubeconfig()).toString("base64");
    const secret = { namespace: HOME, name: `berth-cell-${name}` };
    await this.hub.create(secrets, { metadata: secret, data: { kubeconfig } });
    await this.hub.create(cells, {
      metadata: { name },
      spec: { city: CITIES[name] ?? "", secretRef: { name: secret.name }, uid: metadata?.uid ?? "" },
    });
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

  #spawn(plane: string, ...args: readonly string[]): BerthProcess {
    const connection = ["--kubeconfig", path.join(this.#folder, plane)];
    return startBerthProcess({ args: ["run", ...args, ...connection, ...NO_SERVERS] });
  }

  async [Symbol.asyncDispose](): Promise<void> {
    await this.#berth?.[Symbol.asyncDispose]();
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
      const { client } = planes.plane(name);
      await writeFile(path.join(folder, name), planes.plane(name).kubeconfig(), { mode: 0o600 });
      for (const crd of crds) await apply(client, crd);
      await client.create(namespaces, { metadata: { name: HOME } });
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
