/** One life of the controller: a proxy of its own in front of the API server, and an end at one moment. */
import type { KeyPair } from "../certificates.ts";
import type { TestCluster } from "../cluster.ts";
import { type HttpProxy, startHttpProxy } from "../fault/http-proxy.ts";
import type { Interceptor } from "../fault/interceptor.ts";
import type { Scene } from "./story.ts";

export interface IncarnationOptions {
  readonly cluster: TestCluster;
  /** For 127.0.0.1. */
  readonly certificate: KeyPair;
  readonly scene: Pick<Scene, "start">;
  /** 1 for the first in a telling. */
  readonly number: number;
  /** What the harness does to requests and events of this life only. */
  readonly interceptor?: Interceptor;
  readonly onChange: () => void;
}

/**
 * From `kill` on nothing of it reaches the server: its requests are cut, and soon its port is closed. What the dead
 * process still tries is of no effect, whether it ends at once or at leisure.
 */
export class Incarnation {
  readonly #proxy: HttpProxy;
  readonly #options: IncarnationOptions;
  #controller: Promise<AsyncDisposable> | undefined;
  readonly #death = new AbortController();
  #failure: unknown;
  #inFlight = 0;

  private constructor(proxy: HttpProxy, options: IncarnationOptions) {
    this.#proxy = proxy;
    this.#options = options;
  }

  /** Resolves once its port is open and the controller has been told to start. */
  static async begin(options: IncarnationOptions): Promise<Incarnation> {
    const { cluster, certificate } = options;
    const proxy = await startHttpProxy({ target: cluster.url, ca: cluster.ca, certificate });
    const life = new Incarnation(proxy, options);
    life.#interpose();
    const death = life.#death.signal;
    life.#controller = options.scene.start({ server: proxy.url, incarnation: options.number, death });
    life.#controller.catch((error: unknown) => {
      if (!life.dead) life.#failure = error;
      options.onChange();
    });
    return life;
  }

  get dead(): boolean {
    return this.#death.signal.aborted;
  }

  /** Why it could not be started. */
  get failure(): unknown {
    return this.#failure;
  }

  /** Requests, watches apart, that have no answer yet. */
  get inFlight(): number {
    return this.#inFlight;
  }

  /** At once. `bury` does the rest. */
  kill(): void {
    this.#death.abort();
  }

  /** Closes its connections and lets the controller end. Rejects with the first mistake of an interceptor. */
  async bury(): Promise<void> {
    this.kill();
    try {
      await this.#proxy[Symbol.asyncDispose]();
    } finally {
      const controller = await this.#controller?.catch(() => undefined);
      await controller?.[Symbol.asyncDispose]();
    }
  }

  /** The first interceptor is the outermost one. */
  #interpose(): void {
    const { interceptor, onChange } = this.#options;
    this.#proxy.intercept({
      request: async (request, forward) => {
        if (this.dead) return { kind: "cut", scope: "connection" };
        if (request.verb === "watch") return forward();
        this.#inFlight += 1;
        try {
          const reply = await forward();
          return this.dead ? { kind: "cut", scope: "connection" } : reply;
        } finally {
          this.#inFlight -= 1;
          onChange();
        }
      },
      event: async (_event, next) => {
        const reply = this.dead ? undefined : await next();
        return reply === undefined || this.dead ? { kind: "cut", when: "before" } : reply;
      },
    });
    if (interceptor !== undefined) this.#proxy.intercept(interceptor);
  }
}
