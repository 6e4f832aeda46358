/** Logs what conditions say of documents of files, which have no status of their own. */
import type { Condition } from "@berth/kube";
import type { Logger } from "@berth/runtime";

/** What a condition says. */
export type Said = Pick<Condition, "type" | "status" | "reason" | "message">;

export interface ConditionLogOptions {
  /** What the log calls the document: `label rule`. */
  readonly noun: string;
  /** Does it say that all is well? The others are warnings. */
  readonly isGood: (condition: Said) => boolean;
  readonly log: Logger;
}

/** One line for each condition when it is first said, and when its status or its reason is another. */
export class ConditionLog {
  readonly #options: ConditionLogOptions;
  readonly #said = new Map<string, readonly Condition[]>();

  constructor(options: ConditionLogOptions) {
    this.#options = options;
  }

  /** What was last said of this document. @param rule `config/<name>`. */
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

  /** Those of other documents are forgotten: what is made anew begins anew. */
  keep(rules: readonly string[]): void {
    for (const rule of this.#said.keys()) if (!rules.includes(rule)) this.#said.delete(rule);
  }
}
