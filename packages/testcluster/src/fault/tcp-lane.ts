import type { Socket } from "node:net";

/** The two directions of a connection; each can be faulted without the other. */
export type Direction = "clientToServer" | "serverToClient";

/** What a direction does with bytes, and with the end of the stream, which counts as one more thing to carry. */
export type LaneMode =
  | { readonly kind: "pass" }
  | { readonly kind: "drop" }
  | { readonly kind: "stall" }
  | { readonly kind: "delay"; readonly ms: number };

/** Bytes of one direction over all connections since the start. Bytes neither delivered nor dropped are held. */
export interface Traffic {
  readonly received: number;
  readonly delivered: number;
  readonly dropped: number;
}

/** Told of bytes as they arrive, and asked first how many may be looked at as one piece (for scripts). */
export interface ByteObserver {
  allowance(direction: Direction): number;
  onBytes(direction: Direction, count: number): void;
}

/** Bytes a pipe holds under `delay` before it stops reading; bounds the delayed throughput of one connection. */
const MOST_QUEUED_BYTES = 1024 * 1024;

/** One direction of all connections of a proxy: the mode they share, and their counters. */
export class Lane {
  readonly direction: Direction;
  readonly pipes: Set<Pipe> = new Set();
  readonly traffic: { received: number; delivered: number; dropped: number } = {
    received: 0,
    delivered: 0,
    dropped: 0,
  };
  readonly observer: ByteObserver;
  #mode: LaneMode = { kind: "pass" };

  constructor(direction: Direction, observer: ByteObserver) {
    this.direction = direction;
    this.observer = observer;
  }

  get mode(): LaneMode {
    return this.#mode;
  }

  /** Takes effect at once, on what is held as well as on what comes. */
  setMode(mode: LaneMode): void {
    this.#mode = mode;
    for (const pipe of this.pipes) pipe.flow();
  }

  halfClose(): void {
    for (const pipe of this.pipes) pipe.halfClose();
  }

  /** Bytes that no pipe will carry: they came on a connection that was a black hole from its beginning. */
  swallow(bytes: number): void {
    this.traffic.received += bytes;
    this.traffic.dropped += bytes;
    this.observer.onBytes(this.direction, bytes);
  }
}

type Item =
  | { readonly kind: "data"; readonly bytes: Buffer; readonly arrivedAt: number }
  | { readonly kind: "end"; readonly arrivedAt: number }
  | { readonly kind: "reset"; readonly arrivedAt: number };

/**
 * One direction of one connection. Data, FIN and RST stay in order. TCP never delivers past a hole, so once
 * anything was dropped this pipe swallows whatever follows, whichever mode comes later.
 */
export class Pipe {
  readonly #lane: Lane;
  readonly #source: Socket;
  readonly #sink: Socket;
  readonly #queue: Item[] = [];
  #queuedBytes = 0;
  #dead = false;
  #sinkFull = false;
  #timer: NodeJS.Timeout | undefined;

  constructor(lane: Lane, source: Socket, sink: Socket) {
    this.#lane = lane;
    this.#source = source;
    this.#sink = sink;
    lane.pipes.add(this);
    source.on("data", (bytes: Buffer) => this.#receive(bytes));
    source.once("end", () => this.#enqueue({ kind: "end", arrivedAt: performance.now() }));
    source.once("error", () => this.#enqueue({ kind: "reset", arrivedAt: performance.now() }));
    sink.on("drain", () => this.#sinkReady());
    sink.once("close", () => this.#sinkReady());
    this.flow();
  }

  /** The receiver sees FIN now; what is held, and what the sender still sends, is lost. */
  halfClose(): void {
    this.#dead = true;
    this.#swallowQueue();
    this.#sink.end();
    this.flow();
  }

  /** The connection is over: forgets what is held. */
  close(): void {
    clearTimeout(this.#timer);
    this.#lane.pipes.delete(this);
    this.#swallowQueue();
  }

  /** Carries what the mode allows now, and decides whether to go on reading. */
  flow(): void {
    const mode = this.#lane.mode;
    clearTimeout(this.#timer);
    if (mode.kind === "drop" && this.#queue.length > 0) this.#dead = true;
    if (this.#dead) this.#swallowQueue();
    else if (mode.kind !== "stall") this.#deliverDue(mode.kind === "delay" ? mode.ms : 0);
    const paused =
      !this.#dead &&
      mode.kind !== "drop" &&
      (mode.kind === "stall" || this.#sinkFull || this.#queuedBytes >= MOST_QUEUED_BYTES);
    if (paused) this.#source.pause();
    else this.#source.resume();
  }

  /** Splits at the byte where a script acts, so that "after 100 bytes" means exactly that. */
  #receive(bytes: Buffer): void {
    const { direction, observer, traffic } = this.#lane;
    for (let rest = bytes; rest.length > 0; ) {
      const part = rest.subarray(0, Math.max(1, Math.min(rest.length, observer.allowance(direction))));
      rest = rest.subarray(part.length);
      traffic.received += part.length;
      this.#enqueue({ kind: "data", bytes: part, arrivedAt: performance.now() });
      observer.onBytes(direction, part.length);
    }
  }

  #enqueue(item: Item): void {
    this.#queue.push(item);
    if (item.kind === "data") this.#queuedBytes += item.bytes.length;
    this.flow();
  }

  #deliverDue(delayMs: number): void {
    for (let item = this.#queue[0]; item !== undefined && !this.#sinkFull; item = this.#queue[0]) {
      const waitMs = delayMs === 0 ? 0 : item.arrivedAt + delayMs - performance.now();
      if (waitMs > 0) {
        this.#timer = setTimeout(() => this.flow(), Math.ceil(waitMs));
        return;
      }
      this.#queue.shift();
      this.#deliver(item);
    }
  }

  #deliver(item: Item): void {
    if (item.kind === "end") this.#sink.end();
    else if (item.kind === "reset") this.#sink.resetAndDestroy();
    else {
      this.#queuedBytes -= item.bytes.length;
      if (this.#sink.destroyed || this.#sink.writableEnded) {
        this.#lane.traffic.dropped += item.bytes.length;
        return;
      }
      this.#lane.traffic.delivered += item.bytes.length;
      this.#sinkFull = !this.#sink.write(item.bytes);
    }
  }

  #swallowQueue(): void {
    this.#lane.traffic.dropped += this.#queuedBytes;
    this.#queuedBytes = 0;
    this.#queue.length = 0;
  }

  #sinkReady(): void {
    this.#sinkFull = false;
    this.flow();
  }
}
