/** Delivers the changes of Nodes that NodeNotifiers ask for. On the leader only. */
import { durationMs, type LocatedDocument, type PostResult } from "@berth/host";
import { cronJobs, isApiError, jobs, type Node } from "@berth/kube";
import {
  backoffDelay,
  type Counter,
  createController,
  isSameData,
  type ReconcileResult,
} from "@berth/runtime";
import { matchesSelector } from "../../node/selector.ts";
import type { NodeHost } from "../../node/wired.ts";
import { diffOf, keyMatcher, toMessage } from "./diff.ts";
import { type NodeNotifierSpec, nodeNotifierKind } from "./document.ts";
import { jobOf } from "./job.ts";
import { type PendingChange, PendingChanges } from "./pending.ts";

type NotifierHost = Pick<
  NodeHost,
  "nodes" | "client" | "post" | "metrics" | "log" | "clock" | "onFiles" | "onFault" | "add"
>;

/** The reason of the warning about a notifier that loses changes. */
const NOTIFICATIONS_LOST = "NotificationsLost";

/** Nodes that may wait for one notifier. */
const MAX_PENDING = 1_000;
/** The first change waits this long for further ones, and so does each round of messages. Milliseconds. */
const COALESCE_MS = 1_000;
const BACKOFF = { baseMs: 1_000, capMs: 300_000 };

/** Follows the notifiers in files. While this replica leads, each delivers its changes one after the other. */
export function wireNotifiers(host: NotifierHost): void {
  const { nodes, log, clock, metrics } = host;
  const notifiers = new Map<string, Notifier>();
  const total = metrics.counter({
    name: "berth_notifications_total",
    help: "Changes of nodes by notifier and result: sent, refused, failed after all retries, or dropped",
    labels: ["notifier", "result"],
  });
  const waiting = metrics.gauge({
    name: "berth_notifications_pending",
    help: "Nodes whose changes wait for a notifier",
    labels: ["notifier"],
    collect: (gauge) => notifiers.forEach(({ size }, notifier) => gauge.set(size, { notifier })),
  });
  const controller = createController<string>({
    name: "node-notifiers",
    clock,
    log,
    metrics,
    queue: { coalesceMs: COALESCE_MS, backoff: BACKOFF },
    sources: [
      {
        start(enqueue) {
          const stop = new DisposableStack();
          stop.defer(() => notifiers.forEach((notifier) => notifier.drop("this replica stops")));
          stop.use(
            nodes.subscribe({
              onChange(change) {
                if (change.type !== "updated") return;
                for (const [name, notifier] of notifiers)
                  if (notifier.note(change.old, change.object)) enqueue(name);
              },
            }),
          );
          return stop;
        },
      },
    ],
    reconcile: async (name, { signal }) => notifiers.get(name)?.deliver(signal),
  });
  host.onFiles((documents) => {
    const given = new Map(documents.documentsOf(nodeNotifierKind).map((it) => [it.name, it]));
    for (const [name, notifier] of notifiers) {
      // Berth reads all files again when one of them changes.
      if (isSameData(given.get(name)?.spec, notifier.spec)) continue;
      notifier.drop("the notifier was changed or removed");
      notifiers.delete(name);
      waiting.set(0, { notifier: name });
    }
    for (const [name, document] of given)
      if (!notifiers.has(name)) notifiers.set(name, new Notifier(document, host, total));
  });
  host.add([controller], "elected");
}

class Notifier {
  readonly spec: NodeNotifierSpec;
  readonly #document: LocatedDocument<NodeNotifierSpec>;
  readonly #host: NotifierHost;
  readonly #total: Counter<"notifier" | "result">;
  readonly #isWanted: (key: string) => boolean;
  readonly #pending = new PendingChanges(MAX_PENDING);
  /** True from the first change until nothing waits. A further change must not end the wait before a retry. */
  #isBusy = false;
  #isDropped = false;
  #isReported = false;
  /** Changes left in this round. A node is in a round once, and rounds are apart, so a node that flaps is bounded. */
  #left = 0;
  /** Failures in a row, whatever the node: they usually have one cause. */
  #failures = 0;

  constructor(
    document: LocatedDocument<NodeNotifierSpec>,
    host: NotifierHost,
    total: Counter<"notifier" | "result">,
  ) {
    this.spec = document.spec;
    this.#document = document;
    this.#host = host;
    this.#total = total;
    this.#isWanted = keyMatcher(this.spec.keys);
  }

  get size(): number {
    return this.#pending.size;
  }

  /** Keeps a change of a node, if the notifier is about it. Returns whether `deliver` has to be called. */
  note(old: Node, now: Node): boolean {
    const change = diffOf(old, now, this.#isWanted);
    const isSelected = (node: Node): boolean =>
      matchesSelector(this.spec.nodeSelector, node.metadata?.labels);
    if (change.size === 0 || !(isSelected(now) || isSelected(old))) return false;
    const { name: node = "", resourceVersion = "" } = now.metadata ?? {};
    this.#displaced(this.#pending.add({ node, resourceVersion, change, attempts: 0 }));
    const isNew = !this.#isBusy;
    this.#isBusy = true;
    return isNew;
  }

  /** Delivers the oldest change. Does not reject for what a receiver does. */
  async deliver(signal: AbortSignal): Promise<ReconcileResult | undefined> {
    this.#left ||= this.#pending.size;
    const pending = this.#pending.take();
    this.#isBusy = pending !== undefined;
    this.#left = pending === undefined ? 0 : this.#left - 1;
    if (pending === undefined) return undefined;
    const { name } = this.#document;
    const answer = await (this.spec.job ? this.#createJob(pending, signal) : this.#post(pending, signal));
    if (answer.result === "failed") return { recheckAfterMs: this.#failed(pending, answer) };
    this.#failures = 0;
    if (answer.result === "refused") this.#lost("refused", pending, answer.problem);
    else {
      this.#total.inc({ notifier: name, result: "sent" });
      if (this.#isReported) this.#host.log.info("a notifier delivers again", { notifier: name });
      this.#isReported = false;
    }
    return { recheckAfterMs: this.#left > 0 ? 0 : COALESCE_MS };
  }

  /** Forgets what waits. */
  drop(why: string): void {
    const { name } = this.#document;
    const count = this.#pending.size;
    while (this.#pending.take() !== undefined);
    this.#isDropped = true;
    this.#total.inc({ notifier: name, result: "dropped" }, count);
    if (count > 0) this.#host.log.warn("changes of nodes are not sent", { notifier: name, count, why });
  }

  #post({ node, change }: PendingChange, signal: AbortSignal): Promise<PostResult> {
    const { url, timeout, certificateAuthority: caFile } = this.spec.post ?? { url: "", timeout: "" };
    return this.#host.post(url, toMessage(node, change), { timeoutMs: durationMs(timeout), signal, caFile });
  }

  async #createJob(pending: PendingChange, signal: AbortSignal): Promise<PostResult> {
    const { client } = this.#host;
    const { namespace, cronJob: name } = this.spec.job ?? { namespace: "", cronJob: "" };
    const of = { notifier: this.#document.name, namespace, name };
    try {
      const cronJob = await client.get(cronJobs, of, { signal });
      await client.create(jobs, jobOf(cronJob, of, pending), { namespace, signal });
      return { result: "accepted" };
    } catch (error) {
      // An earlier attempt created the Job, and its answer was lost.
      if (isApiError(error, "alreadyExists")) return { result: "accepted" };
      if (!isApiError(error)) throw error;
      const { message: problem, retryAfterMs = 0 } = error;
      return { result: isApiError(error, "invalid") ? "refused" : "failed", problem, retryAfterMs };
    }
  }

  /** Returns the time until the next attempt, ms. */
  #failed(pending: PendingChange, answer: Extract<PostResult, { readonly result: "failed" }>): number {
    const { problem, retryAfterMs = 0 } = answer;
    const attempts = pending.attempts + 1;
    const of = { notifier: this.#document.name, node: pending.node, attempts, problem };
    this.#host.log.warn("a change of a node was not delivered", of);
    if (this.#isDropped) this.#lost("dropped", pending, problem);
    else if (attempts > this.spec.retries) this.#lost("failed", pending, problem);
    else this.#displaced(this.#pending.putBack({ ...pending, attempts }));
    this.#failures += 1;
    return Math.max(retryAfterMs, backoffDelay(this.#failures, BACKOFF));
  }

  #displaced(pending: PendingChange | undefined): void {
    if (pending !== undefined) this.#lost("dropped", pending, `more than ${MAX_PENDING} nodes wait`);
  }

  /** Warns once until the next delivery. The metric counts each change. */
  #lost(result: "refused" | "failed" | "dropped", { node }: PendingChange, problem: string): void {
    const { name, file, line, column } = this.#document;
    this.#total.inc({ notifier: name, result });
    if (this.#isReported) return;
    this.#isReported = true;
    const message = `NodeNotifier ${name}: a change of node ${node} is lost: ${problem}`;
    this.#host.onFault({ file, line, column, severity: "warning", reason: NOTIFICATIONS_LOST, message });
  }
}
