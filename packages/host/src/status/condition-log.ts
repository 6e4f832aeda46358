/** Logs the conditions of documents in files, which have no status of their own. */
import type { Condition } from "@berth/kube";
import type { Logger } from "@berth/runtime";

/** The part of a condition that the log reports. */
export type Said = Pick<Condition, "type" | "status" | "reason" | "message">;

export interface ConditionLogOptions {
  /** Name of the document kind in the log: `label rule`. */
  readonly noun: string;
  /** True for a condition that reports success. The log reports the others as warnings. */
  readonly isGood: (condition: Said) => boolean;
  readonly log: Logger;
}

/** Writes one line for each new condition, and for each change of its status or reason. */
export class ConditionLog {
  readonly #options: ConditionLogOptions;
  readonly #said = new Map<string, readonly Condition[]>();

  constructor(options: ConditionLogOptions) {
    this.#options = options;
  }

  /** The last conditions of this document. @param rule `config/<name>`. */
  of(rule: string): readonly Condition[] | undefined {
    return this.#said.get(rule);
  }

  tell(rule: string, conditions: readonly Condition[]): void {
    const { noun, isGood, log } = this.#options;
    const before = this.#said.get(rule);
    this.#said.set(rule, conditions);
    for (const condition of conditions) {
      const { type, status, reason, message } = condition;
      const last = before?.find((it) => it.type === type);
      if (last?.status === status && last.reason === reason) continue;
      const level = isGood(condition) ? "info" : "warn";
      log[level](noun, { name: rule, condition: type, status, reason, message });
    }
  }

  /** Forgets all other documents, so that a new document with the same name starts afresh. */
  keep(rules: readonly string[]): void {
    for (const rule of this.#said.keys()) if (!rules.includes(rule)) this.#said.delete(rule);
  }
}
