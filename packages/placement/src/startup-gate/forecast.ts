/** Effects of a plan over many nodes, by startup gate. */
import { type DaemonSet, type Node, pathOf, type Toleration } from "@berth/kube";
import { reasons } from "../api/reasons.ts";
import { expectation } from "../node/daemonset-placement.ts";
import { type MarkId, standingValue, taintId } from "../node/mark.ts";
import type { NodePlan } from "../node/plan.ts";
import { signalGroups } from "./document.ts";
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

/** A DaemonSet that a gate waits for, and where its pod comes. */
export interface AwaitedDaemonSet {
  readonly gate: Gate;
  /** `namespace/name` */
  readonly name: string;
  /** Nodes that the gate selects. */
  readonly selected: number;
  /** Of these, the nodes that the DaemonSet is meant for, so that the gate waits for it there. */
  readonly meant: number;
  /** Of these, the nodes where its pod never comes, as it does not tolerate the gate. */
  readonly blocked: number;
  /** Why it is not meant for the last of the others. */
  readonly why: string;
}

/** Takes one plan after the other, and keeps only names. */
export class GateForecast {
  readonly #counts;
  readonly #gates: readonly Gate[];
  readonly #taints: ReadonlySet<MarkId>;
  /** Each with the gates that keep its pod from at least one node. */
  readonly #daemonSets: readonly { readonly daemonSet: DaemonSet; readonly blockedBy: Set<Gate> }[];
  readonly #awaited;

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
    const byName = new Map(daemonSets.map((it) => [pathOf(it.metadata), it]));
    this.#awaited = gates.flatMap((gate) => {
      const named = signalGroups(gate.spec).flatMap((group) => group.daemonSets);
      return [...new Set(named.map(pathOf))].flatMap((name) => {
        const daemonSet = byName.get(name);
        return daemonSet ? [{ gate, name, daemonSet, selected: 0, meant: 0, blocked: 0, why: "" }] : [];
      });
    });
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

  awaited(): readonly AwaitedDaemonSet[] {
    return this.#awaited;
  }

  #look(gate: Gate, node: Node): void {
    const taint = taintOf(gate);
    const others = (node.spec?.taints ?? []).filter(
      ({ key, effect }) => !this.#taints.has(taintId(key, effect)),
    );
    const held = { ...node, spec: { ...node.spec, taints: [...others, taint] } };
    for (const one of this.#awaited) {
      if (one.gate !== gate) continue;
      const expected = expectation(one.daemonSet, held, [taint]);
      one.selected += 1;
      if (expected.state === "notExpected") one.why = expected.why;
      else one.meant += 1;
      if (expected.state === "blocked") one.blocked += 1;
    }
    for (const { daemonSet, blockedBy } of this.#daemonSets) {
      if (blockedBy.has(gate)) continue;
      if (expectation(daemonSet, held, [taint]).state === "blocked") blockedBy.add(gate);
    }
  }
}
