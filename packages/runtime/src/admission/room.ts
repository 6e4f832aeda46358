import type { Server, Socket } from "node:net";

/** A bounded amount that peers share: bytes of bodies, or connections. */
export interface Room {
  /**
   * Takes some of it. No peer may hold more than is free afterwards, so `n` greedy peers leave `1/(n+1)` to others.
   * Without a peer there is no such limit.
   *
   * @returns a handle that gives it back once; `undefined` when too little is free.
   */
  take(amount: number, peer: string | undefined): Disposable | undefined;
  /** As `take`, but waits until others give some back; `undefined` once `signal` aborts. */
  wait(amount: number, peer: string | undefined, signal: AbortSignal): Promise<Disposable | undefined>;
}

/** Creates a room of this size. It remembers a peer while the peer holds some of it. */
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

/** Bounds the connections of a server and of each address. Closes connections above the bound. */
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
