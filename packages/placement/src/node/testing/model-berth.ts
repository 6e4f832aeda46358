import { ApiError, isApiError, type Node } from "@berth/kube";
import {
  type Clock,
  type Controller,
  clusterName,
  createController,
  createSilentLogger,
  type ObjectKey,
  sleep,
} from "@berth/runtime";
import { type BoundCapability, nothingWanted, unreadPolicy } from "../capability.ts";
import { DeclaredPlaces, type PlaceStore } from "../declared-places.ts";
import { holdsPods, type MarkId, ownValue } from "../mark.ts";
import type { NodePatch } from "../patch.ts";
import { NodeWriter } from "../writer.ts";
import { failed, type ModelServer, type ModelWrite } from "./model-server.ts";
import { policyOf, wish } from "./stub.ts";

/** A rule of a made-up capability: it wants one mark, on every node or on those with the label. */
export interface ModelRule {
  readonly id: MarkId;
  readonly value: string;
  /** Absent: wanted on every node. */
  readonly needs: string | undefined;
  readonly foreign: "overwrite" | "leave";
}

/** The rules of each capability, by its name. */
export type ModelConfig = Readonly<Record<string, readonly ModelRule[]>>;

/** What one request meets: time to the server, time back, and what goes wrong. */
export interface Weather {
  readonly thereMs: number;
  readonly backMs: number;
  readonly fault?: "request lost" | "answer lost" | "conflict" | "throttled" | "broken";
}

export interface ModelProcessOptions {
  readonly name: string;
  readonly installation: string;
  readonly server: ModelServer;
  readonly clock: Clock;
  readonly weather: () => Weather;
  readonly ours: ReadonlySet<MarkId>;
  /** Places of one capability alone, by its name. */
  readonly exclusive: ReadonlyMap<string, ReadonlySet<MarkId>>;
  /** The configuration as it is now, and when each capability has read its part, ms after the start. */
  readonly config: () => ModelConfig;
  readonly readAfterMs: readonly number[];
}

/** How long a request is waited for, ms. */
const TIMEOUT_MS = 10_000;
/** `AWAIT_MS` and `AWAIT_NEWER_MS` of the writer's memory, which its guarantees are about. */
const TRUST_MS = 30_000;
const NEWER_MS = 500;

const cluster = clusterName("model");

/** A process of Berth: the node writer under a controller, with a view of the server that lags behind. */
export class ModelProcess {
  readonly name: string;
  readonly installation: string;
  /** The capabilities that have read their rules. */
  readonly read: Set<string> = new Set();
  readonly violations: string[] = [];
  /** How far the view is behind, ms. */
  lagMs = 10;
  requests = 0;
  readonly #options: ModelProcessOptions;
  readonly #controller: Controller;
  readonly #stopping = new AbortController();
  #config: ModelConfig;
  #view: Map<string, Node>;
  /** A watch tells in order: nothing before this time. */
  #toldAtMs = 0;
  /** Raised by a new list: what the watch before it would still have told is not told. */
  #watch = 0;
  /** By uid: versions below this were outdated then, and when it was learnt. */
  readonly #outdated = new Map<string, { readonly below: number; readonly untilMs: number }>();

  constructor(options: ModelProcessOptions) {
    const { clock, installation, server } = options;
    this.#options = options;
    this.name = options.name;
    this.installation = installation;
    this.#config = options.config();
    this.#view = new Map(server.nodes);
    const writer = new NodeWriter({
      nodes: { get: (key: ObjectKey) => this.#view.get(key.name) },
      api: {
        patch: async (name, patch, signal, versionOnly) => {
          const node = await this.#patch(name, patch, signal);
          const { resourceVersion = "" } = node.metadata ?? {};
          return versionOnly ? { metadata: { resourceVersion } } : node;
        },
        read: async (name) => server.read(name),
      },
      capabilities: Object.keys(this.#config).map((capability) => this.#capability(capability)),
      installation,
      clock,
      places: new DeclaredPlaces(clock, this.#store()),
    });
    this.#controller = createController({
      name: "nodes",
      reconcile: writer.reconcile,
      queue: { coalesceMs: 20 },
      concurrency: 2,
      clock,
      log: createSilentLogger(),
      random: () => 0.5,
    });
  }

  async start(): Promise<void> {
    await this.#controller.start(this.#stopping.signal);
    for (const [index, name] of Object.keys(this.#config).entries())
      this.#later(this.#options.readAfterMs[index] ?? 0, () => {
        this.read.add(name);
        this.recheck();
      });
    this.recheck();
  }

  /** It acts no more; what it has sent may still arrive. */
  stop(): void {
    this.#stopping.abort();
  }

  get stopped(): boolean {
    return this.#stopping.signal.aborted;
  }

  /** Takes over the configuration of that time after a while. */
  configure(afterMs: number): void {
    this.#later(afterMs, () => {
      this.#config = this.#options.config();
      this.recheck();
    });
  }

  /** Looks at every node again: also what an event does that comes twice. */
  recheck(): void {
    for (const name of this.#options.server.nodes.keys()) this.#enqueue(name);
  }

  /** Lists again: what happened meanwhile is seen at once, and in one step. */
  list(): void {
    this.#watch += 1;
    const names = [...this.#view.keys(), ...this.#options.server.nodes.keys()];
    this.#view = new Map(this.#options.server.nodes);
    for (const name of names) this.#enqueue(name);
  }

  /** The server tells it of a write, in order and late. */
  onWrite({ name, after }: ModelWrite): void {
    const { clock } = this.#options;
    const watch = this.#watch;
    this.#toldAtMs = Math.max(this.#toldAtMs, clock.monotonic() + this.lagMs);
    this.#later(this.#toldAtMs - clock.monotonic(), () => {
      if (watch !== this.#watch) return;
      if (after === undefined) this.#view.delete(name);
      else this.#view.set(name, after);
      this.#enqueue(name);
    });
  }

  #enqueue(name: string): void {
    this.#controller.enqueue({ cluster, namespace: "", name });
  }

  #later(delayMs: number, callback: () => void): void {
    this.#options.clock.schedule(delayMs, () => {
      if (!this.stopped) callback();
    });
  }

  #capability(name: string): BoundCapability {
    const { ours, exclusive } = this.#options;
    const declared = { ids: ours, prefixes: [] };
    return {
      name,
      contribute: ({ node }) => {
        if (!this.read.has(name)) return { capability: name, policy: unreadPolicy, decision: nothingWanted };
        const rules = (this.#config[name] ?? []).filter((rule) => applies(rule, node));
        const marks = rules.map(({ id, value, foreign }) => wish(id, value, { foreign }));
        const places = (this.#config[name] ?? []).map(({ id }) => id).filter(holdsPods);
        const policy = policyOf({
          places: new Set(places),
          declared,
          allowedProtected: declared,
          exclusive: { ids: exclusive.get(name) ?? new Set(), prefixes: [] },
        });
        return { capability: name, policy, decision: { ...nothingWanted, marks } };
      },
      inputs: () => [],
    };
  }

  /** Requests and answers get lost here as well. */
  #store(): PlaceStore {
    const { server, clock, installation, weather } = this.#options;
    const stored = server.places.get(installation) ?? new Set();
    server.places.set(installation, stored);
    const ask = async <T>(answer: () => T): Promise<T> => {
      const { thereMs, backMs, fault } = weather();
      await sleep(clock, thereMs, this.#stopping.signal);
      const isLost = fault !== undefined && fault !== "answer lost";
      if (isLost || this.stopped) throw failed({ kind: "unreachable" });
      const value = answer();
      await sleep(clock, backMs, this.#stopping.signal);
      if (fault !== undefined) throw failed({ kind: "unreachable" });
      return value;
    };
    return {
      load: () => ask(() => [...stored]),
      add: (ids) => ask(() => ids.forEach((id) => stored.add(id))),
    };
  }

  async #patch(name: string, patch: NodePatch, signal: AbortSignal): Promise<Node> {
    const { uid, resourceVersion } = patch.metadata;
    this.#checkGuards(name, patch);
    this.requests += 1;
    try {
      const node = await this.#send(name, patch, signal);
      this.#note(uid, Number(node.metadata?.resourceVersion), TRUST_MS);
      return node;
    } catch (error) {
      // Of a node that is gone there is nothing left to know.
      if (isApiError(error, "notFound")) this.#outdated.delete(uid);
      if (isApiError(error, "conflict")) this.#note(uid, Number(resourceVersion) + 1, NEWER_MS);
      throw error;
    }
  }

  #note(uid: string, below: number, forMs: number): void {
    this.#outdated.set(uid, { below, untilMs: this.#options.clock.monotonic() + forMs });
  }

  /** Every patch is guarded, and not by a version that the process knows to be outdated. */
  #checkGuards(name: string, { metadata: { uid, resourceVersion } }: NodePatch): void {
    if (!uid || !resourceVersion) this.violations.push(`${this.name} sent ${name} a patch without guards`);
    const outdated = this.#outdated.get(uid);
    if (outdated === undefined || this.#options.clock.monotonic() >= outdated.untilMs) return;
    if (Number(resourceVersion) < outdated.below)
      this.violations.push(
        `${this.name} sent ${name} a patch of version ${resourceVersion}, older than ${outdated.below}`,
      );
  }

  #send(name: string, patch: NodePatch, signal: AbortSignal): Promise<Node> {
    const { server, clock } = this.#options;
    const { thereMs, backMs, fault } = this.#options.weather();
    return new Promise((resolve, reject) => {
      const stop = (): void => reject(failed({ kind: "aborted" }));
      if (signal.aborted) return stop();
      signal.addEventListener("abort", stop, { once: true });
      clock.schedule(TIMEOUT_MS, () => reject(failed({ kind: "timeout", afterMs: TIMEOUT_MS })));
      if (fault === "request lost") return;
      clock.schedule(thereMs, () => {
        const answer = settledBy(() => {
          if (fault === "conflict") throw failed({ kind: "conflict", causes: [] });
          if (fault === "throttled")
            throw new ApiError(
              { kind: "tooManyRequests", causes: [] },
              { verb: "patch", resource: "nodes" },
              { retryAfterMs: 2_000 },
            );
          return server.patch(this.name, name, patch);
        });
        if (fault === "answer lost") return;
        clock.schedule(backMs, () => {
          if (fault === "broken") reject(failed({ kind: "unreachable" }));
          else if ("error" in answer) reject(answer.error);
          else resolve(answer.value);
        });
      });
    });
  }
}

/** Does the rule want its mark on this node? */
export function applies({ needs }: ModelRule, node: Node): boolean {
  return needs === undefined || ownValue(node.metadata?.labels, needs) !== undefined;
}

function settledBy<T>(run: () => T): { readonly value: T } | { readonly error: Error } {
  try {
    return { value: run() };
  } catch (error) {
    if (!(error instanceof Error)) throw error;
    return { error };
  }
}
