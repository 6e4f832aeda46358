/** What scenes act on. */
import type { KubeClient, Pod } from "@berth/kube";
import { eventually } from "@berth/testcluster";
import type { RealNode } from "./node.ts";

export interface Stage {
  readonly client: KubeClient;
  readonly kubectl: (args: readonly string[], input?: string) => Promise<string>;
  readonly helm: (args: readonly string[]) => Promise<string>;
  readonly berth: (args: readonly string[]) => Promise<string>;
  /** Applies a file in `documents/`. */
  readonly apply: (file: string) => Promise<string>;
  /** `kubectl wait`, for at most 90 s: `wait("pod/web -n shop", "condition=Ready")`. */
  readonly wait: (what: string, condition: string) => Promise<string>;
  /** By name. */
  readonly nodes: ReadonlyMap<string, RealNode>;
  /** Boots a further node, with `key=value` as labels of its kubelet, and waits until it is Ready. */
  readonly addNode: (labels?: string) => Promise<RealNode>;
  readonly auditLog: string;
  readonly say: (line: string) => void;
  readonly signal: AbortSignal;
}

export interface Scene<On = Stage> {
  readonly title: string;
  /** Acts, waits for the effect, and says what was seen. @throws Error when the effect does not come. */
  readonly play: (on: On) => Promise<string>;
}

/** Repeats `check` until it does not throw. */
export const until = <T>(
  { signal }: Pick<Stage, "signal">,
  check: () => T | Promise<T>,
  seconds = 90,
): Promise<T> => eventually(check, { timeoutMs: seconds * 1000, everyMs: 200, signal });

export function expect(fact: unknown, otherwise: string): asserts fact {
  if (!fact) throw new Error(otherwise);
}

export const isReady = ({ metadata, status }: Pod): boolean =>
  metadata?.deletionTimestamp === undefined &&
  status?.conditions?.some((it) => it.type === "Ready" && it.status === "True") === true;

export const nodeOf = (pod: Pod | undefined): string => pod?.spec?.nodeName ?? "no node";

/** Seconds since `from`, a value of `performance.now()`. */
export const since = (from: number): string => `${((performance.now() - from) / 1000).toFixed(1)} s`;
