import { isDeepStrictEqual } from "node:util";
import type { KubeObject } from "@berth/kube";
import type { Informer, InformerOptions } from "../informer.ts";
import { keyOf } from "../key.ts";
import { ChangeHistory } from "./change-history.ts";
import { informThings, type Thing } from "./things.ts";
import type { VersionLog } from "./version-log.ts";

/** What things are, and what they are indexed by. */
export const COLOURS: readonly string[] = ["red", "blue"];

export interface ObserverOptions extends Pick<InformerOptions<Thing>, "clock" | "pageSize" | "random"> {
  /** Makes the informer. Default: one with a watch of its own. */
  readonly inform?: (indexes: NonNullable<InformerOptions<Thing>["indexes"]>) => Informer<Thing>;
  /** What the scope of the informer selects. Default: all. */
  readonly selects?: (thing: KubeObject) => boolean;
}

/** An informer with its subscribers, and all that was wrong with what it showed and told. */
export class Observer {
  readonly informer: Informer<Thing>;
  readonly violations: string[] = [];
  readonly #log: VersionLog;
  readonly #selects: ObserverOptions["selects"];
  readonly #histories: ChangeHistory<Thing>[] = [];
  readonly #stopping = new AbortController();
  #ended: Promise<void> = Promise.resolve();
  /** What the lister showed last. */
  #version = 0;

  constructor(log: VersionLog, { inform, selects, ...options }: ObserverOptions) {
    this.#log = log;
    this.#selects = selects;
    const indexes = { colour: (thing: Thing): string[] => [thing.colour ?? ""] };
    this.informer = inform?.(indexes) ?? informThings({ client: log.connect(), indexes, ...options });
    this.subscribe();
  }

  start(): void {
    this.#ended = this.informer.start(this.#stopping.signal).then((running) => running.ended);
  }

  stop(): Promise<void> {
    this.#stopping.abort();
    return this.#ended;
  }

  subscribe(): void {
    const history = new ChangeHistory<Thing>({ comesBack: this.#selects !== undefined });
    this.#histories.push(history);
    this.informer.subscribe({
      onChange: (change) => {
        history.onChange(change);
        this.look(`when told of change ${history.log.length}`);
        if (history.log.length % 3 === 0) throw new Error("a handler that fails now and then");
      },
    });
  }

  look(when: string): void {
    const { informer } = this;
    if (!informer.synced) return;
    const shown = new Map([...informer.list()].map((thing) => [thing.metadata?.name ?? "", thing]));
    const next = this.#log.states.findIndex(
      (state, version) => version >= this.#version && isDeepStrictEqual(this.#selected(state), shown),
    );
    if (next >= 0) this.#version = next;
    else this.violations.push(`${when}: the lister shows no state since version ${this.#version}`);
    for (const colour of COLOURS) {
      const wanted = new Set([...shown.values()].filter((thing) => thing.colour === colour));
      if (!isDeepStrictEqual(new Set(informer.byIndex("colour", colour)), wanted))
        this.violations.push(`${when}: the index is wrong for ${colour}`);
    }
    for (const thing of shown.values())
      if (informer.get(keyOf(informer.cluster, thing)) !== thing)
        this.violations.push(`${when}: ${thing.metadata?.name} is not found`);
  }

  /** All that was wrong, once the log has come to rest. */
  finish(): string[] {
    this.look("at the end");
    const { informer, violations } = this;
    const truth = this.#selected(this.#log.states.at(-1) ?? new Map());
    const shown = new Map([...informer.list()].map((thing) => [thing.metadata?.name ?? "", thing]));
    if (!isDeepStrictEqual(shown, truth)) violations.push(`the lister stayed at version ${this.#version}`);
    if (informer.problem() !== undefined) violations.push(`it still has a problem: ${informer.problem()}`);
    for (const history of this.#histories) {
      violations.push(...history.violations);
      const told = new Map([...history.objects.values()].map((thing) => [thing.metadata?.name ?? "", thing]));
      if (!isDeepStrictEqual(told, truth)) violations.push("a subscriber was not told everything");
    }
    return violations;
  }

  #selected(state: ReadonlyMap<string, KubeObject>): ReadonlyMap<string, KubeObject> {
    const selects = this.#selects;
    return selects === undefined ? state : new Map(state.entries().filter(([, thing]) => selects(thing)));
  }
}
