/** What becomes of the pods of an agent whose DaemonSet `Manage` has ask for the label. Pure. */
import type { DaemonSet, Node } from "@berth/kube";
import { expectation } from "../../node/daemonset-placement.ts";
import { type AgentTarget, selectorPatch } from "../agent/selector.ts";
import type { Footprint } from "../footprint.ts";
import { IDLE_VALUE } from "../index.ts";

/** A change of the DaemonSet that `Manage` makes. */
export interface SelectorForecast {
  /** `ate.dev/atelet=true`, or `ate.dev/atelet NotIn [false]`. */
  readonly asks: string;
  /** Why it is not made for now. Absent: it would be. */
  readonly waits?: string;
  /** Nodes on which its pods end at once, by name. */
  readonly ends: readonly string[];
  /** Nodes on which its pods go on, and are rolled out. */
  readonly rolled: number;
}

/** Counts what one plan after the other says of the nodes of one agent. */
export class SelectorCount {
  readonly #target: AgentTarget;
  readonly #daemonSet: DaemonSet;
  readonly #ends: string[] = [];
  #rolled = 0;

  constructor(target: AgentTarget, daemonSet: DaemonSet) {
    this.#target = target;
    this.#daemonSet = daemonSet;
  }

  /** @param label what stands on the node once the plan is carried out. */
  add(node: Node, label: string | undefined): void {
    if (expectation(this.#daemonSet, node, []).state !== "expected") return;
    if (runsWith(this.#target, label)) this.#rolled += 1;
    else this.#ends.push(node.metadata?.name ?? "");
  }

  forecast(waits: string | undefined): SelectorForecast {
    const { label, placement } = this.#target;
    return {
      asks: placement === "Lazy" ? `${label.key}=${label.value}` : `${label.key} NotIn [${IDLE_VALUE}]`,
      ...(waits !== undefined && { waits }),
      ends: this.#ends.toSorted(),
      rolled: this.#rolled,
    };
  }
}

/** `undefined`: its node selector is left as it is. */
export function selectorCount(footprint: Footprint, daemonSet: DaemonSet | null): SelectorCount | undefined {
  if (footprint.agent?.nodeSelector !== "Manage" || daemonSet === null) return undefined;
  if (daemonSet.metadata?.deletionTimestamp !== undefined) return undefined;
  return selectorPatch(daemonSet, footprint) && new SelectorCount(footprint, daemonSet);
}

/** Would the agent run on a node with this value of the label, if it asks for the label as it should? */
export function runsWith({ label, placement }: AgentTarget, value: string | undefined): boolean {
  return placement === "Lazy" ? value === label.value : value !== IDLE_VALUE;
}
