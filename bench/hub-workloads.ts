/** What the figures of a hub share: its cells, and Workloads of one Instance that are created in them. */
import { setTimeout as delay } from "node:timers/promises";
import { type WorkloadDeployment, workloadDeployments } from "@berth/fleet";
import type { KubeClient } from "@berth/kube";
import type { TestCluster } from "@berth/testcluster";
import { createWorkload } from "./fleet-stage.ts";
import type { CellPlane, HubStage } from "./hub-stage.ts";
import type { MeasuredProcess } from "./process.ts";
import type { RawRequest, RawSender } from "./raw-requests.ts";

export interface FleetHubOptions {
  /** A tenth of it is how long a cell is away, in minutes. */
  readonly restSeconds: number;
  readonly onProgress: (text: string) => void;
  readonly onServer: (version: string) => void;
}

/** Two cells of each of two cities. */
export const NAMES: readonly string[] = ["dfw-01", "dfw-02", "ord-01", "ord-02"];
/** Created one after the other. */
export const PACED = 200;
export const EVERY_MS = 100;
/** What is not there within it counts as that, ms. */
export const LATEST_MS = 180_000;
export const ENGAGED_MS = 60_000;

export interface Cells {
  readonly planes: readonly (CellPlane & { readonly cluster: TestCluster })[];
  /** By the name of the deployment, whichever cell gets it. */
  readonly until: (name: string) => Promise<number>;
}

export interface Bench {
  readonly stage: HubStage;
  readonly cells: Cells;
  readonly raw: RawSender;
  readonly berth: MeasuredProcess;
  readonly options: FleetHubOptions;
}

/** One every 100 ms, whether the last one has ended or not. */
export async function everyTenth<T>(count: number, act: (at: number) => Promise<T>): Promise<readonly T[]> {
  const all: Promise<T>[] = [];
  const startedAt = performance.now();
  for (let at = 0; at < count; at++) {
    await delay(Math.max(0, startedAt + at * EVERY_MS - performance.now()));
    all.push(act(at));
  }
  return Promise.all(all);
}

export function oneOf(name: string, city: string): RawRequest {
  return createWorkload(name, { cities: [city], perCity: 1 });
}

/** The deployment of the Workload that `oneOf` creates. */
export const deploymentOf = (name: string, city: string): string => `${name}-all-${city.toLowerCase()}`;
export const cityOf = (at: number): string => (at % 2 === 0 ? "DFW" : "ORD");

/** From the creation of a Workload until a watcher of its cell sees the deployment, ms. */
export async function create({ raw, cells: { until } }: Bench, name: string, city: string): Promise<number> {
  const arrived = until(deploymentOf(name, city));
  const { sentAt } = await raw.send(oneOf(name, city));
  return Math.min((await arrived) - sentAt, LATEST_MS);
}

export interface Placed {
  readonly namespace: string;
  readonly name: string;
  readonly deployment: WorkloadDeployment;
  readonly client: KubeClient;
}

export async function placedDeployments(planes: Cells["planes"]): Promise<readonly Placed[]> {
  const all = planes.map(async ({ client }) =>
    (await client.list(workloadDeployments)).items.map((deployment) => ({
      namespace: deployment.metadata?.namespace ?? "",
      name: deployment.metadata?.name ?? "",
      deployment,
      client,
    })),
  );
  return (await Promise.all(all)).flat();
}
