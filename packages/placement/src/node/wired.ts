/** Interfaces for the wiring of a capability that decides about Nodes. */
import type { Capability, FieldMask, Host } from "@berth/host";
import type { Node } from "@berth/kube";
import type { Informer, Predicate } from "@berth/runtime";
import type { FrozenRule } from "./breaker.ts";
import type { BoundCapability } from "./capability.ts";
import type { NodeObserver } from "./observer.ts";
import type { OnceCapability } from "./once-capability.ts";

/** The host, with the nodes. */
export interface NodeHost extends Host {
  readonly nodes: Informer<Node>;
  /** The namespace of Berth. Berth never holds pods there. Absent: Berth has no namespace. */
  readonly namespace?: string;
  /** The facts of the capabilities wired earlier. */
  readonly facts: () => readonly WiredFacts[];
  /** The rules of all capabilities whose removals are frozen. */
  readonly frozen: () => readonly FrozenRule[];
  /** Queues this node for a new decision. */
  readonly recheck: (node: string) => void;
  readonly recheckAll: () => void;
}

/** Marks that other capabilities wait for. */
export interface WiredFacts {
  readonly capability: BoundCapability;
  /** True after all existing sources of its rules were read. */
  readonly known: () => boolean;
}

/** What a capability adds to the node writer. */
export interface Wired {
  /** Decides about nodes. Absent: the capability sets no marks. */
  readonly capability?: BoundCapability;
  /** Receives the decisions of the node writer. */
  readonly observer?: NodeObserver;
  readonly facts?: WiredFacts;
  /** Called when removals of a rule freeze, and when they go on. */
  readonly onFrozen?: (rule: string, frozen: boolean) => void;
}

/** @typeParam F settings from flags. @typeParam O input from commands that read once. */
export interface NodeCapability<F = unknown, O = unknown> extends Capability<NodeHost & F, Wired> {
  /** The fields of a Node that it reads. Default: none. */
  readonly fields?: FieldMask;
  /** Indexes of Nodes that it needs. */
  readonly indexes?: Readonly<Record<string, (node: Node) => readonly string[]>>;
  /** Changes of a Node, other than those of marks, after which Berth decides again. */
  readonly changed?: Predicate<Node>;
  /** What the log calls one of its documents. Default: `rule`. */
  readonly noun?: string;
  /** `clean --restart-pods` restarts pods that carry a change of it. */
  readonly restartsPods?: true;
  /** The implementation for `plan`, `explain`, `validate` and `clean`. */
  readonly once: (given: O) => OnceCapability;
}
