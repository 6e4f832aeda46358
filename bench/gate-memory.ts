/** Pods that are no business of a gate: what they add to the memory of Berth, and whether it receives any. */
import { originalGate } from "@berth/placement";
import { aPod } from "@berth/testcluster";
import { waitForPatches } from "./audit.ts";
import { type GateStage, gateDocument, post, says, startReady, WITHOUT_ADMISSION } from "./gate-stage.ts";
import { countText, type Held, holdTwice, MB, NOISE_MB, residentText } from "./held-memory.ts";
import type { Figure } from "./report.ts";

export interface GateMemoryOptions {
  readonly nodes: number;
  /** Pods that no signal looks for. */
  readonly pods: number;
  /** Seconds. */
  readonly restSeconds: number;
  readonly onProgress: (text: string) => void;
}

export async function benchGateMemory(
  stage: GateStage,
  options: GateMemoryOptions,
): Promise<readonly Figure[]> {
  const { nodes, pods, onProgress } = options;
  const names = Array.from({ length: nodes }, (_, index) => `memory-${index}`);
  const gated = [gateDocument(), WITHOUT_ADMISSION];
  onProgress(`${nodes} released nodes, with and without a gate`);
  await letGo(stage, names, gated);
  const alone = await hold(stage, gated, options);
  onProgress(`creating ${pods} pods that no signal looks for`);
  await addForeignPods(stage, names, pods);
  const among = await hold(stage, gated, options);
  const ungated = await hold(stage, [WITHOUT_ADMISSION], { ...options, installation: "without-gates" });
  await stage.clear();
  return toFigures(options, { alone, among, ungated });
}

/** Nodes that were released already: what is measured is a cluster at rest. */
async function letGo(stage: GateStage, names: readonly string[], gated: readonly object[]): Promise<void> {
  await stage.addHeldNodes(names);
  await stage.addAgents(names);
  await stage.raw.sendAll(names.map((name) => says(name, true)));
  const mark = await stage.cluster.audit.mark();
  await using berth = await startReady(await stage.berth(gated));
  await waitForPatches(stage.cluster, mark, berth, { expected: names.length, timeoutMs: 120_000 });
}

/**
 * Half of them with the label of the signal, where tenants may put it; the other half where the signal looks, with
 * another label.
 */
async function addForeignPods({ raw }: GateStage, nodes: readonly string[], count: number): Promise<void> {
  await raw.sendAll(
    Array.from({ length: count }, (_, index) => {
      const pod = aPod(`foreign-${index}`).on(nodes[index % nodes.length] ?? "");
      const [namespace, labels] =
        index % 2 === 0 ? ["default", originalGate.podLabels] : ["kube-system", { app: "other" }];
      return post(`/api/v1/namespaces/${namespace}/pods`, pod.in(namespace).labelled(labels).build());
    }),
  );
}

interface HoldGated extends Pick<GateMemoryOptions, "restSeconds"> {
  /** Another one than that of the gate: without it the gate would be taken for deleted, and its marks would be removed. */
  readonly installation?: string;
}

function hold(
  stage: GateStage,
  documents: readonly object[],
  { restSeconds, installation = "berth" }: HoldGated,
): Promise<Held> {
  const start = async () => startReady(await stage.berth(documents, ["--installation", installation]));
  return holdTwice({ cluster: stage.cluster, start, restSeconds });
}

interface AllHeld {
  /** With a gate, before the foreign pods are there. */
  readonly alone: Held;
  /** With a gate, among them. */
  readonly among: Held;
  readonly ungated: Held;
}

function toFigures(
  { nodes, pods }: GateMemoryOptions,
  { alone, among, ungated }: AllHeld,
): readonly Figure[] {
  const what = `${nodes} nodes behind a gate, ${pods} other pods`;
  const whole = [...among.asked, ...ungated.asked].filter((request) => request.endsWith(" "));
  return [
    {
      id: "gate-memory-foreign",
      what: `${what}: resident memory that these add`,
      value: (among.resident - alone.resident) / MB,
      unit: "MB",
      budget: NOISE_MB,
      detail: `${residentText(alone)} without them, ${residentText(among)} with them; the lesser of two runs each; budget: what such runs differ by`,
    },
    {
      id: "gate-memory",
      what: `${what}: resident memory that the gate adds`,
      value: (among.resident - ungated.resident) / MB,
      unit: "MB",
      detail: `${residentText(ungated)} without a gate`,
    },
    {
      id: "gate-memory-requests",
      what: `${what}: lists and watches of all pods`,
      value: whole.length,
      unit: "requests",
      budget: 0,
      detail:
        `with a gate: ${countText(among.asked)}, which gave it ${among.pods} pods, of ${nodes} that the gate is about; ` +
        `without: ${countText(ungated.asked)}, ${ungated.pods} pods`,
    },
  ];
}
