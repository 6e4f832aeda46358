/** How a capability that decides about Nodes is wired. */
import type { Capability, FieldMask, Host } from "@berth/host";
import type { Node } from "@berth/kube";
import type { Informer, Predicate } from "@berth/runtime";
import type { RemovalBreakers } from "./breaker.ts";
import type { BoundCapability } from "./capability.ts";
import type { DaemonSetWatch } from "./daemonset-watch.ts";
import type { NodeObserver } from "./observer.ts";
import type { OnceCapability } from "./once-capability.ts";

/** The host, with what all of these capabilities look at. */
export interface NodeHost extends Host {
  readonly nodes: Informer<Node>;
  readonly daemonSets: DaemonSetWatch;
  /** Berth's own, whose pods are never held. Absent: there is none. */
  readonly namespace?: string;
  /** Of the capabilities that were wired before. */
  readonly facts: () => readonly WiredFacts[];
  /** Look at this node. */
  readonly recheck: (node: string) => void;
  readonly recheckAll: () => void;
}

/** Marks that others wait for. */
export interface WiredFacts {
  readonly capability: BoundCapability;
  /** Every source of its rules that there is has been read. */
  readonly known: () => boolean;
}

/** What a capability adds to the node writer. */
export interface Wired {
  /** What it decides about nodes. Absent: nothing. */
  readonly capability?: BoundCapability;
  /** Gets what the node writer decides. */
  readonly observer?: NodeObserver;
  readonly facts?: WiredFacts;
  /** Of its removals. */
  readonly breakers?: RemovalBreakers;
}

/** `F` is what it is given by flags, and `O` what commands give it that look once. */
export interface NodeCapability<F = unknown, O = unknown> extends Capability<NodeHost & F, Wired> {
  /** What it reads of a Node. Default nothing. */
  readonly fields?: FieldMask;
  /** Indexes of Nodes that it looks up. */
  readonly indexes?: Readonly<Record<string, (node: Node) => readonly string[]>>;
  /** Changes of a Node after which it decides anew, beside those of marks. */
  readonly changed?: Predicate<Node>;
  /** What `plan`, `explain`, `validate` and `clean` do with it. */
  readonly once: (given: O) => OnceCapability;
}
