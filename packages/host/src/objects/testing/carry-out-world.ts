import { ApiError, type ApiFailure, type KubeClient, type KubeObject, namespaces } from "@berth/kube";
import { createSilentLogger, createVirtualClock, type EventInput, type VirtualClock } from "@berth/runtime";
import { CarryOut } from "../carry-out.ts";
import type { Intent } from "../intent.ts";

/** What is sent, as the server answers it: with a version, or a failure. */
export class World {
  readonly clock: VirtualClock = createVirtualClock();
  readonly sent: unknown[] = [];
  readonly events: EventInput[] = [];
  readonly done: string[] = [];
  readonly withheld: string[] = [];
  answer: string | ApiFailure = "2";
  /** What the server names with a failure, ms. */
  retryAfterMs: number | undefined;
  #uid = "u";
  readonly #carryOut = new CarryOut({
    client: this.clientOf("https://own"),
    clock: this.clock,
    events: { record: (event) => this.events.push(event) },
    action: "Test",
    done: (_, { reason }) => this.done.push(reason),
    withheld: (_, { reason }) => this.withheld.push(reason),
  });

  clientOf(server: string): KubeClient {
    const take = (request: object): Promise<KubeObject> => this.#take({ server, ...request });
    return {
      server,
      patch: (_: unknown, of: object, patch: object, options: object) => take({ of, patch, options }),
      apply: (_: unknown, body: object, options: object) => take({ body, options }),
      create: (_: unknown, body: object, options: object) => take({ body, options }),
      delete: (_: unknown, of: object, options: object) => take({ of, options }),
    } as unknown as KubeClient;
  }

  async #take(request: object): Promise<KubeObject> {
    this.sent.push(request);
    if (typeof this.answer === "string")
      return { metadata: { uid: this.#uid, resourceVersion: this.answer } };
    const { retryAfterMs } = this;
    const waits = retryAfterMs === undefined ? {} : { retryAfterMs };
    throw new ApiError(this.answer, { verb: "patch", resource: "namespaces" }, waits);
  }

  /** On what the cache shows. @returns when to look again, ms. */
  async send(version: string, ...intents: readonly Intent[]): Promise<number | undefined> {
    const object = { metadata: { name: "n", uid: this.#uid, resourceVersion: version, finalizers: ["x"] } };
    const subject = { resource: namespaces, object };
    const context = { signal: new AbortController().signal, log: createSilentLogger() };
    return (await this.#carryOut.send("n", subject, intents, context)).recheckAfterMs;
  }

  /** Under the same name. */
  makeAnew(): void {
    this.#uid += "u";
  }

  get told(): readonly string[] {
    return this.events.map(({ type, reason, note }) => `${type} ${reason}: ${note}`);
  }
}
