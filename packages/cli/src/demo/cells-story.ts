/** The demo of a fleet: a Workload in two cities, while the cell of one of them comes and goes, and another one is drained. */
import { cells, type Workload, withdrawals, workloads } from "@berth/fleet";
import { isApiError, type KubeClient, pods } from "@berth/kube";
import { sleep, systemClock } from "@berth/runtime";
import { eventually, type TestCluster } from "@berth/testcluster";

/** By the city of each. The name of a cell is also that of its plane. */
export const CELLS: Readonly<Record<string, readonly string[]>> = {
  DFW: ["dfw-01", "dfw-02"],
  ORD: ["ord-01"],
};
const WEB = { namespace: "default", name: "web" };
const EACH = 2;
const AWAY = "ord-01";
const OF_WORKLOADS = "compute.datumapis.com/workload-name";
/** Between two looks at what is ready. Milliseconds. */
const LOOK_MS = 500;

export interface CellsWorld {
  /** Where the Workload is. */
  readonly hub: KubeClient;
  readonly cell: (name: string) => TestCluster;
  /** Runs a command of berth on the hub and returns its output. */
  readonly berth: (args: readonly string[]) => Promise<string>;
  /** Prints a further line. */
  readonly say: (line: string) => void;
  readonly signal: AbortSignal;
}

export interface CellsScene {
  readonly title: string;
  readonly act: (world: CellsWorld) => Promise<unknown>;
  /** The expected effect, for the error message. */
  readonly expected: string;
  /** Throws until the effect is visible. */
  readonly seen: (world: CellsWorld) => Promise<unknown>;
}

export const CELLS_SCENES: readonly CellsScene[] = [
  {
    title: "A Workload is applied: two instances in Dallas, two in Chicago",
    act: ({ hub }) => hub.create(workloads, { metadata: WEB, spec: specOf("registry.test/web:1") }),
    expected: "the pods of Dallas run in exactly one of its two cells, those of Chicago in its only one",
    seen: (world) => expectRunning("registry.test/web:1", world),
  },
  {
    title: "Its image is changed",
    act: (world) => setImage("registry.test/web:2", world),
    expected: "each cell has rolled its instances, and the hub counts four that are up to date",
    seen: (world) => expectRunning("registry.test/web:2", world),
  },
  {
    title: `The API server of ${AWAY} freezes, and the image is changed again`,
    act: async (world) => {
      freeze(world);
      await setImage("registry.test/web:3", world);
    },
    expected: "Dallas has the new image. What runs in Chicago still counts, and is marked as not heard",
    seen: async (world) => {
      const { unheard, readyReplicas } = await statusOf(world);
      if (unheard !== EACH || readyReplicas !== 2 * EACH)
        throw new Error(`${readyReplicas} are ready, ${unheard} of them not heard`);
      await expectImage("DFW", "registry.test/web:3", world);
      const [top = ""] = (await world.berth(["explain", "workload", "default/web"])).split("\n");
      if (!top.startsWith("CellUnreachable")) throw new Error(`berth explain says ${top}`);
      world.say(`  ${top}`);
    },
  },
  {
    title: `${AWAY} goes on`,
    act: (world) => Promise.resolve(resume(world)),
    expected: "Chicago has the new image too, and all four are heard",
    seen: (world) => expectRunning("registry.test/web:3", world),
  },
  {
    title: `${AWAY} freezes once more, and the Workload is deleted`,
    act: async (world) => {
      freeze(world);
      await world.hub.delete(workloads, WEB);
    },
    expected: `the Workload and the pods in Dallas are gone. A Withdrawal remembers what ${AWAY} still has`,
    seen: async (world) => {
      const found = await world.hub.get(workloads, WEB).catch((error: unknown) => {
        if (!isApiError(error, "notFound")) throw error;
      });
      if (found !== undefined) throw new Error("the Workload is still there");
      await expectImage("DFW", undefined, world);
      const { items } = await world.hub.list(withdrawals);
      if (items.every(({ spec }) => spec?.cell !== AWAY)) throw new Error("there is no Withdrawal");
    },
  },
  {
    title: `${AWAY} goes on`,
    act: (world) => Promise.resolve(resume(world)),
    expected: "its pods are gone as well",
    seen: (world) => expectImage("ORD", undefined, world),
  },
  {
    title: "The Workload is applied again",
    act: ({ hub }) => hub.create(workloads, { metadata: WEB, spec: specOf("registry.test/web:4") }),
    expected: "it runs in both cities",
    seen: (world) => expectRunning("registry.test/web:4", world),
  },
  {
    title: "The cell of Dallas that runs it is drained",
    act: drain,
    expected: `never fewer than ${EACH} pods were ready in Dallas. They run in its other cell now, and this one is empty`,
    seen: async (world) => {
      await expectRunning("registry.test/web:4", world);
      const [drained = ""] = await drainedCells(world);
      if ((await readyIn(drained, world)) > 0) throw new Error(`${drained} still has pods`);
    },
  },
];

async function drainedCells({ hub }: CellsWorld): Promise<readonly string[]> {
  const { items } = await hub.list(cells);
  return items.flatMap(({ metadata, spec }) => (spec?.drain === true ? (metadata?.name ?? "") : []));
}

async function drain(world: CellsWorld): Promise<void> {
  const inDallas = CELLS["DFW"] ?? [];
  const counts = await Promise.all(inDallas.map((name) => readyIn(name, world)));
  const name = inDallas[counts.findIndex((count) => count > 0)] ?? "";
  world.say(`  berth cell drain ${name}`);
  const over = new AbortController();
  const told = world.berth(["cell", "drain", name]).finally(() => over.abort());
  while (!over.signal.aborted) {
    const ready = await Promise.all(inDallas.map((it) => readyIn(it, world)));
    const sum = ready.reduce((a, b) => a + b, 0);
    if (sum < EACH) throw new Error(`only ${sum} pods were ready in Dallas`);
    await Promise.race([told, sleep(systemClock, LOOK_MS, world.signal)]);
  }
  for (const line of (await told).trimEnd().split("\n")) world.say(`  ${line}`);
}

async function readyIn(name: string, { cell }: CellsWorld): Promise<number> {
  const { items } = await cell(name).client.list(pods, { labelSelector: OF_WORKLOADS });
  return items.filter(({ status }) =>
    status?.conditions?.some((it) => it.type === "Ready" && it.status === "True"),
  ).length;
}

/** How long a scene may take: until a frozen cell is noticed, and until Berth in it leads again. Milliseconds. */
const SCENE_MS = 60_000;

/** Plays one scene. @throws NotEventuallyError without the expected effect in time. */
export async function playCells({ act, seen }: CellsScene, world: CellsWorld): Promise<void> {
  await act(world);
  await eventually(() => seen(world), { timeoutMs: SCENE_MS, signal: world.signal });
}

function specOf(image: string): NonNullable<Workload["spec"]> {
  return {
    template: {
      spec: {
        runtime: {
          resources: { instanceType: "datumcloud/d1-standard-2" },
          sandbox: { containers: [{ name: "web", image }] },
        },
        networkInterfaces: [{ network: { name: "default" } }],
      },
    },
    placements: [{ name: "us", cityCodes: Object.keys(CELLS), scaleSettings: { minReplicas: EACH } }],
  };
}

function setImage(value: string, { hub }: CellsWorld): Promise<Workload> {
  const path = "/spec/template/spec/runtime/sandbox/containers/0/image";
  return hub.patch(workloads, WEB, { type: "json", body: [{ op: "replace", path, value }] });
}

function freeze(world: CellsWorld): void {
  process.kill(apiServerOf(world), "SIGSTOP");
}

/** A process that has ended cannot go on. */
function resume(world: Pick<CellsWorld, "cell">): void {
  process.kill(apiServerOf(world), "SIGCONT");
}

function apiServerOf({ cell }: Pick<CellsWorld, "cell">): number {
  const pid = cell(AWAY).pidOf("kube-apiserver");
  if (pid === undefined) throw new Error(`the API server of ${AWAY} has ended`);
  return pid;
}

async function statusOf({ hub }: CellsWorld): Promise<NonNullable<Workload["status"]>> {
  const { metadata, status } = await hub.get(workloads, WEB);
  if (status === undefined) throw new Error(`Berth has not seen ${metadata?.name}`);
  return status;
}

/** All of it runs with this image, and the Workload says so. */
async function expectRunning(image: string, world: CellsWorld): Promise<void> {
  const { readyReplicas, updatedReplicas, unheard = 0 } = await statusOf(world);
  const all = 2 * EACH;
  if (readyReplicas !== all || updatedReplicas !== all || unheard > 0)
    throw new Error(`${readyReplicas} are ready, ${updatedReplicas} up to date, ${unheard} not heard`);
  for (const city of Object.keys(CELLS)) await expectImage(city, image, world);
}

/** One cell of the city has its pods, all with this image. @param image `undefined`: none has a pod. */
async function expectImage(city: string, image: string | undefined, { cell }: CellsWorld): Promise<void> {
  const found = await Promise.all(
    (CELLS[city] ?? []).map(async (name) => {
      const { items } = await cell(name).client.list(pods, { labelSelector: OF_WORKLOADS });
      return items.map((pod) => `${pod.spec?.containers[0]?.image} ${pod.status?.phase}`);
    }),
  );
  const [here = [], ...others] = found.filter((list) => list.length > 0);
  const wanted = image === undefined ? [] : Array.from({ length: EACH }, () => `${image} Running`);
  if (others.length > 0 || here.join() !== wanted.join())
    throw new Error(`in ${city} there are ${JSON.stringify(found)}`);
}
