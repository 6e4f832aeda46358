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
import { describeRefusal, grantCommand } from "./failure-text.ts";

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
    return Promise.resolve({ ended: this.#askUntilGranted(signal) });
  }

  read(name: string, signal: AbortSignal): Promise<Node> {
    return this.#options.client.get(nodes, { name }, { signal });
  }

  async patch(name: string, patch: NodePatch, signal: AbortSignal): Promise<Node> {
    if (this.#denied !== undefined) throw new TerminalError(describeRefusal(this.#denied));
    try {
      return await this.#options.client.patch(
        nodes,
        { name },
        { type: "merge", body: patch },
        { signal, timeoutMs: PATCH_TIMEOUT_MS },
      );
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
        grant: grantCommand(error),
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
}
