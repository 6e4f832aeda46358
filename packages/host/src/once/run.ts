/** The input of capabilities in a one-shot run: a command that reads a cluster once and does not watch it. */
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
  /** For remarks. Data for scripts goes to another stream. */
  readonly stderr: Output;
  /** The command reports it at its end. */
  readonly leftOut: LeftOut;
  /** The installation whose marks the command reads or changes. */
  readonly installation: string;
  /** The namespace of the program's own state; `undefined` where the cluster does not have it. */
  ownNamespace(): Promise<string | undefined>;
}

/** The output of one capability: data for scripts, and the same as text for people. */
export interface Section {
  /** Merged into the data that the command prints. */
  readonly data: Readonly<Record<string, unknown>>;
  /** Each block ends with a line feed. The command prints an empty line between two. */
  readonly blocks: (style: Style) => readonly string[];
}
