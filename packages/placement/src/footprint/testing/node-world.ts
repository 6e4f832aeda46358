/** One node for tests, decided by footprints and written as the node writer does. */
import type { Node, Pod } from "@berth/kube";
import type { BoundCapability } from "../../node/capability.ts";
import { ownedMarks, recordOf } from "../../node/record.ts";
import { NEW_YEAR, planWith, settle } from "../../node/testing/labels.ts";
import { makeNode } from "../../node/testing/world.ts";
import { bindFootprints } from "../capability.ts";
import type { NodeFootprintSpec } from "../document.ts";
import type { Footprints } from "../footprint.ts";
import { footprintsOf, type Specs } from "./footprints.ts";
import { makeAteom, type SightInit, sightOf } from "./pods.ts";

export const ATELET: Specs = { atelet: { preset: "agent-substrate/pr-134" } };

export function bound(specs: Specs, observations: SightInit): BoundCapability {
  const footprints = footprintsOf(specs);
  return bindFootprints({ footprints: () => footprints, observations: sightOf(observations) });
}

/** The node once everything is decided and written. */
export function after(
  node: Node,
  pods: readonly Pod[] | undefined,
  specs: Specs = ATELET,
  more: SightInit = {},
): Node {
  return settle(node, [bound(specs, { ...more, pods })]);
}

/** `A B`: label and exactly these claims; empty: none of either. */
export function marked({ metadata }: Node): string {
  const { labels = {}, annotations = {} } = metadata ?? {};
  const claims = Object.entries(annotations).flatMap(([key, value]) =>
    key.startsWith("ate.dev/claim.") ? [`${key.slice("ate.dev/claim.".length)}${value}`] : [],
  );
  const label = labels["ate.dev/atelet"];
  if (label === undefined) return claims.length === 0 ? "" : `no label, ${claims.sort().join(" ")}`;
  return label === "true" ? claims.sort().join(" ") : `${label}, ${claims.sort().join(" ")}`;
}

export function findings(node: Node, specs: Specs, observations: SightInit): readonly string[] {
  const plan = planWith(node, [bound(specs, observations)]);
  return plan.findings.map(({ severity, reason, message }) => `${severity} ${reason}: ${message}`);
}

export function phases(node: Node, specs: Specs, observations: SightInit): readonly unknown[] {
  const { decision } = bound(specs, observations).contribute({ node, owned: owned(node) }, NEW_YEAR);
  return (decision.outcomes ?? []).map(({ phase, place }) => [phase, place !== undefined]);
}

export function owned(node: Node): ReturnType<typeof ownedMarks> {
  return ownedMarks(recordOf(node), "berth");
}

/** One node, and a process that looks at it after each change. */
export class NodeWorld {
  #footprints: Footprints;
  #berth: BoundCapability;
  #ownersUnknown: ReadonlySet<string> = new Set();
  #pods: readonly Pod[] | undefined = [];
  node: Node;

  constructor(spec: NodeFootprintSpec, node: Node = makeNode()) {
    this.#footprints = footprintsOf({ f: spec });
    this.node = node;
    this.#berth = this.#start();
  }

  #start(): BoundCapability {
    const seen = () => sightOf({ pods: this.#pods, ownersUnknown: this.#ownersUnknown });
    const observations = {
      ...seen(),
      pods: (...args: Parameters<ReturnType<typeof seen>["pods"]>) => seen().pods(...args),
      owners: (pod: Pod) => seen().owners(pod),
    };
    return bindFootprints({ footprints: () => this.#footprints, observations });
  }

  /** The document says this from now on. */
  edit(spec: NodeFootprintSpec): void {
    this.#footprints = footprintsOf({ f: spec });
  }

  /**
   * A line of a story, with what came of it in the place of what it says: `A/a B/b! => A` sees a pod `a` of pool A and a pod
   * `b` without its owner, `A/c!other` is one of the namespace `other`; `restart:` before them begins another process, and
   * `unread` has the pods not known. A phase in parentheses is told as well. `hide a c` has the owners of these not known.
   */
  tell(line: string): string {
    const [what = "", said] = line.split(" => ");
    if (said === undefined) {
      this.hide(...what.split(" ").slice(1));
      return line;
    }
    const names = what.replace("restart:", "").split(" ").filter(Boolean);
    const pods = what === "unread" ? undefined : names.map(toPod);
    if (what.startsWith("restart:")) this.#berth = this.#start();
    this.#pods = pods;
    this.node = settle(this.node, [this.#berth]);
    return `${what} => ${this.marks}${said.includes("(") ? ` (${this.phases.join(" ")})` : ""}`;
  }

  /** These are the pods of the node from now on. `A C`: the claims that stand then; `none` without the label. */
  see(...pods: readonly Pod[]): string {
    this.#pods = pods;
    this.node = settle(this.node, [this.#berth]);
    return this.marks;
  }

  /** Another process begins, with these pods. */
  restart(...pods: readonly Pod[]): string {
    this.#berth = this.#start();
    return this.see(...pods);
  }

  /** The owners of these pods, by name, cannot be read. */
  hide(...names: readonly string[]): void {
    this.#ownersUnknown = new Set(names);
  }

  get marks(): string {
    const { labels = {}, annotations = {} } = this.node.metadata ?? {};
    if (labels["ate.dev/atelet"] !== "true") return "none";
    const claims = Object.keys(annotations).flatMap((key) => key.split("ate.dev/claim.")[1] ?? []);
    return claims.sort().join(" ");
  }

  get findings(): readonly string[] {
    return planWith(this.node, [this.#berth]).findings.map(({ reason, message }) => `${reason}: ${message}`);
  }

  get phases(): readonly unknown[] {
    const view = { node: this.node, owned: ownedMarks(recordOf(this.node), "berth") };
    const { outcomes = [] } = this.#berth.contribute(view, NEW_YEAR).decision;
    return outcomes.map(({ phase }) => phase);
  }
}

/** Without any owner, wherever it is. */
export const bare = (pool: string, name: string, namespace = "default"): Pod =>
  makeAteom(pool, name, { owners: [], namespace });

function toPod(text: string): Pod {
  const [, pool = "", name = "", isBare, namespace] = /^(.*)\/(\w*)(!?)(\w*)$/.exec(text) ?? [];
  return isBare ? bare(pool, name, namespace || "default") : makeAteom(pool, name);
}
