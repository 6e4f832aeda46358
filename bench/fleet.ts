/** The fleet in one cluster: requests of one Instance, many at once, and a large number at rest; with networks as well. */
import { benchFleetBurst } from "./fleet-burst.ts";
import { benchFleetLife } from "./fleet-life.ts";
import { benchFleetSettled, settleOne } from "./fleet-settled.ts";
import { startFleetStage } from "./fleet-stage.ts";
import type { Figure } from "./report.ts";

export interface FleetOptions {
  /** Numbers of Instances that come at once; so many of the largest are settled. */
  readonly sizes: readonly number[];
  /** Default without. */
  readonly networks?: boolean;
  readonly rounds: number;
  /** The Go peer. Absent: memory is not compared. */
  readonly peer: string | undefined;
  /** Seconds. */
  readonly restSeconds: number;
  readonly onProgress: (text: string) => void;
  readonly onServer: (version: string) => void;
}

export async function benchFleet(options: FleetOptions): Promise<readonly Figure[]> {
  const { sizes, networks, onProgress, onServer } = options;
  const { settled, figures } = await (async () => {
    await using stage = await startFleetStage({ runsPods: true, networks });
    onServer(JSON.parse(await stage.cluster.client.read("/version")).gitVersion);
    const one = await settleOne(stage);
    return { settled: one, figures: await benchFleetLife(stage, { onProgress }) };
  })();
  const bursts = await benchFleetBurst(options);
  await using stage = await startFleetStage({ runsPods: false, networks });
  const count = Math.max(...sizes);
  const all = [
    ...figures,
    ...bursts,
    ...(await benchFleetSettled(stage, { ...options, settled, count, onProgress })),
  ];
  return networks ? all.map((it) => ({ ...it, id: `${it.id}-networks`, what: `networks: ${it.what}` })) : all;
}
