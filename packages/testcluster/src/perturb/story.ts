/** What the author of a story writes. How it is replayed is in `replay.ts`. */
import type { KubeObject, Patch, Resource } from "@berth/kube";
import type { TestCluster } from "../cluster.ts";
import type { HistoryEntry } from "./history.ts";

/**
 * A controller and what happens to it. It is told once undisturbed and then once for each perturbation, every time
 * from the beginning, on objects of its own.
 */
export interface PerturbationStory {
  /** Capability and variant: `labels/folder`. */
  readonly name: string;
  /** What the controller watches and writes. All of it is recorded; objects of the run are deleted after it. */
  readonly resources: readonly Resource[];
  /**
   * Those of `resources` whose status the controller writes and does not go by. A version that changes nothing else is
   * not worth an older view that ends with it, nor a watch that stops before it. Default none.
   */
  readonly ownStatusOf?: readonly Resource[];
  /**
   * Requests and events about these are no points, and never go wrong: such as come by the clock, or are made about the sentinel without
   * its name in their path. Default none.
   */
  readonly unperturbed?: readonly Resource[];
  /** Older views are at most so many steps old. Default as old as the story. */
  readonly oldestView?: number;
  /**
   * Those of `resources` by which the controller decides what to write to others, so that no condition of a write can
   * tell that they were out of date. When a server that lagged behind catches up, it does so with these first, one by one. That is
   * no less than real servers promise: the first list of a controller is never older than its request. And a watch of
   * anything else that stood still goes on when the controller has seen these, see `Fence.guides`. Default none.
   */
  readonly guides?: readonly Resource[];
  /** How many clusters it needs beside the one that is disturbed. Default 0. */
  readonly others?: number;
  /** Makes the objects and files that are there when the controller starts. */
  setUp(stage: Stage): Promise<Scene>;
}

/** One telling of the story. Disposing removes what `setUp` made outside the cluster. */
export interface Scene extends AsyncDisposable {
  /**
   * Starts the controller, without waiting for anything the server says: it may be killed before that. It must reach
   * the API server through `connection.server` and in no other way. Disposing ends it; by then its server is
   * unreachable for ever, so nothing that it does on its way out has an effect.
   */
  start(connection: Connection): Promise<AsyncDisposable>;
  readonly fence: Fence;
  /** In order. A step is over when the state is that of the undisturbed telling at this point. */
  readonly steps: readonly Step[];
  /**
   * What must be the same in every telling, as JSON, without uids, versions, times and the names of this run; read
   * from `stage.latest`. Called after every change of an object, so it should be cheap.
   */
  state(): unknown;
  /** One sentence for each thing that must never happen and did. Runs once, after the telling. */
  forbidden(history: readonly HistoryEntry[]): readonly string[];
}

/** Where the controller finds the API server. */
export interface Connection {
  readonly server: string;
  /** 1 for the first start in this telling. */
  readonly incarnation: number;
  /** Aborts at the moment of death: whatever else the controller reaches must be out of its reach from then on. */
  readonly death: AbortSignal;
}

/** A change by a user of the cluster. */
export interface Step {
  /** Unique in the story, short: it is part of the names of perturbations. */
  readonly name: string;
  /**
   * The outcome rightly depends on the running controller having seen the step before: this one begins only when it
   * has. Default false: while the controller is blind this step may overtake the reaction to the one before.
   */
  readonly needsSettled?: boolean;
  /** Does it; resolves when the server has taken it. */
  run(): Promise<void>;
  /**
   * In the first telling, which finds out what state a step ends in, it does not end before this. For what the answer
   * of the sentinel does not tell: what only time brings about, or a change of a file. Default: at once.
   */
  over?(): boolean;
}

/**
 * A sentinel object that nothing else in the story touches. The controller's answer to a change of it shows that
 * what happened before was seen.
 */
export interface Fence {
  readonly resource: Resource;
  /** Of other resources, when one object is not enough to show that all watches have come so far. */
  readonly companions?: readonly Resource[];
  /** As given to `stage.create`. Each object of these resources whose name contains it is one of the sentinel. */
  readonly name: string;
  /** Changes the sentinel so that the controller must answer. */
  change(): Promise<void>;
  /** Whether the last change was answered, from `stage.latest`. */
  answered(): boolean;
  /**
   * The same for the `guides` of the story alone: a change that is seen and answered while all other watches stand
   * still. Needed where a step changes guides, for a watch that stood still and lists anew would otherwise be in a race
   * with theirs, which may be slower.
   */
  readonly guides?: Pick<Fence, "change" | "answered">;
}

/** The hands of the story in the cluster. What it changes is known to be its doing when the history is judged. */
export interface Stage {
  readonly cluster: TestCluster;
  /** Other clusters, for a controller of several: they are neither recorded nor disturbed. As given to `perturb`. */
  readonly others: readonly TestCluster[];
  /** The name of an object in the cluster: unlike that of any other run. One that contains it belongs to the run as well. */
  nameOf(local: string): string;
  /** The object as last recorded; `undefined` when there is none. No request. @param namespace default: any. */
  latest<T extends KubeObject>(resource: Resource<T>, local: string, namespace?: string): T | undefined;
  /** `state` or an answer of the fence may have changed, though no recorded object has. */
  changed(): void;
  /** `metadata.name` is a local name. */
  create<T extends KubeObject>(resource: Resource<T>, object: T): Promise<T>;
  /** Patches the object of this local name. */
  patch<T extends KubeObject>(
    resource: Resource<T>,
    local: string,
    patch: Patch,
    options?: { readonly subresource?: string },
  ): Promise<T>;
  /** Deletes the object of this local name. */
  remove(resource: Resource, local: string): Promise<void>;
}
