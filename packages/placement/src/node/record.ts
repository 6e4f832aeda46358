import { documentName } from "@berth/host";
import type { Node } from "@berth/kube";
import { MARKS_ANNOTATION } from "../api/keys.ts";
import { isMarkId, type MarkId, ownValue } from "./mark.ts";
import { isRecord } from "./untrusted-json.ts";

/** One mark that Berth has set, as recorded on the node. */
export interface RecordedMark {
  readonly capability: string;
  readonly rule: string;
  /** The time of the first record entry, RFC 3339 in whole seconds. */
  readonly since: string;
  /** The installation it belongs to. */
  readonly by: string;
}

/** The content of the annotation `berth.dev/marks`. */
export interface MarkRecord {
  /** The default installation of the marks. A mark of another installation has its own `by`. */
  readonly by: string;
  readonly marks: ReadonlyMap<MarkId, RecordedMark>;
}

/** The state of the record on a node. */
export type ReadRecord =
  | { readonly state: "absent" }
  | { readonly state: "read"; readonly record: MarkRecord }
  /** The record exists but does not parse. Berth must not change it, and removes nothing from the node. */
  | { readonly state: "unreadable"; readonly problem: string };

const VERSION = 1;

/**
 * The longest record that Berth reads or writes, in bytes. All annotations of an object share 256 KiB (apimachinery
 * `TotalAnnotationSizeLimitB`). A quarter of it holds about 600 marks and leaves space for other writers.
 */
export const MAX_RECORD_BYTES: number = 64 * 1024;

export function recordOf(node: Node): ReadRecord {
  const text = ownValue(node.metadata?.annotations, MARKS_ANNOTATION);
  return text === undefined ? { state: "absent" } : parseRecord(text);
}

/** Never throws. Ignores unknown fields. A record with a newer `v` is unreadable. */
export function parseRecord(text: string): ReadRecord {
  if (text.length > MAX_RECORD_BYTES) return unreadable(`it is longer than ${MAX_RECORD_BYTES} bytes`);
  let value: unknown;
  try {
    value = JSON.parse(text);
  } catch {
    return unreadable("it is not JSON");
  }
  if (!isRecord(value)) return unreadable("it is not a JSON object");
  const version = value["v"];
  if (version !== VERSION) {
    const newer = typeof version === "number" && version > VERSION;
    return unreadable(newer ? `its version ${version} is newer than ${VERSION}` : "it has no known version");
  }
  const by = value["by"];
  if (typeof by !== "string" || by === "") return unreadable("it names no installation");
  if (!isRecord(value["marks"])) return unreadable("it holds no marks");
  const marks = new Map<MarkId, RecordedMark>();
  for (const [id, entry] of Object.entries(value["marks"])) {
    const mark = parseEntry(entry, by);
    if (mark === undefined || !isMarkId(id))
      return unreadable(`its entry ${JSON.stringify(id)} is not understood`);
    marks.set(id, mark);
  }
  return { state: "read", record: { by, marks } };
}

function parseEntry(entry: unknown, by: string): RecordedMark | undefined {
  if (!isRecord(entry)) return undefined;
  const { c, r, since, by: own = by } = entry;
  if (typeof c !== "string" || c === "" || typeof r !== "string" || r === "") return undefined;
  if (typeof since !== "string" || typeof own !== "string" || own === "") return undefined;
  return { capability: c, rule: r, since, by: own };
}

/**
 * The canonical text: marks in order of id, fields in a fixed order, no spaces. Equal records give equal texts, so
 * Berth never writes an unchanged record. `undefined` for a record without marks: then the node has no annotation.
 */
export function stringifyRecord(record: MarkRecord): string | undefined {
  if (record.marks.size === 0) return undefined;
  const entries = [...record.marks].sort(([a], [b]) => (a < b ? -1 : 1));
  const lines = entries.map(([id, { capability: c, rule: r, since, by }]) => {
    const entry = by === record.by ? { c, r, since } : { c, r, since, by };
    return `${JSON.stringify(id)}:${JSON.stringify(entry)}`;
  });
  return `{"v":${VERSION},"by":${JSON.stringify(record.by)},"marks":{${lines.join(",")}}}`;
}

const noneOwned: ReadonlyMap<MarkId, RecordedMark> = new Map();

/** The marks that belong to this installation. */
export function ownedMarks(read: ReadRecord, installation: string): ReadonlyMap<MarkId, RecordedMark> {
  if (read.state !== "read") return noneOwned;
  const { marks } = read.record;
  const owned = [...marks].filter(([, mark]) => mark.by === installation);
  if (owned.length === marks.size) return marks;
  return owned.length === 0 ? noneOwned : new Map(owned);
}

/** True when any of the nodes records a mark of this capability for a document of the cluster. */
export function hasClusterMarks(
  nodes: Iterable<Node>,
  { installation, capability }: { readonly installation: string; readonly capability: string },
): boolean {
  return Iterator.from(nodes).some((node) =>
    ownedMarks(recordOf(node), installation)
      .values()
      .some((mark) => mark.capability === capability && documentName(mark.rule, "cluster") !== undefined),
  );
}

/** RFC 3339 in whole seconds, the format of `metadata.creationTimestamp`. */
export function toTimestamp(instant: number): string {
  return `${new Date(instant).toISOString().slice(0, 19)}Z`;
}

function unreadable(problem: string): ReadRecord {
  return { state: "unreadable", problem };
}
