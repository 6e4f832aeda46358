/**
 * A proxy writes the head of an answer and its body one after the other. Over HTTP/1.1 the body then waits for the
 * client to acknowledge the head, which takes it 40 ms (Nagle's algorithm meets delayed acknowledgements): longer than
 * everything else in a replay together, of which there are many. The faults themselves have no such hurry.
 */
import { subscribe, unsubscribe } from "node:diagnostics_channel";
import type { Socket } from "node:net";

/** What Node publishes for each connection that a server of this process accepts. */
const ACCEPTED = "net.server.socket";

/** Sends at once what servers on this port of this process write, on connections accepted until disposed. */
export function sendWithoutDelay(port: number): Disposable {
  const onAccepted = (message: unknown): void => {
    const { socket } = message as { readonly socket: Socket };
    if (socket.localPort === port) socket.setNoDelay(true);
  };
  subscribe(ACCEPTED, onAccepted);
  return { [Symbol.dispose]: () => void unsubscribe(ACCEPTED, onAccepted) };
}
