/** The fleet in one cluster: requests of one Instance, many at once, and a large number at rest. */
import { benchFleetLife } from "./fleet-life.ts";
import { startFleetStage } from "./fleet-stage.ts";
import type { Figure } from "./report.ts";

export interface FleetOptions {
  readonly onProgress: (text: string) => void;
}

export async function benchFleet({ onProgress }: FleetOptions): Promise<readonly Figure[]> {
  await using stage = await startFleetStage({ runsPods: true });
  return await benchFleetLife(stage, { perCity: 5, onProgress });
}
