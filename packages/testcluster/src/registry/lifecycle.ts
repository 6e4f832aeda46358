import { findFreePort } from "../ports.ts";
import { type Front, type FrontOptions, openFront } from "./front.ts";
import { type ServerOptions, socketOf, startServer } from "./server.ts";

const PORT_ATTEMPTS = 3;

/** Server and front of one registry, started and stopped together, one call after the other. */
export class RegistryLifecycle implements AsyncDisposable {
  readonly #server: ServerOptions;
  readonly #front: Pick<FrontOptions, "log" | "tls">;
  #port: number | undefined;
  #running: AsyncDisposableStack | undefined;
  #turn: Promise<void> = Promise.resolve();

  /** Without a port it takes a free one at the first start, and keeps to it. */
  constructor(server: ServerOptions, front: Pick<FrontOptions, "log" | "tls">, port: number | undefined) {
    this.#server = server;
    this.#front = front;
    this.#port = port;
  }

  /** `undefined` before the first start. */
  get port(): number | undefined {
    return this.#port;
  }

  start(): Promise<void> {
    return this.#inTurn(async () => {
      if (this.#running !== undefined) return;
      await using undo = new AsyncDisposableStack();
      // The front comes last and goes first: no client sees it without the server behind it.
      undo.use(await startServer(this.#server));
      undo.use(await this.#open());
      this.#running = undo.move();
    });
  }

  stop(): Promise<void> {
    return this.#inTurn(async () => {
      const running = this.#running;
      this.#running = undefined;
      await running?.disposeAsync();
    });
  }

  [Symbol.asyncDispose](): Promise<void> {
    return this.stop();
  }

  async #open(): Promise<Front> {
    for (let attempt = 1; ; attempt++) {
      const port = this.#port ?? (await findFreePort());
      try {
        const front = await openFront({ ...this.#front, port, socket: socketOf(this.#server.folder) });
        this.#port = port;
        return front;
      } catch (error) {
        // Another process took a port between our look and our use of it; only a chosen port can be chosen again.
        if (this.#port !== undefined || attempt === PORT_ATTEMPTS) throw error;
      }
    }
  }

  #inTurn(task: () => Promise<void>): Promise<void> {
    const before = this.#turn;
    const done = (async () => {
      await before;
      await task();
    })();
    this.#turn = done.catch(() => undefined);
    return done;
  }
}
