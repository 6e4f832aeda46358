import { createMetricsRegistry } from "@berth/runtime";
import { expect, it } from "vitest";
import type { InterpreterCustomization } from "../../api/karmada.ts";
import { interpreter } from "../../drivers/karmada/interpreter.ts";
import { createHubMetrics } from "./metrics.ts";
import type { KarmadaViews } from "./planes.ts";
import { hub, hubWorld } from "./testing/hub-world.ts";
import { Objects } from "./testing/objects.ts";

const ours = { ...interpreter, metadata: { namespace: "", ...interpreter.metadata } };

async function missing(
  arrange: (interpreters: Objects<InterpreterCustomization>) => void,
): Promise<string | undefined> {
  const { parts, clock } = hubWorld();
  const interpreters = new Objects<InterpreterCustomization>(hub);
  arrange(interpreters);
  const registry = createMetricsRegistry({ prefix: "berth_" });
  const { planes, know } = parts;
  const views = { ...planes.views, karmada: { interpreters: interpreters.view } as KarmadaViews };
  createHubMetrics(registry, clock, know, { expiresMsOf: () => undefined }, { ...planes, views });
  const { body } = await registry.expose();
  return /^compute_federation_interpreter_missing (\d)$/m.exec(body)?.[1];
}

it.each<[string, InterpreterCustomization | undefined, string]>([
  ["has none of Berth", undefined, "1"],
  ["has another one of its name", { ...ours, spec: { ...ours.spec, customizations: {} } }, "1"],
  ["has that of Berth", ours, "0"],
])("F2 the metric says so while Karmada %s", async (_, present, expected) => {
  const said = await missing((interpreters) => {
    if (present !== undefined) interpreters.set(present);
  });
  expect(said).toBe(expected);
});

it("F2 the metric does not complain before it is read", async () => {
  expect(await missing((it) => (it.isRead = false))).toBe("0");
});

it("F2 no metric complains where Berth carries deployments itself", async () => {
  const { parts, clock } = hubWorld();
  const registry = createMetricsRegistry({ prefix: "berth_" });
  createHubMetrics(registry, clock, parts.know, { expiresMsOf: () => undefined }, parts.planes);
  expect((await registry.expose()).body).toMatch(/^compute_federation_interpreter_missing 0$/m);
});
