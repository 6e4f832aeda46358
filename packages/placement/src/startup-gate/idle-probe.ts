import { type KubeClient, type Node, pods } from "@berth/kube";
import {
  type Component,
  type Controller,
  type ControllerOptions,
  createController,
  type ReconcileContext,
  type Running,
} from "@berth/runtime";
import type { Idleness } from "./decide.ts";

export interface IdleProbeOptions extends Pick<ControllerOptions, "clock" | "log" | "metrics" | "random"> {
  readonly client: Pick<KubeClient, "pages">;
  /** The answer for this node is known, for as long as `ANSWER_MS`. Must not throw. */
  readonly onKnown: (node: string) => void;
}

/** Lifetime of an answer, ms. Short, because the scheduler may bind a pod at any moment. */
export const ANSWER_MS: number = 10_000;
/** Concurrent lists. A restart asks about many nodes at once; each list searches one index of the server. */
const MAX_LISTS = 8;
/** Number of remembered nodes: four times the limit of Kubernetes. Beyond it the oldest inquiry starts over. */
const MAX_NODES = 20_000;
const PAGE_SIZE = 500;
/** Longest wait after failures, ms: the gate must hold a node within minutes of its creation. */
const RETRY_CAP_MS = 60_000;

interface Inquiry {
  readonly uid: string;
  /** The first pod of each namespace that has pods on the node. Absent: not listed yet. */
  found?: ReadonlyMap<string, string>;
  /** When the answer expires, monotonic ms. */
  until: number;
  /** A list is in progress. */
  isOpen: boolean;
}

/**
 * Tells whether a node runs nothing yet. A node is idle when no pod outside the ignored namespaces is bound to it,
 * whatever the pod's phase and owner (node-controllers contract, N1 "Backfill").
 *
 * `idleOf` answers at once from memory. If it has no answer, it lists the pods of the node once, from the server's
 * latest state. An idle answer expires after `ANSWER_MS`. A busy answer stays until a list replaces it, because Berth
 * does nothing to a busy node. A failed list repeats with backoff until it succeeds or the inquiry is dropped. Without
 * the permission to list pods every node stays unknown.
 */
export class IdleProbe implements Component {
  readonly name = "gate-idle-probe";
  readonly #options: IdleProbeOptions;
  readonly #controller: Controller<string>;
  readonly #inquiries = new Map<string, Inquiry>();

  constructor(options: IdleProbeOptions) {
    const { client: _, onKnown: __, ...around } = options;
    this.#options = options;
    this.#controller = createController<string>({
      name: this.name,
      reconcile: (name, context) => this.#find(name, context),
      concurrency: MAX_LISTS,
      queue: { maxKeys: 2 * MAX_NODES, backoff: { capMs: RETRY_CAP_MS } },
      ...around,
    });
  }

  /** Pods of `ignoredNamespaces` do not make a node busy. An answer is valid for the node of this uid. */
  idleOf(node: Node, ignoredNamespaces: readonly string[]): Idleness {
    const { name, uid } = node.metadata ?? {};
    if (!name || !uid) return "unknown";
    const inquiry = this.#inquiryOf(name, uid);
    if (!inquiry.isOpen && this.#options.clock.monotonic() >= inquiry.until) {
      inquiry.isOpen = true;
      this.#controller.enqueue(name);
    }
    const busy = inquiry.found?.entries().find(([namespace]) => !ignoredNamespaces.includes(namespace));
    if (busy !== undefined) return { idle: false, pod: busy.join("/") };
    return inquiry.isOpen ? "unknown" : { idle: true };
  }

  /** For a node that is gone, or that no gate asks about any more. */
  forget(name: string): void {
    this.#inquiries.delete(name);
  }

  get remembered(): number {
    return this.#inquiries.size;
  }

  start(signal: AbortSignal): Promise<Running> {
    return this.#controller.start(signal);
  }

  problem(): string | undefined {
    return this.#controller.problem?.();
  }

  #inquiryOf(name: string, uid: string): Inquiry {
    const known = this.#inquiries.get(name);
    if (known?.uid === uid) return known;
    const inquiry: Inquiry = { uid, until: Number.NEGATIVE_INFINITY, isOpen: false };
    this.#inquiries.delete(name);
    const [oldest = ""] = this.#inquiries.keys();
    if (this.#inquiries.size >= MAX_NODES) this.#inquiries.delete(oldest);
    this.#inquiries.set(name, inquiry);
    return inquiry;
  }

  async #find(name: string, { signal }: ReconcileContext): Promise<undefined> {
    const { client, clock, onKnown } = this.#options;
    const inquiry = this.#inquiries.get(name);
    if (!inquiry?.isOpen) return;
    const found = new Map<string, string>();
    const scope = { fieldSelector: `spec.nodeName=${name}`, metadataOnly: true, limit: PAGE_SIZE, signal };
    for await (const { items } of client.pages(pods, scope)) {
      for (const { metadata: { namespace = "", name: pod = "" } = {} } of items)
        if (!found.has(namespace)) found.set(namespace, pod);
    }
    // Another node has this name now, or no gate asks any more.
    if (signal.aborted || this.#inquiries.get(name) !== inquiry) return;
    Object.assign(inquiry, { found, until: clock.monotonic() + ANSWER_MS, isOpen: false });
    onKnown(name);
  }
}
