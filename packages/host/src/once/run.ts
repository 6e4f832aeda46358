/** The input of capabilities in a one-shot run: a command that reads a cluster once and does not watch it. */
import type { KubeClient } from "@berth/kube";
import {
  type Clock,
  type ClusterName,
  type Component,
  clusterName,
  createSilentLogger,
  type Logger,
  type SharedInformers,
} from "@berth/runtime";
import {
  createListedInformers,
  type ListedInformers,
  type ListedInformersOptions,
  listFrom,
} from "../views/listed-informers.ts";
import { createViews, type Reads } from "../views/reads.ts";
import type { Views } from "../views/view.ts";
import { type LeftOut, pluralOf } from "./left-out.ts";
import type { Output } from "./output.ts";
import { type Ask, askCluster } from "./snapshot.ts";
import type { Style } from "./style.ts";

/** One command on one cluster. */
export interface OneShotRun {
  readonly client: KubeClient;
  readonly cluster: ClusterName;
  /** Fill the caches of a running process with one list for each resource. */
  readonly informers: ListedInformers;
  /** For what no informer holds. */
  readonly ask: Ask;
  readonly log: Logger;
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

/** How a command reads a cluster: by lists in place of watches. */
export function clusterReads(
  client: Pick<KubeClient, "pages">,
  at: Pick<OneShotRun, "clock" | "leftOut">,
): Pick<OneShotRun, "cluster" | "informers" | "ask" | "log"> {
  const informers = createListedInformers({ fill: listFrom(client), ...refusalsTo(at) });
  return { cluster: LOCAL, informers, ask: askCluster, log: createSilentLogger() };
}

/** Notes what the server refuses, for the end of the command. */
export function refusalsTo({
  clock,
  leftOut,
}: Pick<OneShotRun, "clock" | "leftOut">): Omit<ListedInformersOptions, "fill"> {
  const onRefused: ListedInformersOptions["onRefused"] = ({ resource, consequence }, error) =>
    leftOut.note(pluralOf(resource), error, consequence);
  return { cluster: LOCAL, clock, onRefused };
}

/** The only cluster of a command. */
const LOCAL = clusterName("local");

/** Starts components that read from memory. The command stops them at its end. */
export async function startOnce(
  components: readonly Component[],
  { signal }: Pick<OneShotRun, "signal">,
  owned: AsyncDisposableStack,
): Promise<void> {
  const stop = new AbortController();
  const both = AbortSignal.any([signal, stop.signal]);
  const running = await Promise.all(components.map((component) => component.start(both)));
  owned.defer(async () => {
    stop.abort();
    await Promise.all(running.map(({ ended }) => ended));
  });
}

export interface ReadOnceAt {
  readonly run: OneShotRun;
  /** The command disposes this at its end. */
  readonly owned: AsyncDisposableStack;
  readonly informers?: SharedInformers;
}

/**
 * The views of a process, each filled by a list. Views that are made at the same time share these.
 *
 * @param inForce decides about the scopes. @param at `informers`: other ones than those of the run.
 */
export async function readViews<M, C>(
  reads: Reads<M, C>,
  inForce: C,
  { run, owned, informers = run.informers }: ReadOnceAt,
): Promise<Views<M, C>> {
  const views = createViews(reads, { ...run, informers });
  views.want(inForce, "first");
  await startOnce(views.components, run, owned);
  await run.informers.settled();
  views.want(inForce);
  await run.informers.settled();
  return views;
}
