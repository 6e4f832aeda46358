/** A fleet as it is installed: a hub, three cells and a project are clusters, and Berth runs in pods of the first four. */
import { writeFile } from "node:fs/promises";
import { join } from "node:path";
import { setTimeout as delay } from "node:timers/promises";
import { workloads } from "@berth/fleet";
import { type Pod, pods, secrets } from "@berth/kube";
import { request } from "undici";
import { NAMESPACE, refusedToBerth } from "../berth.ts";
import { HUB, PLANES } from "../network.ts";
import { REGISTRY } from "../node-config.ts";
import { type Machine, type Plane, startPlane } from "../plane.ts";
import { expect, isReady, type Scene, type Stage, since, until } from "../stage.ts";

const CITIES: Readonly<Record<string, string>> = { "dfw-01": "DFW", "dfw-02": "DFW", "ord-01": "ORD" };
const CELLS = Object.keys(CITIES);
/** From the moment at which a cell is reached again until all is true. */
const HEALED_SECONDS = 20;
/** Each has an address of its own, so that the way to one of them can be lost. */
const ADDRESSES: Readonly<Record<string, string>> = Object.fromEntries(
  ["hub", ...CELLS].map((name, index) => [name, PLANES[index] ?? HUB]),
);

export class Planes implements AsyncDisposable {
  readonly #byName: ReadonlyMap<string, Plane>;

  constructor(all: readonly Plane[]) {
    this.#byName = new Map(all.map((plane) => [plane.name, plane]));
  }

  get(name: string): Plane {
    const plane = this.#byName.get(name);
    expect(plane, `there is no plane ${name}`);
    return plane;
  }

  async [Symbol.asyncDispose](): Promise<void> {
    await Promise.all(this.#byName.values().map((plane) => plane[Symbol.asyncDispose]()));
  }
}

/** The project has the first address of the bridge, and no node. */
export async function startFleet(machine: Machine): Promise<Planes> {
  const names = ["web", "hub", ...CELLS];
  return new Planes(
    await Promise.all(names.map((name) => startPlane(machine, { name, ip: ADDRESSES[name] ?? HUB }))),
  );
}

const install: Scene<Planes> = {
  title: "Berth is installed in a hub and three cells: the printed objects, on a node each",
  play: async (planes) => {
    const web = planes.get("web");
    await web.kubectl(["create", "namespace", NAMESPACE]);
    for (const plane of ["web", "hub", ...CELLS].map((it) => planes.get(it))) await installCrds(plane);
    const hub = planes.get("hub");
    await hub.kubectl(["create", "namespace", NAMESPACE]);
    const account = await accountFor("project", web);
    const file = join(hub.folder, "web.kubeconfig-of-hub");
    await writeFile(file, account, { mode: 0o600 });
    const secret = ["create", "secret", "generic", "berth-federation", `--from-file=web=${file}`];
    await hub.kubectl([...secret, "--namespace", NAMESPACE]);
    await hub.addNode();
    await deploy(hub, "--config", join(import.meta.dirname, "../documents/management.yaml"));
    for (const name of CELLS) {
      const cell = planes.get(name);
      await cell.addNode();
      await deploy(cell, "--mode", "cell", "--cell", name);
    }
    for (const name of ["hub", ...CELLS])
      await planes.get(name).wait(`deployment/berth -n ${NAMESPACE}`, "condition=Available");
    return "a pod of Berth is ready on each of four nodes; that of the hub has the kubeconfig of a project from its Secret";
  },
};

async function installCrds(plane: Plane): Promise<void> {
  const crds = await plane.berth(["manifests", "crds", "--fleet"]);
  await plane.kubectl(["apply", "--server-side", "-f", "-"], crds);
}

async function deploy(plane: Plane, ...how: readonly string[]): Promise<void> {
  const image = ["--image", `${REGISTRY}/berth:1`, "--replicas", "1"];
  await plane.kubectl(["apply", "-f", "-"], await plane.berth(["manifests", ...image, ...how]));
}

/** @returns a kubeconfig of the account that the hub has there. */
async function accountFor(to: "cell" | "project", plane: Plane): Promise<string> {
  await plane.kubectl(["apply", "-f", "-"], await plane.berth(["manifests", "access", "--to", to]));
  const name = "berth-hub";
  const token = await until(plane, async () => {
    const { data } = await plane.client.get(secrets, { namespace: NAMESPACE, name });
    expect(data?.["token"], `Secret ${name} has no token yet`);
    return Buffer.from(data["token"], "base64").toString();
  });
  return plane.kubeconfigOf({ name, groups: [], token });
}

const addCells: Scene<Planes> = {
  title: "berth cell add, for each cell",
  play: async (planes) => {
    const hub = planes.get("hub");
    for (const name of CELLS) {
      const file = join(hub.folder, `${name}.kubeconfig-of-hub`);
      await writeFile(file, await accountFor("cell", planes.get(name)), { mode: 0o600 });
      const add = ["cell", "add", name, "--city", CITIES[name] ?? "", "--kubeconfig", file];
      // The API server knows rights a moment after they were given.
      await until(hub, () => hub.berth(add));
      await hub.wait(`cell/${name}`, "condition=Reachable");
    }
    return hub.berth(["cell", "list"]);
  },
};

const run: Scene<Planes> = {
  title: "A Workload in the project, for both cities",
  play: async (planes) => {
    await planes.get("web").apply("two-cities.yaml");
    await shows(planes, { readyReplicas: 2 });
    const cells = await holders(planes);
    for (const name of cells) await answers(planes.get(name));
    return `a process in ${cells.join(" and one in ")} answers over HTTP, and the project says 2 of 2`;
  },
};

const drain: Scene<Planes> = {
  title: "berth cell drain, for the cell that runs it in Dallas",
  play: async (planes) => {
    const from = await inDallas(planes);
    let least = Number.POSITIVE_INFINITY;
    const over = new AbortController();
    const counting = (async () => {
      while (!over.signal.aborted) {
        const found = await Promise.all(["dfw-01", "dfw-02"].map((name) => podsIn(planes.get(name))));
        least = Math.min(least, found.flat().filter(isReady).length);
        await delay(500, undefined, { signal: over.signal }).catch(() => undefined);
      }
    })();
    const startedAt = performance.now();
    await planes.get("hub").berth(["cell", "drain", from]);
    const took = since(startedAt);
    over.abort();
    await counting;
    expect(least >= 1, `at one moment ${least} were Ready in Dallas`);
    await until(planes.get(from), async () =>
      expect((await podsIn(planes.get(from))).length === 0, `${from} still has a pod`),
    );
    await shows(planes, { readyReplicas: 2 });
    const to = await inDallas(planes);
    await answers(planes.get(to));
    return `it moved from ${from} to ${to} in ${took}, and one was Ready at each look, twice a second`;
  },
};

const cut: Scene<Planes> = {
  title: "The hub loses the way to Chicago, and finds it again; the Workload rolls meanwhile",
  play: async (planes) => {
    const ord = planes.get("ord-01");
    const [hubNode] = planes.get("hub").nodes.values();
    const [before] = await podsIn(ord);
    const ip = ADDRESSES["ord-01"] ?? "";
    await hubNode?.lose(ip);
    const cutAt = performance.now();
    await shows(planes, { readyReplicas: 2, unheard: 1 });
    const noticed = since(cutAt);
    await planes
      .get("hub")
      .wait("cell/ord-01", "jsonpath={.status.conditions[?(@.type=='Reachable')].status}=False");
    const restarted = { [RESTARTED]: new Date().toISOString() };
    const body = JSON.stringify({ spec: { template: { metadata: { annotations: restarted } } } });
    await planes.get("web").kubectl(["patch", "workload/hello", "--type=merge", "--patch", body]);
    const dallas = ["dfw-01", "dfw-02"].map((name) => planes.get(name));
    await until(ord, async () => {
      const rolled = (await Promise.all(dallas.map(podsIn))).flat().filter(isReady);
      expect(rolled.some(isRestarted), "the Workload has not rolled in Dallas");
    });
    await shows(planes, { readyReplicas: 2, unheard: 1 });
    await answers(ord);
    const [meanwhile] = await podsIn(ord);
    expect(meanwhile?.metadata?.uid === before?.metadata?.uid, "the pod in Chicago is another one");
    await hubNode?.findAgain(ip);
    const healedAt = performance.now();
    await until(ord, async () => {
      expect(
        (await podsIn(ord)).some((it) => isReady(it) && isRestarted(it)),
        "it has not rolled in Chicago",
      );
    });
    await shows(planes, { readyReplicas: 2, updatedReplicas: 2, unheard: undefined });
    const healed = (performance.now() - healedAt) / 1000;
    expect(healed <= HEALED_SECONDS, `all was true again only after ${healed.toFixed(1)} s`);
    await answers(ord);
    return `reported after ${noticed}; its process answered meanwhile; found again, it rolled, and all was true after ${healed.toFixed(1)} s`;
  },
};

const audit: Scene<Planes> = {
  title: "The audit logs",
  play: async (planes) => {
    const refused = await Promise.all(
      ["web", "hub", ...CELLS].map(async (name) =>
        (await refusedToBerth(planes.get(name))).map((it) => `${name}: ${it}`),
      ),
    );
    expect(refused.flat().length === 0, refused.flat().join("\n"));
    return "no account of Berth asked for what it may not do, on any of the five";
  },
};

const RESTARTED = "compute.datumapis.com/restartedAt";
const isRestarted = ({ metadata }: Pod): boolean => metadata?.annotations?.[RESTARTED] !== undefined;

type Numbers = Partial<Record<"readyReplicas" | "updatedReplicas" | "unheard", number | undefined>>;

/** Waits until the Workload says these numbers, of its present spec unless a cell is not heard. */
async function shows(planes: Planes, numbers: Numbers): Promise<void> {
  const web = planes.get("web");
  await until(web, async () => {
    const { metadata, status } = await web.client.get(workloads, { namespace: "default", name: "hello" });
    if (numbers.unheard === undefined)
      expect(status?.observedGeneration === metadata?.generation, "the numbers are those of the spec before");
    for (const [field, value] of Object.entries(numbers)) {
      const said = status?.[field as keyof Numbers];
      expect(said === value, `${field} of the Workload is ${said}, and not ${value}`);
    }
  });
}

async function podsIn({ client }: Pick<Stage, "client">): Promise<readonly Pod[]> {
  const { items } = await client.list(pods, { labelSelector: "compute.datumapis.com/workload-name=hello" });
  return items;
}

/** Cells with a Ready pod of the Workload. */
async function holders(planes: Planes): Promise<readonly string[]> {
  const found = await Promise.all(
    CELLS.map(async (name) => ((await podsIn(planes.get(name))).some(isReady) ? [name] : [])),
  );
  return found.flat();
}

/** The cell of Dallas that runs it. */
async function inDallas(planes: Planes): Promise<string> {
  return (await holders(planes)).find((name) => CITIES[name] === "DFW") ?? "";
}

/** Its process there serves its page. */
async function answers(cell: Plane): Promise<void> {
  const pod = (await podsIn(cell)).find(isReady);
  const { body } = await request(`http://${pod?.status?.podIP}:8080/`);
  expect((await body.text()).includes("served by busybox"), `the pod in ${cell.name} serves something else`);
}

export const FLEET: readonly Scene<Planes>[] = [install, addCells, run, drain, cut, audit];
