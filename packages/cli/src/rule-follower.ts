import { customResourceDefinitions, isApiError, type KubeClient } from "@berth/kube";
import { type LabelRule, labelRules, ruleName } from "@berth/placement";
import {
  type Clock,
  type Component,
  type Informer,
  type Logger,
  type Running,
  whenAborted,
} from "@berth/runtime";
import { type ClusterRules, readClusterRules } from "./label-rules.ts";

export interface RuleFollowerOptions {
  readonly client: Pick<KubeClient, "get">;
  readonly rules: Informer<LabelRule>;
  readonly clock: Clock;
  readonly log: Logger;
  /** A CRD that is younger may not have got all its rules yet. Milliseconds, default `CRD_GRACE_MS`. */
  readonly graceMs?: number;
  /** Gets the rules as they are and as they change; `undefined` while it is not known which there should be. */
  readonly onRules: (rules: ClusterRules | undefined) => void;
}

/** Edits of several rules within this time are put together once. Milliseconds. */
const COALESCE_MS = 50;
/** How soon a question to the server that failed is asked again. Milliseconds. */
const RETRY_MS = 5000;
/** Whoever installs a CRD anew applies the rules after it. */
export const CRD_GRACE_MS: number = 10 * 60_000;

const CRD = `${labelRules.plural}.${labelRules.group}`;

type CrdState =
  | { readonly state: "served"; readonly createdAt: number }
  /** It is being deleted, or is not there: with it all rules go, and nobody meant the rules. */
  | { readonly state: "ending" }
  | { readonly state: "unknown"; readonly retry: boolean };

/**
 * Follows the LabelRules of the cluster, and doubts their disappearance: a rule that was deleted takes its labels with
 * it, a CRD that was deleted must not. So when rules are gone the CRD is asked for, and rules that a young CRD does not
 * have are not taken for deleted, unless this process saw them go.
 */
export class RuleFollower implements Component {
  readonly name = "label-rules-follower";
  readonly #options: RuleFollowerOptions;
  /** Names that were taken over; `undefined` before the first time, and after the CRD was gone. */
  #names: ReadonlySet<string> | undefined;
  /** Deleted on purpose, as seen by this process. */
  readonly #deleted = new Set<string>();
  #createdAt = Number.NEGATIVE_INFINITY;
  #timer: Disposable | undefined;
  /** Of the timer, monotonic ms. */
  #dueAt = 0;
  #work: Promise<void> = Promise.resolve();

  constructor(options: RuleFollowerOptions) {
    this.#options = options;
  }

  async start(signal: AbortSignal): Promise<Running> {
    const { rules } = this.#options;
    const subscription = rules.subscribe({
      onChange: (change) => {
        if (change.type === "updated" && isSameRule(change.old, change.object)) return;
        this.#schedule(COALESCE_MS, signal);
      },
    });
    if (rules.synced) await this.#takeOver(signal);
    else void rules.whenSynced(signal).then((synced) => synced && this.#schedule(0, signal));
    return { ended: this.#end(subscription, signal) };
  }

  async #end(subscription: Disposable, signal: AbortSignal): Promise<void> {
    using _subscribed = subscription;
    await whenAborted(signal);
    this.#timer?.[Symbol.dispose]();
    await this.#work;
  }

  /** The soonest of what was asked for. */
  #schedule(delayMs: number, signal: AbortSignal): void {
    const { clock } = this.#options;
    const dueAt = clock.monotonic() + delayMs;
    if (signal.aborted || (this.#timer !== undefined && this.#dueAt <= dueAt)) return;
    this.#timer?.[Symbol.dispose]();
    this.#dueAt = dueAt;
    this.#timer = clock.schedule(delayMs, () => {
      this.#timer = undefined;
      this.#work = this.#work.then(() => this.#takeOver(signal));
    });
  }

  async #takeOver(signal: AbortSignal): Promise<void> {
    const { rules, clock, onRules, graceMs: youngMs = CRD_GRACE_MS } = this.#options;
    if (!rules.synced || signal.aborted) return;
    const now = new Set([...rules.list()].map(({ metadata }) => metadata?.name ?? ""));
    const vanished = [...(this.#names ?? [])].filter((name) => !now.has(name));
    if (this.#names === undefined || vanished.length > 0) {
      const crd = await this.#readCrd(now.size === 0, signal);
      if (crd.state === "unknown" && crd.retry) {
        this.#schedule(RETRY_MS, signal);
        return;
      }
      if (crd.state === "ending") {
        this.#forget();
        return;
      }
      if (crd.state === "served") this.#createdAt = crd.createdAt;
    }
    for (const name of vanished) this.#deleted.add(ruleName("cluster", name));
    for (const name of now) this.#deleted.delete(ruleName("cluster", name));
    this.#names = now;
    const graceMs = this.#createdAt + youngMs - clock.now();
    if (graceMs > 0) this.#schedule(graceMs, signal);
    const read = readClusterRules(rules.list());
    onRules(graceMs > 0 ? { ...read, unsettled: { deleted: new Set(this.#deleted) } } : read);
  }

  #forget(): void {
    if (this.#names !== undefined)
      this.#options.log.warn("the CRD of the label rules is gone; their labels stay as they are", {
        crd: CRD,
      });
    this.#names = undefined;
    this.#deleted.clear();
    this.#options.onRules(undefined);
  }

  /** @param none no rule is left: what the deletion of the CRD would look like. */
  async #readCrd(none: boolean, signal: AbortSignal): Promise<CrdState> {
    try {
      const crd = await this.#options.client.get(customResourceDefinitions, { name: CRD }, { signal });
      const { deletionTimestamp, creationTimestamp = "" } = crd.metadata ?? {};
      if (deletionTimestamp !== undefined) return { state: "ending" };
      return { state: "served", createdAt: Date.parse(creationTimestamp) || Number.NEGATIVE_INFINITY };
    } catch (error) {
      if (signal.aborted) return { state: "unknown", retry: false };
      if (isApiError(error, "notFound")) return { state: "ending" };
      if (!isApiError(error, "forbidden")) return { state: "unknown", retry: true };
      this.#options.log.warn("the CRD of the label rules cannot be read, so its deletion cannot be told", {
        crd: CRD,
        error: error.message,
      });
      return none && this.#names !== undefined ? { state: "ending" } : { state: "unknown", retry: false };
    }
  }
}

/** Our own status changes nothing about what a rule says. */
function isSameRule(a: LabelRule, b: LabelRule): boolean {
  return (
    a.metadata?.generation === b.metadata?.generation &&
    a.metadata?.uid === b.metadata?.uid &&
    JSON.stringify(a.metadata?.annotations) === JSON.stringify(b.metadata?.annotations)
  );
}
