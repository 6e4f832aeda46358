import { type ApiError, type Node, nodes } from "@berth/kube";
import type { NodeApi, NodePatch } from "@berth/placement";
import { type Component, type GuardedClient, type Running, whenAborted } from "@berth/runtime";
import { describeRefusal, grantCommand } from "./failure-text.ts";

/**
 * Timeout after which a lost patch is sent again. Repeating is safe because the resourceVersion guards the patch: if
 * the first one did arrive, the server answers with a conflict.
 */
const PATCH_TIMEOUT_MS = 10_000;

/** The node writer's access to the API server. Readiness names a missing permission to write Nodes. */
export class NodeAccess implements NodeApi, Component {
  readonly name = "node-access";
  readonly #client: Pick<GuardedClient, "get" | "patch" | "whyRefused">;

  constructor(client: Pick<GuardedClient, "get" | "patch" | "whyRefused">) {
    this.#client = client;
  }

  problem(): string | undefined {
    const refusal = this.#client.whyRefused(["nodes"], ["patch"]);
    return refusal && describeRefusal(refusal);
  }

  start(signal: AbortSignal): Promise<Running> {
    return Promise.resolve({ ended: whenAborted(signal) });
  }

  read(name: string, signal: AbortSignal): Promise<Node> {
    return this.#client.get(nodes, { name }, { signal });
  }

  /**
   * A strategic merge patch means the same for the fields of a `NodePatch`, and costs the API server a sixth less: it
   * patches the object, where a merge patch is applied to its JSON (docs/decisions/0021).
   */
  patch(name: string, body: NodePatch, signal: AbortSignal, versionOnly: boolean): Promise<Node> {
    const options = { signal, timeoutMs: PATCH_TIMEOUT_MS, versionOnly };
    return this.#client.patch(nodes, { name }, { type: "strategic", body }, options);
  }
}

/** A hint for the log: the role of k8s-auto-labeller lacks this permission, and Berth cannot set labels without it. */
export function grantOfNodePatch(refusal: ApiError): string | undefined {
  const { verb, resource } = refusal.request;
  return verb === "patch" && resource === "nodes" ? grantCommand(refusal) : undefined;
}
