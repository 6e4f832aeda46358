/**
 * Counts requests in the API server's audit log, exactly.
 *
 * The log is written in blocking mode: the line of a request is in the file before the last byte of its answer leaves
 * the server. So once the answer to a request of our own (the sentinel) is here, the lines of all requests that were
 * answered before it was sent are in the file, in front of the sentinel's. Watches have their line when the server
 * accepts them, all other requests when they are complete.
 */
import { randomUUID } from "node:crypto";
import { open } from "node:fs/promises";
import { eventually } from "./eventually.ts";

/** One request, as the server recorded it. */
export interface AuditEntry {
  readonly user: string;
  /** `get`, `list`, `watch`, `create`, `update`, `patch`, `delete`, `deletecollection`. */
  readonly verb: string;
  /** `nodes`, `deployments.apps`; `""` for a path that is no resource. */
  readonly resource: string;
  /** `""` for the object itself. */
  readonly subresource: string;
  readonly namespace: string;
  readonly name: string;
  readonly userAgent: string;
  /** HTTP status of the answer. */
  readonly code: number;
  /** Path and query. */
  readonly requestUri: string;
  /** When the server received it, RFC 3339 with microseconds. */
  readonly receivedAt: string;
}

/** What a request must be to count; absent fields match everything. `userAgent` matches its beginning. */
export type AuditFilter = Partial<Omit<AuditEntry, "requestUri" | "receivedAt">>;

/** A moment: everything that the server received before it lies before it, also what it has not answered yet. */
export interface AuditMark {
  /** Behind what was answered then. */
  readonly offset: number;
  /** As `AuditEntry.receivedAt`. */
  readonly receivedAt: string;
}

/** How many requests one user made of one kind. */
export interface AuditTally {
  readonly user: string;
  readonly verb: string;
  /** With its subresource: `pods/eviction`. */
  readonly resource: string;
  readonly count: number;
}

/** What clients asked of the server, exactly. */
export interface AuditLog {
  /** Now. */
  mark(): Promise<AuditMark>;
  /** The matching requests received since `mark` and answered by now, in the order in which the server finished them. */
  entriesSince(mark: AuditMark, filter?: AuditFilter): Promise<readonly AuditEntry[]>;
  /**
   * The same, again and again: each call gives what has been answered since the call before, and every request received
   * since `mark` is given exactly once.
   */
  follow(mark: AuditMark, filter?: AuditFilter): () => Promise<readonly AuditEntry[]>;
  /** How many matching requests there were between `mark` and now. */
  countSince(mark: AuditMark, filter?: AuditFilter): Promise<number>;
  /** The matching requests by user, verb and resource, the most frequent first. */
  tallySince(mark: AuditMark, filter?: AuditFilter): Promise<readonly AuditTally[]>;
}

export interface AuditLogOptions {
  readonly file: string;
  /** Sends a GET for this path and query to the audited server and waits for the answer. */
  readonly get: (pathAndQuery: string) => Promise<unknown>;
}

/** A path that every server answers and no client of ours asks for with a query. */
const SENTINEL = "/version?berth-audit-mark=";
const CHUNK_BYTES = 1 << 20;

export function openAuditLog({ file, get }: AuditLogOptions): AuditLog {
  // Where the search for the next sentinel starts: the log only grows.
  let seen = 0;
  const sweep = async (from: number, keep: (entry: AuditEntry) => boolean): Promise<Swept> => {
    const sentinel = `${SENTINEL}${randomUUID()}`;
    await get(sentinel);
    // The line is there already; more tries cover a file system that shows it late.
    const swept = await eventually(() => readUntil(file, from, sentinel, keep));
    seen = Math.max(seen, swept.end);
    return swept;
  };
  const entriesSince: AuditLog["entriesSince"] = async (mark, filter = {}) =>
    (await sweep(mark.offset, (entry) => isSince(mark, entry, filter))).kept;
  return {
    mark: async () => {
      const { end, receivedAt } = await sweep(seen, () => false);
      return { offset: end, receivedAt };
    },
    entriesSince,
    follow: (mark, filter = {}) => {
      let { offset } = mark;
      return async () => {
        const { kept, end } = await sweep(offset, (entry) => isSince(mark, entry, filter));
        offset = end;
        return kept;
      };
    },
    countSince: async (mark, filter) => (await entriesSince(mark, filter)).length,
    tallySince: async (mark, filter) => tally(await entriesSince(mark, filter)),
  };
}

/** What a write did can be seen before its line is there: that line may come after the mark, and does not count. */
function isSince(mark: AuditMark, entry: AuditEntry, filter: AuditFilter): boolean {
  return entry.receivedAt >= mark.receivedAt && matches(entry, filter);
}

interface Swept {
  readonly kept: readonly AuditEntry[];
  /** Offset behind the sentinel's line. */
  readonly end: number;
  /** When the server received the sentinel. */
  readonly receivedAt: string;
}

/** @throws Error when the sentinel is not in the file. */
async function readUntil(
  file: string,
  from: number,
  sentinel: string,
  keep: (entry: AuditEntry) => boolean,
): Promise<Swept> {
  await using log = await open(file, "r");
  const kept: AuditEntry[] = [];
  const chunk = Buffer.alloc(CHUNK_BYTES);
  let rest = Buffer.alloc(0);
  let position = from;
  for (;;) {
    const { bytesRead } = await log.read(chunk, 0, CHUNK_BYTES, position + rest.length);
    if (bytesRead === 0) throw new Error(`${file} has no line for ${sentinel}`);
    let bytes = Buffer.concat([rest, chunk.subarray(0, bytesRead)]);
    for (let newline = bytes.indexOf(10); newline >= 0; newline = bytes.indexOf(10)) {
      const entry = parseLine(bytes.toString("utf8", 0, newline));
      bytes = bytes.subarray(newline + 1);
      position += newline + 1;
      if (entry?.requestUri === sentinel) return { kept, end: position, receivedAt: entry.receivedAt };
      if (entry !== undefined && !entry.requestUri.startsWith(SENTINEL) && keep(entry)) kept.push(entry);
    }
    rest = bytes;
  }
}

/** The parts of audit.k8s.io/v1 Event that are read here. */
interface AuditEvent {
  readonly stage: "ResponseStarted" | "ResponseComplete" | "Panic";
  readonly verb: string;
  readonly requestURI: string;
  readonly user: { readonly username?: string };
  readonly userAgent?: string;
  readonly objectRef?: {
    readonly resource?: string;
    readonly apiGroup?: string;
    readonly subresource?: string;
    readonly namespace?: string;
    readonly name?: string;
  };
  readonly responseStatus?: { readonly code?: number };
  readonly requestReceivedTimestamp: string;
}

/** `undefined` for the line of a request that another line stands for. */
function parseLine(line: string): AuditEntry | undefined {
  const event = JSON.parse(line) as AuditEvent;
  // Only long-running requests have a line when they start. A watch counts then, since it may never end.
  if ((event.stage === "ResponseStarted") !== (event.verb === "watch")) return undefined;
  const { resource = "", apiGroup, subresource = "", namespace = "", name = "" } = event.objectRef ?? {};
  return {
    user: event.user.username ?? "",
    verb: event.verb,
    resource: apiGroup ? `${resource}.${apiGroup}` : resource,
    subresource,
    namespace,
    name,
    userAgent: event.userAgent ?? "",
    code: event.responseStatus?.code ?? 0,
    requestUri: event.requestURI,
    receivedAt: event.requestReceivedTimestamp,
  };
}

function matches(entry: AuditEntry, { userAgent, ...equal }: AuditFilter): boolean {
  if (userAgent !== undefined && !entry.userAgent.startsWith(userAgent)) return false;
  return Object.entries(equal).every(
    ([field, value]) => value === undefined || entry[field as keyof typeof equal] === value,
  );
}

function tally(entries: readonly AuditEntry[]): readonly AuditTally[] {
  const tallies = new Map<string, AuditTally>();
  for (const { user, verb, resource, subresource } of entries) {
    const full = subresource === "" ? resource : `${resource}/${subresource}`;
    const key = JSON.stringify([user, verb, full]);
    tallies.set(key, { user, verb, resource: full, count: (tallies.get(key)?.count ?? 0) + 1 });
  }
  return [...tallies.values()].sort((a, b) => b.count - a.count);
}
