/** A tenant that floods the webhook with reviews of Workloads, each with networks that Berth has never been asked about. */
import { once } from "node:events";
import type { IncomingMessage } from "node:http";
import { Agent, request } from "node:https";
import { setTimeout as delay } from "node:timers/promises";
import { aWorkload } from "../fleet-fixture.ts";

export interface FloodOptions {
  /** Of the webhook of Workloads. */
  readonly url: string;
  readonly ca: string;
  readonly perSecond: number;
  /** Whom the reviews claim to be from. Default: another user and namespace each time. */
  readonly as?: { readonly username: string; readonly namespace: string };
}

export interface Flood extends AsyncDisposable {
  /** How often each code was answered: 200 is an allowed Workload. */
  readonly answers: ReadonlyMap<number, number>;
}

/** Networks of each review: as many as a Workload may have. */
const NETWORKS = 16;
const TICK_MS = 50;

/** Sends reviews from 127.0.0.2 until disposed, whether or not earlier ones were answered. */
export function floodReviews({ url, ca, perSecond, as }: FloodOptions): Flood {
  const agent = new Agent({ ca, keepAlive: true, maxSockets: 64, localAddress: "127.0.0.2" });
  const stop = new AbortController();
  const answers = new Map<number, number>();
  let count = 0;
  const send = async (): Promise<void> => {
    const at = count++;
    const sending = request(url, { agent, method: "POST", headers: { "content-type": "application/json" } });
    const answered = once(sending, "response") as Promise<[IncomingMessage]>;
    sending.end(reviewOf(at, as ?? { username: `user-${at}`, namespace: `namespace-${at}` }));
    const [answer] = await answered;
    const text = (await answer.setEncoding("utf8").toArray()).join("");
    const code = answer.statusCode === 200 ? codeOf(text) : (answer.statusCode ?? 0);
    answers.set(code, (answers.get(code) ?? 0) + 1);
  };
  const run = async (): Promise<void> => {
    while (!stop.signal.aborted) {
      for (let sent = 0; sent < (perSecond * TICK_MS) / 1000; sent++) send().catch(() => undefined);
      await delay(TICK_MS);
    }
  };
  const running = run();
  return {
    answers,
    async [Symbol.asyncDispose]() {
      stop.abort();
      await running;
      agent.destroy();
    },
  };
}

function codeOf(text: string): number {
  const { response } = JSON.parse(text) as {
    readonly response: { readonly allowed: boolean; readonly status?: { readonly code?: number } };
  };
  return response.allowed ? 200 : (response.status?.code ?? 0);
}

function reviewOf(
  at: number,
  { username, namespace }: { readonly username: string; readonly namespace: string },
): string {
  const group = { group: "compute.datumapis.com", version: "v1alpha" };
  return JSON.stringify({
    apiVersion: "admission.k8s.io/v1",
    kind: "AdmissionReview",
    request: {
      uid: `flood-${at}`,
      kind: { ...group, kind: "Workload" },
      resource: { ...group, resource: "workloads" },
      operation: "CREATE",
      namespace,
      userInfo: { username },
      object: withNetworks(
        namespace,
        Array.from({ length: NETWORKS }, (_, index) => `flood-${at}-${index}`),
      ),
    },
  });
}

/** A Workload with one interface for each network. */
export function withNetworks(namespace: string, networks: readonly string[]): ReturnType<typeof aWorkload> {
  const { spec, ...workload } = aWorkload({ namespace });
  if (spec === undefined) throw new TypeError("a Workload has a spec");
  const { template } = spec;
  const networkInterfaces = networks.map((name) => ({ network: { name } }));
  return {
    ...workload,
    spec: { ...spec, template: { ...template, spec: { ...template.spec, networkInterfaces } } },
  };
}
