import { nodes } from "@berth/kube";
import { aNode } from "../../node-builder.ts";
import { flaps, foreignTouched, keyChanges } from "../forbidden.ts";
import type { HistoryEntry } from "../history.ts";
import type { PerturbationStory, Scene, Stage } from "../story.ts";
import { INPUT, OUTPUT, RECORD, startTinyController, type TinyFaults } from "./tiny-controller.ts";

/** A device comes, goes and comes again. */
export function tinyStory(faults: TinyFaults = {}): PerturbationStory {
  return { name: "tiny", resources: [nodes], setUp: (stage) => setUp(stage, faults) };
}

const SENTINEL = "sentinel";

async function setUp(stage: Stage, faults: TinyFaults): Promise<Scene> {
  await stage.create(nodes, aNode(SENTINEL).build());
  await stage.create(nodes, aNode("n1").build());
  const label = async (name: string, value: string | null): Promise<void> => {
    await stage.patch(nodes, name, { type: "merge", body: { metadata: { labels: { [INPUT]: value } } } });
  };
  const labelsOf = (name: string): Readonly<Record<string, string>> =>
    stage.latest(nodes, name)?.metadata?.labels ?? {};
  let present = false;
  return {
    start: async ({ server }) => startTinyController(stage.cluster.connect({ server }), faults),
    fence: {
      resource: nodes,
      name: SENTINEL,
      async change() {
        present = !present;
        await label(SENTINEL, present ? "on" : null);
      },
      answered: () => (labelsOf(SENTINEL)[OUTPUT] !== undefined) === present,
    },
    steps: [
      { name: "device-comes", run: () => label("n1", "on") },
      { name: "device-goes", run: () => label("n1", null) },
      { name: "device-returns", run: () => label("n1", "on") },
      { name: "device-goes-again", run: () => label("n1", null) },
    ],
    state: () => {
      const { [INPUT]: input, [OUTPUT]: output } = labelsOf("n1");
      return { input, output };
    },
    // The sentinel is the business of the harness.
    forbidden: (history) => forbiddenIn(history.filter(({ name }) => name !== SENTINEL)),
    [Symbol.asyncDispose]: () => Promise.resolve(),
  };
}

function forbiddenIn(history: readonly HistoryEntry[]): readonly string[] {
  return [
    ...flaps(history),
    ...foreignTouched(history, (field, key) => (field === "label" ? key === OUTPUT : key === RECORD)),
    ...unjustified(history),
  ];
}

/** OUTPUT was set or removed on a version that did not ask for it. */
function unjustified(history: readonly HistoryEntry[]): readonly string[] {
  return keyChanges(history)
    .filter(({ entry, key }) => entry.by === "controller" && key === OUTPUT)
    .filter(
      ({ entry, after }) => (entry.before?.metadata?.labels?.[INPUT] !== undefined) !== (after !== undefined),
    )
    .map(({ entry, after }) => `${entry.name}: ${OUTPUT} became ${after ?? "none"} without a reason`);
}
