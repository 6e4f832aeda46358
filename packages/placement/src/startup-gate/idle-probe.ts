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
  /** It is known whether this node is idle, for as long as `ANSWER_MS`. Must not throw. */
  readonly onKnown: (node: string) => void;
}

/** A pod can be bound at any moment, so an answer is soon forgotten. Milliseconds. */
export const ANSWER_MS: number = 10_000;
/** Lists in flight: a restart asks for many nodes at once, and each list of them searches one index of the server. */
const MAX_LISTS = 8;
/** Nodes that are remembered: four times as many as Kubernetes is made for. Beyond it the oldest starts over. */
const MAX_NODES = 20_000;
const PAGE_SIZE = 500;
/** The longest wait after failures, ms: a node is to be gated within minutes of its creation. */
const RETRY_CAP_MS = 60_000;

interface Inquiry {
  readonly uid: string;
  /** The first pod of each namespace that has some on the node. Absent: not listed yet. */
  found?: ReadonlyMap<string, string>;
  /** How long that counts, monotonic ms. */
  until: number;
  /** A list is under way. */
  isOpen: boolean;
}

/**
 * Does a node run nothing yet? A node is idle when no pod is bound to it, whatever its phase and owner, outside the
 * namespaces that are ignored (node-controllers contract, N1 "Backfill").
 *
 * `idleOf` answers at once from memory. What it does not know it finds out by one list of the node's pods, read from
 * the server's latest state. That a node is idle is forgotten after `ANSWER_MS`; a busy one stays so until it is known
 * better, as nothing is done to it. A list that failed is repeated with backoff until it is answered or forgotten.
 * Without the permission to list pods everything stays unknown.
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

  /** Pods of `ignoredNamespaces` do not make it busy. An answer holds for the node of this uid. */
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

  /** The node is gone, or nobody asks any more. */
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
    // Another node of this name, or nobody asks any more.
    if (signal.aborted || this.#inquiries.get(name) !== inquiry) return;
    Object.assign(inquiry, { found, until: clock.monotonic() + ANSWER_MS, isOpen: false });
    onKnown(name);
  }
}
