import { createMetricsRegistry } from "@berth/runtime";
import { expect, it } from "vitest";
import type { InterpreterCustomization } from "../../api/karmada.ts";
import { interpreter } from "../../drivers/karmada/interpreter.ts";
import { createHubMetrics } from "./metrics.ts";
import type { KarmadaViews } from "./planes.ts";
import { hub, hubWorld } from "./testing/hub-world.ts";
import { Objects } from "./testing/objects.ts";

const ours = { ...interpreter, metadata: { namespace: "", ...interpreter.metadata } };

it.each<[string, InterpreterCustomization | undefined, number]>([
  ["has none of Berth", undefined, 1],
  ["has another one of its name", { ...ours, spec: { ...ours.spec, customizations: {} } }, 1],
  ["has that of Berth", ours, 0],
])("F2 the metric says so while Karmada %s", async (_, present, expected) => {
  const { parts, clock } = hubWorld();
  const interpreters = new Objects<InterpreterCustomization>(hub);
  if (present !== undefined) interpreters.set(present);
  const registry = createMetricsRegistry({ prefix: "berth_" });
  const { planes, know } = parts;
  const views = { ...planes.views, karmada: { interpreters: interpreters.view } as KarmadaViews };
  createHubMetrics(registry, clock, know, { expiresMsOf: () => undefined }, { ...planes, views });
  const { body } = await registry.expose();
  expect(body).toMatch(new RegExp(`^compute_federation_interpreter_missing ${expected}$`, "m"));
});

it("F2 no metric complains where Berth carries deployments itself", async () => {
  const { parts, clock } = hubWorld();
  const registry = createMetricsRegistry({ prefix: "berth_" });
  createHubMetrics(registry, clock, parts.know, { expiresMsOf: () => undefined }, parts.planes);
  expect((await registry.expose()).body).toMatch(/^compute_federation_interpreter_missing 0$/m);
});
