import {
  type ApiError,
  isApiError,
  type KubeClient,
  type Node,
  nodes,
  type SelfSubjectAccessReview,
  selfSubjectAccessReviews,
} from "@berth/kube";
import type { NodeApi, NodePatch } from "@berth/placement";
import {
  type Clock,
  type Component,
  type Logger,
  type Running,
  sleep,
  TerminalError,
  whenAborted,
} from "@berth/runtime";
import { describeRefusal } from "./failure-text.ts";

export interface NodeAccessOptions {
  readonly client: Pick<KubeClient, "get" | "patch" | "create">;
  readonly clock: Clock;
  readonly log: Logger;
  /** The permission that was missing has been granted: every node has to be looked at again. */
  readonly onGranted: () => void;
}

/** How often the API server is asked whether the permission has been granted meanwhile. */
const ASK_AGAIN_MS = 3000;
/**
 * A patch that vanishes on its way (dropped packets) is sent again after this long. Safe to repeat: it is guarded by
 * the resourceVersion, so one that did arrive is answered with a conflict and decided again.
 */
const PATCH_TIMEOUT_MS = 10_000;

/**
 * The node writer's way to the API server. When authorization refuses patches of Nodes as such, writing stops for
 * all nodes at once, readiness names the missing rule, and one question every few seconds finds out when it is there.
 * A refusal of one node (by admission) is the writer's own affair.
 */
export class NodeAccess implements NodeApi, Component {
  readonly name = "node-access";
  readonly #options: NodeAccessOptions;
  #denied: ApiError | undefined;
  #burst: Burst | undefined;
  #tell: Disposable | undefined;
  #wake = Promise.withResolvers<void>();

  constructor(options: NodeAccessOptions) {
    this.#options = options;
  }

  /** True while no patch can succeed. */
  get denied(): boolean {
    return this.#denied !== undefined;
  }

  problem(): string | undefined {
    return this.#denied === undefined ? undefined : describeRefusal(this.#denied);
  }

  start(signal: AbortSignal): Promise<Running> {
    return Promise.resolve({ ended: this.#askUntilGranted(signal).finally(() => this.#endBurst()) });
  }

  read(name: string, signal: AbortSignal): Promise<Node> {
    return this.#options.client.get(nodes, { name }, { signal });
  }

  async patch(name: string, patch: NodePatch, signal: AbortSignal): Promise<Node> {
    if (this.#denied !== undefined) throw new TerminalError(describeRefusal(this.#denied));
    try {
      const written = await this.#options.client.patch(
        nodes,
        { name },
        { type: "merge", body: patch },
        { signal, timeoutMs: PATCH_TIMEOUT_MS },
      );
      this.#logWritten(name, patch);
      return written;
    } catch (error) {
      if (!isApiError(error, "forbidden") || (await this.#mayPatch(signal)) !== false) throw error;
      this.#deny(error);
      throw new TerminalError(describeRefusal(error), { cause: error });
    }
  }

  #deny(error: ApiError): void {
    if (this.#denied === undefined) {
      this.#options.log.error("nodes cannot be written until this is granted", {
        missing: describeRefusal(error),
      });
    }
    this.#denied = error;
    this.#wake.resolve();
  }

  async #askUntilGranted(signal: AbortSignal): Promise<void> {
    const { clock, log, onGranted } = this.#options;
    while (!signal.aborted) {
      await Promise.race([this.#wake.promise, whenAborted(signal)]);
      if (!(await sleep(clock, ASK_AGAIN_MS, signal))) return;
      if ((await this.#mayPatch(signal)) !== true) continue;
      this.#denied = undefined;
      this.#wake = Promise.withResolvers();
      log.info("nodes can be written again");
      onGranted();
    }
  }

  /** `undefined` when the server would not say. */
  async #mayPatch(signal: AbortSignal): Promise<boolean | undefined> {
    const question: SelfSubjectAccessReview = {
      spec: { resourceAttributes: { verb: "patch", resource: "nodes" } },
    };
    try {
      const answer = await this.#options.client.create(selfSubjectAccessReviews, question, {
        signal,
        timeoutMs: 5000,
      });
      return answer.status?.allowed;
    } catch {
      return undefined;
    }
  }

  /** One line for each write would cost a tenth of a mass change: it is there at level debug. */
  #logWritten(node: string, { metadata: { labels }, spec }: NodePatch): void {
    const { log, clock } = this.#options;
    const set = Object.entries(labels ?? {}).filter(([, value]) => value !== null);
    const removed = Object.entries(labels ?? {}).filter(([, value]) => value === null);
    log.debug("node written", {
      node,
      ...(set.length === 0 ? {} : { labelsSet: set.map(([key, value]) => `${key}=${value}`) }),
      ...(removed.length === 0 ? {} : { labelsRemoved: removed.map(([key]) => key) }),
      ...(spec === undefined ? {} : { spec: Object.keys(spec) }),
    });
    this.#burst ??= startBurst();
    this.#burst.nodes += 1;
    if (this.#burst.first.length < MOST_NAMED) this.#burst.first.push(node);
    for (const [key] of set) this.#burst.set.set(key, (this.#burst.set.get(key) ?? 0) + 1);
    for (const [key] of removed) this.#burst.removed.set(key, (this.#burst.removed.get(key) ?? 0) + 1);
    this.#tell ??= clock.schedule(TELL_AFTER_MS, () => this.#logBurst());
  }

  #endBurst(): void {
    this.#tell?.[Symbol.dispose]();
    this.#logBurst();
  }

  #logBurst(): void {
    const burst = this.#burst;
    this.#tell = undefined;
    this.#burst = undefined;
    if (burst === undefined) return;
    const { nodes: count, first, set, removed } = burst;
    this.#options.log.info(count === 1 ? "node written" : "nodes written", {
      ...(count === 1 ? { node: first[0] } : { nodes: count, first }),
      ...(set.size === 0 ? {} : { labelsSet: Object.fromEntries(set) }),
      ...(removed.size === 0 ? {} : { labelsRemoved: Object.fromEntries(removed) }),
    });
  }
}

/** What was written since the last line about it. */
interface Burst {
  nodes: number;
  readonly first: string[];
  /** Nodes by label. */
  readonly set: Map<string, number>;
  readonly removed: Map<string, number>;
}

function startBurst(): Burst {
  return { nodes: 0, first: [], set: new Map(), removed: new Map() };
}

/** Writes within this time are one line of the log. Milliseconds. */
const TELL_AFTER_MS = 1000;
/** Nodes named in such a line. */
const MOST_NAMED = 5;
