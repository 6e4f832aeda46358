/** What a one-shot run gives the capabilities: a command that looks at a cluster once and does not watch. */
import type { KubeClient } from "@berth/kube";
import type { Clock } from "@berth/runtime";
import type { LeftOut } from "./left-out.ts";
import type { Output } from "./output.ts";
import type { Style } from "./style.ts";

/** One command on one cluster. */
export interface OneShotRun {
  readonly client: KubeClient;
  readonly clock: Clock;
  /** Aborts when the user wants the command to end. */
  readonly signal: AbortSignal;
  /** For remarks: what a command prints for scripts goes elsewhere. */
  readonly stderr: Output;
  /** Told when the command ends. */
  readonly leftOut: LeftOut;
  /** Whose marks are ours. */
  readonly installation: string;
  /** Where the program keeps its own state; `undefined` where the cluster does not have the namespace. */
  ownNamespace(): Promise<string | undefined>;
}

/** What a capability says of its own: data for scripts, and the same in blocks of text for people. */
export interface Section {
  /** Becomes a part of the data that the command prints. */
  readonly data: Readonly<Record<string, unknown>>;
  /** Each ends with a line feed. An empty line is put between two. */
  readonly blocks: (style: Style) => readonly string[];
}
