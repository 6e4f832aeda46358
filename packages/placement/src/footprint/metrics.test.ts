import { createMetricsRegistry } from "@berth/runtime";
import { expect, it } from "vitest";
import { createDocumentGauges } from "../node/document-gauges.ts";
import { footprintGauges, measureFootprints } from "./metrics.ts";

it("tells of documents, and reads counts at each scrape", async () => {
  const registry = createMetricsRegistry();
  const counts = { labelled: 1, needed: 2, pending: 3, unknown: 4, claims: 5, foreign: 6 };
  createDocumentGauges(registry, footprintGauges)(2, [{ reason: "Any" }]);
  let reads = 0;
  const tally = {
    get total() {
      reads++;
      return counts;
    },
  };
  measureFootprints(registry, tally, () => 3);
  counts.needed = 7;
  const { body } = await registry.expose();
  for (const line of [
    "berth_footprints 2",
    "berth_footprint_problems 1",
    "berth_footprint_labelled_nodes 1",
    "berth_footprint_needed_nodes 7",
    "berth_footprint_pending_nodes 3",
    "berth_footprint_unknown_nodes 4",
    "berth_footprint_claims 5",
    "berth_footprint_foreign_nodes 6",
    "berth_footprints_hindered 3",
  ]) {
    expect(body.split("\n")).toContain(line);
  }
  counts.foreign = 8;
  expect((await registry.expose()).body.split("\n")).toContain("berth_footprint_foreign_nodes 8");
  expect(reads).toBe(2);
});
