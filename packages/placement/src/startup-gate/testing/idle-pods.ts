/** The pods that an idle probe lists: what is on each node, and what goes wrong with lists. */
import {
  ApiError,
  type ApiFailure,
  type KubeClient,
  type KubeObject,
  type List,
  type ListOptions,
  type Resource,
} from "@berth/kube";
import { createSilentLogger, createVirtualClock, sleep, type VirtualClock } from "@berth/runtime";
import { IdleProbe } from "../idle-probe.ts";

/** The pods of each node, page by page, and what lists meet. */
export class Pods {
  /** By node: pages of `namespace/name`. */
  readonly on: Map<string, readonly (readonly string[])[]> = new Map();
  /** By node: each failure meets one list. */
  readonly failures: Map<string, ApiFailure[]> = new Map();
  /** The right to list is missing. */
  denied = false;
  latencyMs = 5;
  /** Nodes that were listed, in order. */
  readonly lists: string[] = [];
  /** The other options of the lists. */
  readonly asked: Set<string> = new Set();
  inFlight = 0;
  most = 0;
  readonly #clock: VirtualClock;

  constructor(clock: VirtualClock) {
    this.#clock = clock;
  }

  readonly client: Pick<KubeClient, "pages"> = {
    pages: <T extends KubeObject>(
      _: Resource<T>,
      { fieldSelector, metadataOnly, limit, signal }: ListOptions<T> = {},
    ) => {
      const name = (fieldSelector ?? "").replace(/^spec\.nodeName=/, "");
      this.lists.push(name);
      this.asked.add(JSON.stringify({ metadataOnly, limit }));
      return this.#pages(name, signal) as AsyncIterable<List<T>>;
    },
  };

  async *#pages(name: string, signal: AbortSignal | undefined): AsyncGenerator<List<KubeObject>> {
    this.most = Math.max(this.most, ++this.inFlight);
    try {
      for (const page of this.on.get(name) ?? [[]]) {
        const failure = await this.#nextFailure(name, signal);
        if (failure !== undefined) throw new ApiError(failure, { verb: "list", resource: "pods" });
        const items = page.map((pod) => {
          const [namespace = "", podName = ""] = pod.split("/");
          return { metadata: { namespace, name: podName } };
        });
        yield { metadata: {}, items };
      }
    } finally {
      this.inFlight--;
    }
  }

  async #nextFailure(name: string, signal: AbortSignal | undefined): Promise<ApiFailure | undefined> {
    if (!(await sleep(this.#clock, this.latencyMs, signal))) return { kind: "aborted" };
    return this.denied ? { kind: "forbidden" } : this.failures.get(name)?.shift();
  }
}

/** A probe over these pods, on a clock of its own. */
export interface IdleSetup extends AsyncDisposable {
  readonly clock: VirtualClock;
  readonly pods: Pods;
  readonly probe: IdleProbe;
  /** Nodes told to be known, in order. */
  readonly known: string[];
}

export async function setUp(): Promise<IdleSetup> {
  const clock = createVirtualClock();
  const pods = new Pods(clock);
  const known: string[] = [];
  const log = createSilentLogger();
  const onKnown = (name: string): void => void known.push(name);
  const probe = new IdleProbe({ client: pods.client, clock, log, random: () => 0, onKnown });
  const stopping = new AbortController();
  const { ended } = await probe.start(stopping.signal);
  return {
    clock,
    pods,
    probe,
    known,
    async [Symbol.asyncDispose]() {
      stopping.abort();
      await clock.advance(60_000);
      await ended;
    },
  };
}
