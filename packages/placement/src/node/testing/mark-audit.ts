import { isDeepStrictEqual } from "node:util";
import type { Node } from "@berth/kube";
import { MARKS_ANNOTATION } from "../../api/keys.ts";
import { annotationId, type MarkId, standingMarks, standingValue } from "../mark.ts";
import { type RecordedMark, recordOf } from "../record.ts";
import type { ModelWrite } from "./model-server.ts";

export interface AuditOptions {
  /** Every place that some rule could want. All others are foreign. */
  readonly ours: ReadonlySet<MarkId>;
  /** The installation of a writer, and the capabilities whose sources it has read. */
  readonly writer: (name: string) => { readonly installation: string; readonly read: ReadonlySet<string> };
  /** Places that may be pruned without a record. */
  readonly exclusive: ReadonlySet<MarkId>;
}

const RECORD: MarkId = annotationId(MARKS_ANNOTATION);

/** Looks at every write to a node, and notes what Berth must never do. */
export class MarkAudit {
  readonly violations: string[] = [];
  readonly #options: AuditOptions;
  /** By uid: the places whose value Berth wrote last. */
  readonly #written = new Map<string, Set<MarkId>>();
  /** The uids of nodes whose record another writer changed. */
  readonly #tampered = new Set<string>();

  constructor(options: AuditOptions) {
    this.#options = options;
  }

  /** What stands on the node because Berth put it there. */
  written(node: Node): ReadonlySet<MarkId> {
    return this.#written.get(uidOf(node)) ?? new Set();
  }

  isTampered(node: Node): boolean {
    return this.#tampered.has(uidOf(node));
  }

  onWrite({ name, writer, before, after }: ModelWrite): void {
    if (before === undefined || after === undefined) return;
    const changed = changesBetween(before, after);
    if (writer !== "") {
      const found = [...this.#violationsOf(writer, before, after, changed)];
      const at = `${writer} wrote ${name} at ${after.metadata?.resourceVersion}`;
      this.violations.push(...found.map((what) => `${at}: ${what}`));
    } else if (changed.has(RECORD)) this.#tampered.add(uidOf(after));
    const written = new Set(this.written(after));
    for (const id of changed.keys()) {
      if (writer === "") written.delete(id);
      else written.add(id);
    }
    this.#written.set(uidOf(after), written);
  }

  *#violationsOf(
    writer: string,
    before: Node,
    after: Node,
    changed: ReadonlyMap<MarkId, string | undefined>,
  ): Generator<string> {
    const { ours, exclusive, writer: detailsOf } = this.#options;
    const { installation, read } = detailsOf(writer);
    const [was, is] = [recordOf(before), recordOf(after)];
    const entries = was.state === "read" ? was.record.marks : new Map<MarkId, RecordedMark>();
    const entriesAfter = is.state === "read" ? is.record.marks : new Map<MarkId, RecordedMark>();
    if (!isDeepStrictEqual(foreignPart(before, ours), foreignPart(after, ours)))
      yield "it changed what is not ours";
    if (was.state === "unreadable" && changed.has(RECORD)) yield "it changed a record that it cannot read";
    for (const [id, value] of changed) {
      if (id === RECORD) continue;
      const entry = entries.get(id);
      // A place that stands empty may be filled though another installation has recorded it; it is ours then.
      const others = entry !== undefined && entry.by !== installation;
      if (others && (value === undefined || standingValue(before, id) !== undefined))
        yield `it changed ${id} of ${entry.by}`;
      if (value !== undefined) {
        if (!entriesAfter.has(id) && is.state !== "unreadable") yield `it set ${id} without a record`;
      } else if (was.state === "unreadable") yield `it removed ${id} though the record cannot be read`;
      else if (!exclusive.has(id)) {
        if (entry === undefined && !this.isTampered(before)) yield `it removed ${id} without a record`;
        if (entry !== undefined && !read.has(entry.capability))
          yield `it removed ${id} of ${entry.capability}, whose rules it has not read`;
      }
    }
    for (const [id, entry] of entries) {
      const filled = standingValue(before, id) === undefined && entriesAfter.get(id)?.by === installation;
      if (entry.by !== installation && !filled && !isDeepStrictEqual(entriesAfter.get(id), entry))
        yield `it changed the entry of ${entry.by} for ${id}`;
    }
    if (this.isTampered(before)) return;
    for (const id of entriesAfter.keys())
      if (!entries.has(id) && standingValue(after, id) === undefined)
        yield `it recorded ${id}, which is not there`;
  }
}

function changesBetween(before: Node, after: Node): Map<MarkId, string | undefined> {
  const changed = new Map<MarkId, string | undefined>();
  const old = new Map([...standingMarks(before)].map(({ id, value }) => [id, value]));
  for (const { id, value } of standingMarks(after)) {
    if (old.get(id) !== value) changed.set(id, value);
    old.delete(id);
  }
  for (const id of old.keys()) changed.set(id, undefined);
  return changed;
}

/** All of a node but the places that a rule could want, the record, and the version; foreign taints in their order. */
function foreignPart(node: Node, ours: ReadonlySet<MarkId>): unknown {
  const { labels = {}, annotations = {}, resourceVersion: _, ...metadata } = node.metadata ?? {};
  const { taints = [], unschedulable, ...spec } = node.spec ?? {};
  const foreign = (kind: "label" | "annotation", map: Readonly<Record<string, string>>): object =>
    Object.fromEntries(
      Object.entries(map).filter(([key]) => !ours.has(`${kind}/${key}`) && key !== MARKS_ANNOTATION),
    );
  return {
    ...node,
    metadata: {
      ...metadata,
      labels: foreign("label", labels),
      annotations: foreign("annotation", annotations),
    },
    spec: {
      ...spec,
      unschedulable: ours.has("unschedulable") ? undefined : unschedulable,
      taints: taints.filter(({ key, effect }) => !ours.has(`taint/${key}:${effect}`)),
    },
  };
}

function uidOf(node: Node): string {
  return node.metadata?.uid ?? "";
}
