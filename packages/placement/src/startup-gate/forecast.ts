/** Effects of a plan over many nodes, by startup gate. */
import type { DaemonSet, Node, Toleration } from "@berth/kube";
import { reasons } from "../api/reasons.ts";
import { expectation } from "../node/daemonset-placement.ts";
import { type MarkId, standingValue, taintId } from "../node/mark.ts";
import type { NodePlan } from "../node/plan.ts";
import type { Gate, Gates } from "./gate.ts";
import { compare } from "./pod-signal.ts";
import { selects } from "./selection.ts";
import { missingTolerations, taintOf } from "./tolerate.ts";

/** One gate: the nodes whose taint the plan puts on or takes off, by name. */
export interface GateChanges {
  readonly gate: string;
  readonly selected: number;
  /** Nodes that have its taint now. */
  readonly held: number;
  readonly hold: readonly string[];
  readonly release: readonly string[];
  /** The gate is in dry run, so Berth will write none of these changes. */
  readonly dryRun: boolean;
  /** Young nodes without the taint, held if they run no pods. A plan of all nodes does not check that. */
  readonly pending: number;
}

/** A DaemonSet that gets no pod on a node while a gate holds it. */
export interface BlockedDaemonSet {
  readonly namespace: string;
  readonly name: string;
  /** Tolerations that its pod template lacks. */
  readonly missing: readonly Toleration[];
}

/** Takes one plan after the other, and keeps only names. */
export class GateForecast {
  readonly #counts;
  readonly #gates: readonly Gate[];
  readonly #taints: ReadonlySet<MarkId>;
  /** Each with the gates that keep its pod from at least one node. */
  readonly #daemonSets: readonly { readonly daemonSet: DaemonSet; readonly blockedBy: Set<Gate> }[];

  /** @param daemonSets all of the cluster; empty when Berth could not read them. */
  constructor({ gates }: Pick<Gates, "gates">, daemonSets: readonly DaemonSet[]) {
    this.#gates = gates;
    this.#taints = new Set(gates.map((gate) => gate.taintId));
    const names = (): string[] => [];
    this.#counts = gates.map((gate) => {
      return { gate, selected: 0, held: 0, hold: names(), release: names(), pending: 0 };
    });
    // Most DaemonSets tolerate everything: check for each node only those that a gate could block.
    this.#daemonSets = daemonSets
      .filter((it) => missingTolerations(it, { gates }).length > 0)
      .map((daemonSet) => ({ daemonSet, blockedBy: new Set() }));
  }

  /** The plan holds the whole node. */
  add({ node, changes, findings }: NodePlan): void {
    const name = node.metadata?.name ?? "";
    for (const count of this.#counts) {
      const { gate } = count;
      if (selects(gate, node)) {
        count.selected += 1;
        this.#look(gate, node);
      }
      if (standingValue(node, gate.taintId) !== undefined) count.held += 1;
      const says = new Set(
        findings.flatMap(({ reason, subject }) => (subject === gate.rule ? [reason] : [])),
      );
      if (says.has(reasons.BackfillPending)) count.pending += 1;
      if (says.has(reasons.WouldHold)) count.hold.push(name);
      if (says.has(reasons.WouldRelease)) count.release.push(name);
      for (const { id, action } of changes) {
        if (id !== gate.taintId) continue;
        if (action === "add") count.hold.push(name);
        if (action === "remove") count.release.push(name);
      }
    }
  }

  gates(): readonly GateChanges[] {
    return this.#counts.map(({ gate, ...counts }) => ({
      gate: gate.rule,
      ...counts,
      dryRun: gate.spec.dryRun,
    }));
  }

  /** DaemonSets that would get a pod on a selected node without the gates, by namespace and name. */
  blocked(): readonly BlockedDaemonSet[] {
    return this.#daemonSets
      .filter(({ blockedBy }) => blockedBy.size > 0)
      .map(({ daemonSet, blockedBy }) => ({
        namespace: daemonSet.metadata?.namespace ?? "",
        name: daemonSet.metadata?.name ?? "",
        missing: missingTolerations(daemonSet, { gates: this.#gates.filter((gate) => blockedBy.has(gate)) }),
      }))
      .sort((a, b) => compare(a.namespace, b.namespace) || compare(a.name, b.name));
  }

  #look(gate: Gate, node: Node): void {
    const taint = taintOf(gate);
    const others = (node.spec?.taints ?? []).filter(
      ({ key, effect }) => !this.#taints.has(taintId(key, effect)),
    );
    const held = { ...node, spec: { ...node.spec, taints: [...others, taint] } };
    for (const { daemonSet, blockedBy } of this.#daemonSets) {
      if (blockedBy.has(gate)) continue;
      if (expectation(daemonSet, held, [taint]).state === "blocked") blockedBy.add(gate);
    }
  }
}
