import type { Server, Socket } from "node:net";

/** Room that peers share: bytes of bodies, connections. */
export interface Room {
  /**
   * Takes some of it. No peer may hold more than is left free afterwards, so `n` greedy peers leave `1/(n+1)` of it to
   * others. Without a peer only what is free counts.
   *
   * @returns what gives it back, once; `undefined` when there is none.
   */
  take(amount: number, peer: string | undefined): Disposable | undefined;
  /** The same, waiting for others to give back; `undefined` once `signal` aborts. */
  wait(amount: number, peer: string | undefined, signal: AbortSignal): Promise<Disposable | undefined>;
}

/** Creates a room of this size. It remembers a peer for as long as it holds something. */
export function createRoom(size: number): Room {
  const held = new Map<string, number>();
  let free = size;
  let freed = Promise.withResolvers<void>();
  const give = (amount: number, peer: string | undefined): void => {
    free += amount;
    if (peer !== undefined) {
      const left = (held.get(peer) ?? 0) - amount;
      if (left > 0) held.set(peer, left);
      else held.delete(peer);
    }
    freed.resolve();
    freed = Promise.withResolvers();
  };
  const take: Room["take"] = (amount, peer) => {
    const share = peer === undefined ? 0 : (held.get(peer) ?? 0) + amount;
    if (free - amount < share) return undefined;
    free -= amount;
    if (peer !== undefined) held.set(peer, share);
    let isHeld = true;
    return {
      [Symbol.dispose]() {
        if (isHeld) give(amount, peer);
        isHeld = false;
      },
    };
  };
  return {
    take,
    async wait(amount, peer, signal) {
      const aborted = new Promise<void>((resolve) => signal.addEventListener("abort", () => resolve()));
      while (!signal.aborted) {
        const place = take(amount, peer);
        if (place !== undefined) return place;
        await Promise.race([freed.promise, aborted]);
      }
      return undefined;
    },
  };
}

/** Bounds the connections of a server, and of each address: what is beyond is closed. */
export function shareConnections(
  server: Server,
  size: number,
  onPlace: (socket: Socket, place: Disposable) => void = () => undefined,
): void {
  const room = createRoom(size);
  server.on("connection", (socket: Socket) => {
    const place = room.take(1, socket.remoteAddress ?? "");
    if (place === undefined) {
      socket.destroy();
      return;
    }
    socket.once("close", () => place[Symbol.dispose]());
    onPlace(socket, place);
  });
}
