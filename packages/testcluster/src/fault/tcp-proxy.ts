import { connect, createServer, type Server, type Socket } from "node:net";
import { listenOnLoopback, portOf } from "../ports.ts";
import { type Conditions, createConditions } from "./conditions.ts";
import { type ByteObserver, type Direction, Lane, type LaneMode, Pipe, type Traffic } from "./tcp-lane.ts";
import { type Playback, ScriptPlayer, type StepOf } from "./tcp-script.ts";

/** One step of a script, see `TcpProxy.play`. */
export type ScriptStep = StepOf<TcpProxy>;

/** Where the proxy leads. */
export interface TcpProxyOptions {
  /** Where connections are carried to. A URL also gives `TcpProxy.url` its scheme; else that is `https`. */
  readonly target: { readonly host: string; readonly port: number } | URL;
}

/** Faults of one direction. Modes act at once on open and on new connections and last until the next mode. */
export interface LaneControls {
  /** Carries everything, what is held first. The initial mode. */
  pass(): void;
  /** Swallows bytes, FIN and RST. A connection that lost something stays silent for good, in any later mode. */
  drop(): void;
  /** Holds everything and stops reading, so the sender's buffers fill up; `pass()` delivers all of it. */
  stall(): void;
  /** Carries everything this many milliseconds after it came, in order. */
  delay(ms: number): void;
  /** The receiver of this direction sees FIN now, on every open connection; later bytes are swallowed. */
  halfClose(): void;
}

/** What has passed, and how many connections there are. */
export interface TcpStats {
  /** Accepted since the start, black holes included, refused ones not. */
  readonly opened: number;
  /** Connections whose client side is open now. */
  readonly open: number;
  /** Connections reset on arrival because of `refuse()`. */
  readonly refused: number;
  readonly clientToServer: Traffic;
  readonly serverToClient: Traffic;
}

/** A TCP proxy on 127.0.0.1 with faults on demand. Disposing it cuts every connection and frees the port. */
export interface TcpProxy extends AsyncDisposable {
  readonly port: number;
  /** The target's scheme, 127.0.0.1 and the port: what a client connects to in place of the target. */
  readonly url: string;
  readonly clientToServer: LaneControls;
  readonly serverToClient: LaneControls;
  readonly stats: TcpStats;
  /** Both directions pass and new connections are accepted again. */
  pass(): void;
  /** A black hole both ways; new connections are accepted, never reach the target, and never hear anything. */
  drop(): void;
  /** Holds everything both ways, as `LaneControls.stall`. */
  stall(): void;
  /** Each direction by `ms`, so a round trip by twice that. */
  delay(ms: number): void;
  /** Like a server that has shut down its sending side: every client sees FIN and may still send. */
  halfClose(): void;
  /** RST to both ends of every open connection. New connections are not affected. */
  resetAll(): void;
  /** Resets new connections as they arrive, until `pass()`. Open connections go on. */
  refuse(): void;
  /** Runs the steps one after another. Scripts may overlap. */
  play(steps: readonly ScriptStep[]): Playback;
  /** Resolves when the condition holds. Rejects when the proxy is disposed first. */
  until(condition: (stats: TcpStats) => boolean): Promise<void>;
}

/** @throws (rejects) when no port can be opened. An unreachable target shows as a reset of each connection. */
export async function startTcpProxy(options: TcpProxyOptions): Promise<TcpProxy> {
  const link = new Link(options.target);
  await link.listen();
  return link;
}

class Link implements TcpProxy, ByteObserver {
  readonly clientToServer: LaneControls;
  readonly serverToClient: LaneControls;
  readonly #target: TcpProxyOptions["target"];
  readonly #server: Server;
  readonly #lanes: Readonly<Record<Direction, Lane>>;
  readonly #sockets: Set<Socket> = new Set();
  readonly #players: Set<ScriptPlayer<TcpProxy>> = new Set();
  readonly #conditions: Conditions = createConditions();
  #counts: { opened: number; open: number; refused: number } = { opened: 0, open: 0, refused: 0 };
  #refusing = false;

  constructor(target: TcpProxyOptions["target"]) {
    this.#target = target;
    this.#lanes = {
      clientToServer: new Lane("clientToServer", this),
      serverToClient: new Lane("serverToClient", this),
    };
    this.clientToServer = this.#controls(this.#lanes.clientToServer);
    this.serverToClient = this.#controls(this.#lanes.serverToClient);
    this.#server = createServer({ allowHalfOpen: true, noDelay: true }, (client) => this.#accept(client));
  }

  listen(): Promise<void> {
    return listenOnLoopback(this.#server);
  }

  get port(): number {
    return portOf(this.#server);
  }

  get url(): string {
    const scheme = this.#target instanceof URL ? this.#target.protocol : "https:";
    return `${scheme}//127.0.0.1:${this.port}`;
  }

  get stats(): TcpStats {
    const { clientToServer, serverToClient } = this.#lanes;
    return {
      ...this.#counts,
      clientToServer: { ...clientToServer.traffic },
      serverToClient: { ...serverToClient.traffic },
    };
  }

  pass(): void {
    this.#refusing = false;
    this.#setModes({ kind: "pass" });
  }

  drop(): void {
    this.#setModes({ kind: "drop" });
  }

  stall(): void {
    this.#setModes({ kind: "stall" });
  }

  delay(ms: number): void {
    this.#setModes({ kind: "delay", ms });
  }

  halfClose(): void {
    this.serverToClient.halfClose();
  }

  resetAll(): void {
    for (const socket of this.#sockets) socket.resetAndDestroy();
  }

  refuse(): void {
    this.#refusing = true;
  }

  play(steps: readonly ScriptStep[]): Playback {
    const player = new ScriptPlayer<TcpProxy>(this, steps);
    if (!player.finished) this.#players.add(player);
    return player;
  }

  until(condition: (stats: TcpStats) => boolean): Promise<void> {
    return this.#conditions.until(() => condition(this.stats));
  }

  allowance(direction: Direction): number {
    let least = Number.POSITIVE_INFINITY;
    for (const player of this.#players) least = Math.min(least, player.allowance(direction));
    return least;
  }

  onBytes(direction: Direction, count: number): void {
    this.#tellPlayers((player) => player.onBytes(direction, count));
    this.#conditions.changed();
  }

  async [Symbol.asyncDispose](): Promise<void> {
    for (const player of this.#players) player[Symbol.dispose]();
    this.#conditions.close(new Error("the TCP proxy was closed"));
    await new Promise<void>((resolve) => {
      this.#server.close(() => resolve());
      for (const socket of this.#sockets) socket.destroy();
    });
  }

  #controls(lane: Lane): LaneControls {
    const set = (mode: LaneMode): void => {
      lane.setMode(mode);
      this.#conditions.changed();
    };
    return {
      pass: () => set({ kind: "pass" }),
      drop: () => set({ kind: "drop" }),
      stall: () => set({ kind: "stall" }),
      delay: (ms) => set({ kind: "delay", ms }),
      halfClose: () => lane.halfClose(),
    };
  }

  #setModes(mode: LaneMode): void {
    for (const lane of Object.values(this.#lanes)) lane.setMode(mode);
    this.#conditions.changed();
  }

  #accept(client: Socket): void {
    if (this.#refusing) {
      this.#counts.refused += 1;
      client.on("error", () => {});
      client.resetAndDestroy();
    } else {
      this.#counts.opened += 1;
      this.#counts.open += 1;
      this.#track(client).once("close", () => this.#clientClosed());
      if (this.#lanes.clientToServer.mode.kind === "drop") this.#acceptSilently(client);
      else this.#bridge(client);
      this.#tellPlayers((player) => player.onConnection());
    }
    this.#conditions.changed();
  }

  #clientClosed(): void {
    this.#counts.open -= 1;
    this.#conditions.changed();
  }

  /** As if the SYN had been lost: the target never hears of this connection, in no later mode either. */
  #acceptSilently(client: Socket): void {
    client.on("data", (bytes: Buffer) => this.#lanes.clientToServer.swallow(bytes.length));
  }

  #bridge(client: Socket): void {
    const { host, port } = addressOf(this.#target);
    const upstream = this.#track(connect({ host, port, allowHalfOpen: true, noDelay: true }));
    const pipes = [
      new Pipe(this.#lanes.clientToServer, client, upstream),
      new Pipe(this.#lanes.serverToClient, upstream, client),
    ];
    const closeWhenBothAre = (): void => {
      if (client.closed && upstream.closed) for (const pipe of pipes) pipe.close();
    };
    client.once("close", closeWhenBothAre);
    upstream.once("close", closeWhenBothAre);
  }

  #track(socket: Socket): Socket {
    this.#sockets.add(socket);
    socket.on("error", () => {});
    socket.once("close", () => this.#sockets.delete(socket));
    return socket;
  }

  #tellPlayers(tell: (player: ScriptPlayer<TcpProxy>) => void): void {
    for (const player of this.#players) {
      tell(player);
      if (player.finished) this.#players.delete(player);
    }
  }
}

function addressOf(target: TcpProxyOptions["target"]): { host: string; port: number } {
  if (!(target instanceof URL)) return target;
  return { host: target.hostname, port: Number(target.port || (target.protocol === "http:" ? 80 : 443)) };
}
