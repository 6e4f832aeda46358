/** Writes down versions as a telling would, for tests of verdicts. */
import type { KubeObject, Resource } from "@berth/kube";
import type { Author, HistoryEntry } from "@berth/testcluster";

export interface Noted {
  readonly name: string;
  readonly object: KubeObject;
  readonly by: Author;
  readonly gone?: "DELETED";
}

export class WrittenHistory {
  readonly entries: HistoryEntry[] = [];
  step = "start";

  next(step: string): this {
    this.step = step;
    return this;
  }

  note(resource: Resource, { name, object: content, by, gone }: Noted): this {
    const last = this.entries.findLast((one) => one.resource === resource && one.name === name);
    const before = last?.type === "DELETED" ? undefined : last?.object;
    const metadata = { ...content.metadata, resourceVersion: String(this.entries.length + 1) };
    const type = gone ?? (before === undefined ? "ADDED" : "MODIFIED");
    const { step } = this;
    this.entries.push({ step, type, resource, name, object: { ...content, metadata }, before, by, at: 0 });
    return this;
  }

  /** In order, the start included. */
  get steps(): readonly string[] {
    return [...new Set(["start", ...this.entries.map(({ step }) => step)])];
  }
}
