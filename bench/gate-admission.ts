/** What it costs a node to join: the creation of a Node without anything, with policies, and with the webhook. */
import { once } from "node:events";
import { type AddressInfo, createServer } from "node:net";
import { setTimeout as delay } from "node:timers/promises";
import { ownerLabels } from "@berth/host";
import {
  mutatingAdmissionPolicies,
  mutatingAdmissionPolicyBindings,
  mutatingWebhookConfigurations,
} from "@berth/kube";
import { berthAs, originalGate } from "@berth/placement";
import { aNode, eventually } from "@berth/testcluster";
import { admissionDocument, type GateStage, gateDocument, post, startReady } from "./gate-stage.ts";
import { type Figure, quantile } from "./report.ts";

/** Creations of each kind, in blocks that take turns. */
const ROUNDS = 3;
const IN_A_BLOCK = 100;
/** Before a block, not counted: connections are made and the server compiles. */
const WARM_UP = 20;
/** The API server takes a change of its policies over once a second. Milliseconds. */
const TAKEN_OVER_MS = 2000;

/**
 * Dry runs: they pass admission as any other creation does, and nothing is stored, so that nothing else follows from
 * them: no event, no patch that Berth would answer with, and no growing cluster.
 */
const CREATE = "/api/v1/nodes?dryRun=All";

/** Milliseconds. */
interface Measured {
  readonly before: number[];
  readonly policy: number[];
  readonly webhook: number[];
  /** Without anything once more: what two runs of the same differ by. */
  readonly after: number[];
}

export async function benchAdmission(
  stage: GateStage,
  onProgress: (text: string) => void,
): Promise<readonly Figure[]> {
  const measured: Measured = { before: [], policy: [], webhook: [], after: [] };
  for (let round = 1; round <= ROUNDS; round++) {
    onProgress(`creating nodes without anything, with policies, with the webhook: ${round} of ${ROUNDS}`);
    measured.before.push(...(await createBlock(stage)));
    measured.policy.push(...(await blockWith(stage, { mode: "Policy" })));
    measured.webhook.push(...(await blockWith(stage, await webhookSpec())));
    measured.after.push(...(await createBlock(stage)));
  }
  return toFigures(measured);
}

async function webhookSpec(): Promise<object> {
  const address = `127.0.0.1:${await findFreePort()}`;
  return { mode: "Webhook", bindAddress: address, url: `https://${address}` };
}

/** Nothing listens there now. */
async function findFreePort(): Promise<number> {
  const server = createServer().listen(0, "127.0.0.1");
  await once(server, "listening");
  const { port } = server.address() as AddressInfo;
  server.close();
  await once(server, "close");
  return port;
}

/** Berth puts the taint on new nodes in this way while the block lasts. */
async function blockWith(stage: GateStage, admission: object): Promise<readonly number[]> {
  const program = await stage.berth([gateDocument(), admissionDocument(admission)]);
  try {
    await using berth = await startReady(program);
    await untilTainted(stage, true);
    const times = await createBlock(stage);
    berth.ended.throwIfAborted();
    return times;
  } finally {
    await removeObjects(stage);
  }
}

async function removeObjects(stage: GateStage): Promise<void> {
  const { client } = stage.cluster;
  const labelSelector = Object.entries(ownerLabels(berthAs("berth"), "startup-gate"))
    .map(([key, value]) => `${key}=${value}`)
    .join(",");
  await client.deleteCollection(mutatingAdmissionPolicyBindings, { labelSelector });
  await client.deleteCollection(mutatingAdmissionPolicies, { labelSelector });
  await client.deleteCollection(mutatingWebhookConfigurations, { labelSelector });
  await untilTainted(stage, false);
  await delay(TAKEN_OVER_MS);
}

async function untilTainted({ raw }: GateStage, wanted: boolean): Promise<void> {
  await eventually(async () => {
    const { text } = await raw.send(post(CREATE, aNode("probe").build()), { read: true });
    if (text.includes(originalGate.taint.key) !== wanted)
      throw new Error(`a new node is ${wanted ? "not " : ""}tainted`);
  });
}

/** One after the other. Milliseconds each. */
async function createBlock({ raw }: GateStage): Promise<readonly number[]> {
  const times: number[] = [];
  for (let index = -WARM_UP; index < IN_A_BLOCK; index++) {
    const node = aNode(`joining-${index + WARM_UP}`)
      .realistic()
      .build();
    const { sentAt, answeredAt } = await raw.send(post(CREATE, node));
    if (index >= 0) times.push(answeredAt - sentAt);
  }
  return times;
}

function toFigures({ before, policy, webhook, after }: Measured): readonly Figure[] {
  const without = [...before, ...after];
  const noise = (share: number): string =>
    Math.abs(quantile(before, share) - quantile(after, share)).toFixed(2);
  const added = (times: readonly number[], share: number): number =>
    quantile(times, share) - quantile(without, share);
  const detail = (times: readonly number[]): string =>
    `p50 ${quantile(times, 0.5).toFixed(2)} ms, p99 ${quantile(times, 0.99).toFixed(2)} ms, without anything ` +
    `${quantile(without, 0.5).toFixed(2)} and ${quantile(without, 0.99).toFixed(2)}; two runs without anything differ by ` +
    `${noise(0.5)} and ${noise(0.99)}; ${times.length} each, dry runs one at a time`;
  const what = "creation of a node";
  return [
    {
      id: "gate-admission-webhook-p99",
      what: `${what}: what the webhook adds at p99`,
      value: added(webhook, 0.99),
      unit: "ms",
      budget: 5,
      detail: detail(webhook),
    },
    {
      id: "gate-admission-webhook-p50",
      what: `${what}: what the webhook adds at p50`,
      value: added(webhook, 0.5),
      unit: "ms",
    },
    {
      id: "gate-admission-policy-p99",
      what: `${what}: what the policies add at p99`,
      value: added(policy, 0.99),
      unit: "ms",
      detail: detail(policy),
    },
    {
      id: "gate-admission-policy-p50",
      what: `${what}: what the policies add at p50`,
      value: added(policy, 0.5),
      unit: "ms",
    },
  ];
}
