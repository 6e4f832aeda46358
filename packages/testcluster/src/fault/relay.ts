/** How the server's answer reaches the client: streamed, and for a watch event by event while an interceptor looks. */
import type { ClientSide } from "./client-side.ts";
import { EventSplitter } from "./event-splitter.ts";
import type { EventReply, Reply } from "./interceptor.ts";

export type Forwarded = Extract<Reply, { readonly kind: "forwarded" }>;

/** A parsed line of a watch. */
export interface WireEvent {
  readonly type: string;
  readonly object: unknown;
}

/** Decides about events, and never rejects. While it is not `wanted`, nothing is parsed. */
export interface EventJudge {
  readonly wanted: boolean;
  judge(event: WireEvent): Promise<EventReply>;
}

/**
 * Streams the answer with back-pressure, each chunk as it comes.
 *
 * @returns how it ended: `done`, or `cut` when the server broke off or the judge said so.
 */
export async function relay(
  client: ClientSide,
  answer: Forwarded,
  judge?: EventJudge,
): Promise<"done" | "cut"> {
  client.begin(answer.status, answer.headers);
  const splitter = new EventSplitter();
  try {
    for await (const chunk of answer.body as AsyncIterable<Buffer>) {
      const outcome = judge ? await relayEvents(client, chunk, splitter, judge) : await client.write(chunk);
      if (outcome === "cut") client.cut("stream");
      if (outcome) return outcome;
    }
  } catch {
    // The server broke off in the middle: so do we.
    client.cut("stream");
    return "cut";
  }
  await client.write(splitter.flush());
  client.end();
  return "done";
}

/** Is it a watch whose events can be read? Where a client takes protobuf alone, its events pass unread. */
export function isJsonWatch(verb: string, { status, headers }: Forwarded): boolean {
  const type = headers["content-type"];
  return (
    verb === "watch" && status === 200 && typeof type === "string" && type.startsWith("application/json")
  );
}

/** @returns how the stream ended here; `undefined` when it goes on. */
async function relayEvents(
  client: ClientSide,
  chunk: Buffer,
  splitter: EventSplitter,
  judge: EventJudge,
): Promise<"done" | "cut" | undefined> {
  for (const { bytes, wholeLine } of splitter.push(chunk, judge.wanted)) {
    const event = wholeLine ? parseEvent(bytes) : undefined;
    const reply: EventReply = event ? await judge.judge(event) : { kind: "pass" };
    const passes = reply.kind === "pass" || (reply.kind === "cut" && reply.when === "after");
    if (passes) await client.write(bytes);
    if (reply.kind === "cut") return "cut";
    if (reply.kind === "send") {
      await client.write(Buffer.from(`${JSON.stringify(reply.event)}\n`));
      if (!reply.end) continue;
      client.end();
      return "done";
    }
  }
  return undefined;
}

/** `undefined` for a line that is no event; it passes as it is. */
function parseEvent(line: Buffer): WireEvent | undefined {
  try {
    const parsed: unknown = JSON.parse(line.toString());
    if (typeof parsed !== "object" || parsed === null || !("type" in parsed)) return undefined;
    return { type: String(parsed.type), object: "object" in parsed ? parsed.object : undefined };
  } catch {
    return undefined;
  }
}

/** `metadata.name` of whatever an event carries, or `""`. */
export function nameOfObject(object: unknown): string {
  if (typeof object !== "object" || object === null || !("metadata" in object)) return "";
  const { metadata } = object;
  if (typeof metadata !== "object" || metadata === null || !("name" in metadata)) return "";
  return typeof metadata.name === "string" ? metadata.name : "";
}
