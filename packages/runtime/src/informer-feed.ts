import type { ApiError, KubeObject } from "@berth/kube";
import type { ReflectorSink } from "./reflector.ts";

/** Fills the cache of an informer. */
export interface Feed {
  /** Resolves when `signal` aborts. Called once. */
  run(signal: AbortSignal): Promise<void>;
  /** See `Reflector.lastByteAt`. */
  readonly lastByteAt: number | undefined;
}

/** The side of an informer that its feed calls. */
export interface InformerSink<T extends KubeObject> extends ReflectorSink<T> {
  /** Reduces a decoded object to what the informer keeps. */
  project(item: T): T;
  /** The object is outside the scope now. The informer tells its last state there as deleted. */
  leave(object: KubeObject): void;
  /** @param isKnown another informer has logged and counted this failure. */
  connection(problem: ApiError | undefined, isKnown?: boolean): void;
}
