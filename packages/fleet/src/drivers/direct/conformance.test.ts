import { describe, expect, it } from "vitest";
import { instances, workloadDeployments } from "../../api/workload.ts";
import { FleetModel, type Name, PASSES } from "../../hub/testing/fleet-model.ts";
import { type ConformanceStage, type ProgressOptions, requirements } from "../testing/conformance.ts";

const NAME: Name = "w0";
/** Enough for what the planes that answer can do. */
const ROUNDS = 12;

/** The decisions of `direct` in the model of a fleet: without threads, sockets or waits. */
class DirectStage implements ConformanceStage {
  readonly model: FleetModel = new FleetModel(false);

  async create(count: number): Promise<void> {
    this.model.create(NAME, count);
  }

  async change(count: number, image: string): Promise<void> {
    this.model.change(NAME, count, image);
  }

  async remove(): Promise<void> {
    this.model.remove(NAME);
  }

  async removeOnHub(): Promise<void> {
    this.model.removeOnHub(NAME);
  }

  async setAway(cell: string, isAway: boolean): Promise<void> {
    for (const plane of this.model.cells.filter(({ name }) => name === cell)) {
      plane.isReachable = !isAway;
      plane.probe();
    }
  }

  async drain(cell: string, isDrained: boolean): Promise<void> {
    this.model.drain(cell, isDrained);
  }

  async restart(): Promise<void> {
    this.model.restart();
  }

  async progress({ areAnswersLost = false, rounds = ROUNDS }: ProgressOptions = {}): Promise<void> {
    const { project, hub, own, cells } = this.model;
    for (let round = 0; round < rounds; round += 1)
      if (!areAnswersLost) this.model.round(NAME);
      else
        for (const what of PASSES) {
          for (const plane of [project, hub, own, ...cells]) plane.see();
          this.model.pass(what, NAME, "unanswered");
        }
  }

  async settle(): Promise<void> {
    this.model.settle();
  }

  async look(): ReturnType<ConformanceStage["look"]> {
    const { project, hub, cells } = this.model;
    const [deployment] = project.now(workloadDeployments);
    return {
      inCells: cells.flatMap((cell) =>
        cell.now(workloadDeployments).map(({ metadata, spec }) => ({
          cell: cell.name,
          uid: metadata?.uid ?? "",
          image: spec?.template.spec.runtime.sandbox?.containers[0]?.image ?? "",
        })),
      ),
      isOnHub: hub.now(workloadDeployments).length > 0,
      status: deployment?.status,
      shown: project.now(instances).length,
    };
  }
}

describe("direct does what every driver must do:", () => {
  it.each(requirements)("$name", async (requirement) => {
    const stage = new DirectStage();
    await requirement.run(stage);
    expect(stage.model.violations).toEqual([]);
  });
});
