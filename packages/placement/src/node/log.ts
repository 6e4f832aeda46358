/** Logs the writes to nodes and their reasons. The fields are stable (docs/reference/logs.md); the texts are not. */

import { type Clock, type Component, type Logger, type Running, whenAborted } from "@berth/runtime";
import { type Contribution } from "./capability.ts";
import { type Change } from "./change.ts";
import { taintText } from "./daemonset-placement.ts";
import { holdsPods, parseMarkId } from "./mark.ts";
import { type NodeObserver } from "./observer.ts";

export interface NodeLogOptions {
  readonly clock: Clock;
  readonly log: Logger;
  /** What the documents of a capability are called. Default: `rule`. */
  readonly nouns?: ReadonlyMap<string, string>;
}

/**
 * Each taint or cordon gets its own line. Label changes are frequent: a line for each write would add a tenth to the
 * cost of a mass change. So one line covers all label writes of a second. Level debug shows each change.
 */
export class NodeLog implements NodeObserver, Component {
  readonly name = "node-log";
  readonly #options: NodeLogOptions;
  #burst: Burst | undefined;
  #tell: Disposable | undefined;

  constructor(options: NodeLogOptions) {
    this.#options = options;
  }

  start(signal: AbortSignal): Promise<Running> {
    const ended = whenAborted(signal).finally(() => {
      this.#tell?.[Symbol.dispose]();
      this.#logBurst();
    });
    return Promise.resolve({ ended });
  }

  decided(): void {}

  gone(): void {}

  written(node: string, changes: readonly Change[], contributions: readonly Contribution[]): void {
    const { log } = this.#options;
    const fields = changes.map(({ id: mark, action, capability, rule, reason, before, after }) => {
      return { mark, action, capability, rule, reason, before, after };
    });
    log.debug("node written", { node, changes: fields });
    const holds = changes.filter(({ id, action }) => action !== "record" && holdsPods(id));
    for (const change of holds) {
      const { id, action, capability, rule, reason } = change;
      const isRemoved = action === "remove";
      log.info(`${parseMarkId(id)?.kind} ${isRemoved ? "removed" : "set"}`, {
        node,
        [this.#options.nouns?.get(capability) ?? "rule"]: rule,
        ...toMark(change),
        action,
        reason,
        ...(!isRemoved && { waitsFor: waitsFor(change, contributions) }),
      });
    }
    const labels = changes.filter(
      ({ id, action }) => id.startsWith("label/") && action !== "record" && action !== "adopt",
    );
    if (holds.length === 0 || labels.length > 0) this.#add(node, labels);
  }

  #add(node: string, labels: readonly Change[]): void {
    this.#burst ??= { nodes: 0, first: [], set: new Map(), removed: new Map() };
    this.#burst.nodes += 1;
    if (this.#burst.first.length < MOST_NAMED) this.#burst.first.push(node);
    for (const { id, action, rule, reason } of labels) {
      const label = parseMarkId(id)?.key ?? "";
      const changes = action === "remove" ? this.#burst.removed : this.#burst.set;
      const key = `${label} ${rule} ${reason}`;
      changes.set(key, { label, rule, reason, nodes: (changes.get(key)?.nodes ?? 0) + 1 });
    }
    this.#tell ??= this.#options.clock.schedule(TELL_AFTER_MS, () => this.#logBurst());
  }

  #logBurst(): void {
    const burst = this.#burst;
    this.#tell = undefined;
    this.#burst = undefined;
    if (burst === undefined) return;
    const { nodes: count, first, set, removed } = burst;
    this.#options.log.info(count === 1 ? "node written" : "nodes written", {
      ...(count === 1 ? { node: first[0] } : { nodes: count, first }),
      ...(set.size > 0 && { labelsSet: [...set.values()] }),
      ...(removed.size > 0 && { labelsRemoved: [...removed.values()] }),
    });
  }
}

/** The writes since the last such line. */
interface Burst {
  nodes: number;
  readonly first: string[];
  /** By label, rule and reason. */
  readonly set: Map<string, LabelChange>;
  readonly removed: Map<string, LabelChange>;
}

interface LabelChange {
  readonly label: string;
  readonly rule: string;
  readonly reason: string;
  readonly nodes: number;
}

function toMark({ id, before, after }: Change): object {
  const place = parseMarkId(id);
  if (place?.kind !== "taint") return { unschedulable: true };
  return { taint: taintText({ ...place, value: after ?? before ?? "" }) };
}

function waitsFor({ capability, rule }: Change, contributions: readonly Contribution[]): readonly string[] {
  const { findings = [] } = contributions.find((it) => it.capability === capability)?.decision ?? {};
  return findings.filter(({ subject }) => subject === rule).map(({ message }) => message);
}

/** Writes within this time share one line of the log. Milliseconds. */
const TELL_AFTER_MS = 1000;
/** Such a line names at most this many nodes. */
const MOST_NAMED = 5;
