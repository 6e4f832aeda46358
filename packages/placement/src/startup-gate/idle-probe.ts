import { type KubeClient, type Node, pods } from "@berth/kube";
import {
  type Clock,
  type Component,
  type Controller,
  createController,
  type Logger,
  type MetricsRegistry,
  type Random,
  type ReconcileContext,
  type ReconcileResult,
  type Running,
} from "@berth/runtime";
import type { Idleness } from "./decide.ts";

export interface IdleProbeOptions {
  readonly client: Pick<KubeClient, "pages">;
  readonly clock: Clock;
  readonly log: Logger;
  readonly metrics?: MetricsRegistry;
  readonly random?: Random;
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
/** The longest wait after failures. Milliseconds; a node is to be gated within minutes of its creation. */
const RETRY_CAP_MS = 60_000;

/** One list of namespaces whose pods do not count, and the answer for it. */
interface Question {
  readonly ignored: ReadonlySet<string>;
  answer?: Exclude<Idleness, "unknown">;
  /** Of the answer, monotonic ms. */
  until: number;
  /** The answer before, when the node was busy: it goes on until there is another. */
  readonly busy?: Exclude<Idleness, "unknown">;
}

interface Inquiry {
  readonly uid: string;
  readonly questions: Map<string, Question>;
}

/**
 * Does a node run nothing yet? A node is idle when no pod is bound to it, whatever its phase and owner, outside the
 * namespaces that are ignored (node-controllers contract, N1 "Backfill").
 *
 * `idleOf` answers at once from memory. What it does not know it finds out by one list of the node's pods, read from
 * the server's latest state, and `onKnown` tells that an answer is there. That a node is idle is forgotten after
 * `ANSWER_MS`; a busy one stays so until it is known better, as nothing is done to it. A list that failed is repeated
 * with backoff until it is answered or forgotten. Without the permission to list pods everything stays unknown.
 */
export class IdleProbe implements Component {
  readonly name = "gate-idle-probe";
  readonly #options: IdleProbeOptions;
  readonly #controller: Controller<string>;
  /** By node name. */
  readonly #inquiries = new Map<string, Inquiry>();

  constructor(options: IdleProbeOptions) {
    const { clock, log, metrics, random } = options;
    this.#options = options;
    this.#controller = createController<string>({
      name: this.name,
      reconcile: (name, context) => this.#find(name, context),
      concurrency: MAX_LISTS,
      queue: { maxKeys: 2 * MAX_NODES, backoff: { capMs: RETRY_CAP_MS } },
      clock,
      log,
      ...(metrics && { metrics }),
      ...(random && { random }),
    });
  }

  /** Pods of `ignoredNamespaces` do not make it busy. An answer holds for the node of this uid. */
  idleOf(node: Node, ignoredNamespaces: readonly string[]): Idleness {
    const { name, uid } = node.metadata ?? {};
    if (!name || !uid) return "unknown";
    const { questions } = this.#inquiryOf(name, uid);
    const key = ignoredNamespaces.toSorted().join(" ");
    const question = questions.get(key);
    if (question?.answer !== undefined && this.#options.clock.monotonic() < question.until)
      return question.answer;
    // One that is open is looked for already, at its own pace.
    if (question === undefined || question.answer !== undefined) {
      const busy = question?.answer?.idle === false ? question.answer : undefined;
      questions.set(key, { ignored: new Set(ignoredNamespaces), until: 0, ...(busy && { busy }) });
      this.#controller.enqueue(name);
    }
    return questions.get(key)?.busy ?? "unknown";
  }

  /** The node is gone, or nobody asks any more. */
  forget(name: string): void {
    this.#inquiries.delete(name);
  }

  /** Nodes that something is remembered of. */
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
    const inquiry: Inquiry = { uid, questions: new Map() };
    this.#inquiries.delete(name);
    this.#makeRoom();
    this.#inquiries.set(name, inquiry);
    return inquiry;
  }

  #makeRoom(): void {
    if (this.#inquiries.size < MAX_NODES) return;
    for (const oldest of this.#inquiries.keys()) {
      this.#inquiries.delete(oldest);
      return;
    }
  }

  async #find(name: string, { signal }: ReconcileContext): Promise<ReconcileResult | undefined> {
    const { clock, onKnown } = this.#options;
    const inquiry = this.#inquiries.get(name);
    const open = inquiry?.questions.values().filter(({ answer }) => answer === undefined);
    const questions = [...(open ?? [])];
    if (questions.length === 0) return undefined;
    const busyWith = await this.#list(name, questions, signal);
    // Another node of this name, or nobody asks any more.
    if (signal.aborted || this.#inquiries.get(name) !== inquiry) return undefined;
    for (const question of questions) {
      const pod = busyWith.get(question);
      question.answer = pod === undefined ? { idle: true } : { idle: false, pod };
      question.until = clock.monotonic() + ANSWER_MS;
    }
    onKnown(name);
    return undefined;
  }

  /** The first pod that counts, for each question; pages are read only until all have one. */
  async #list(
    name: string,
    questions: readonly Question[],
    signal: AbortSignal,
  ): Promise<ReadonlyMap<Question, string>> {
    const busyWith = new Map<Question, string>();
    const pages = this.#options.client.pages(pods, {
      fieldSelector: `spec.nodeName=${name}`,
      metadataOnly: true,
      limit: PAGE_SIZE,
      signal,
    });
    for await (const { items } of pages) {
      for (const { metadata } of items) {
        const { namespace = "", name: pod = "" } = metadata ?? {};
        for (const question of questions) {
          if (!busyWith.has(question) && !question.ignored.has(namespace))
            busyWith.set(question, `${namespace}/${pod}`);
        }
      }
      if (busyWith.size === questions.length) break;
    }
    return busyWith;
  }
}
