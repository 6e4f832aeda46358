import { createVirtualClock } from "@berth/runtime";
import { expect, it } from "vitest";
import type { WorkloadDeployment } from "../../api/workload.ts";
import { aCell, aFound, onHub } from "../../hub/testing/fixtures.ts";
import { Mutations } from "./mutations.ts";

const found = aFound(aCell("a"));
const withReplicas = (of: WorkloadDeployment, minReplicas: number): WorkloadDeployment =>
  ({ ...of, spec: { ...of.spec, scaleSettings: { minReplicas } } }) as WorkloadDeployment;
const wanted = withReplicas(onHub(), 3);
const stored = withReplicas(found.deployment, 7);
const metadata = { labels: { a: "b" } };
const patch = (present: WorkloadDeployment, body: object = { spec: {} }) => [
  { found: { ...found, deployment: present }, body },
];

it.each<[string, object[], readonly string[], Parameters<Mutations["without"]>]>([
  ["what the cell stores as it was sent is sent", [{ spec: {} }], [], [patch(found.deployment), onHub()]],
  [
    "what it has answered in its own way is told, and not sent again",
    [],
    ["CellMutates"],
    [patch(stored), wanted],
  ],
  [
    "the rest of the change is sent",
    [{ metadata }],
    ["CellMutates"],
    [patch(stored, { metadata, spec: {} }), wanted],
  ],
  ["what changed there since is put right", [{ spec: {} }], [], [patch(withReplicas(stored, 8)), wanted]],
  ["what changed on the hub since is sent", [{ spec: {} }], [], [patch(stored), withReplicas(wanted, 4)]],
  ["a change without a spec is sent", [{ metadata }], [], [patch(stored, { metadata }), wanted]],
])("CellMutates: %s", (_, bodies, reasons, given) => {
  const mutations = new Mutations(createVirtualClock());
  mutations.note(wanted, stored);
  const { patches, findings } = mutations.without(...given);
  expect(patches.map(({ body }) => body)).toEqual(bodies);
  expect(findings.map(({ reason }) => reason)).toEqual(reasons);
});

it("CellMutates ends when the cell stores what was sent", () => {
  const mutations = new Mutations(createVirtualClock());
  mutations.note(wanted, stored);
  mutations.note(wanted, withReplicas(stored, 3));
  expect(mutations.without(patch(stored), wanted).findings).toEqual([]);
});

it("CellMutates is tried again after ten minutes, as the webhook may be gone", async () => {
  const clock = createVirtualClock();
  const mutations = new Mutations(clock);
  mutations.note(wanted, stored);
  await clock.advance(400_000);
  expect(mutations.without(patch(stored), wanted)).toMatchObject({ patches: [], recheckAfterMs: 200_000 });
  await clock.advance(200_000);
  expect(mutations.without(patch(stored), wanted).patches).toHaveLength(1);
});
