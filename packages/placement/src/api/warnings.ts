/** Warnings about documents that are valid and yet do nothing, or more than their author may mean. */
import { type Document, silencedBy } from "@berth/host";
import type { Reason } from "./reasons.ts";

/** On a document: codes of warnings that its author has seen, with commas between. */
export const SILENCE_ANNOTATION = "berth.dev/silence";

/** A warning of `berth plan` about a document in force. */
export interface DocumentWarning {
  readonly code: Reason;
  /** `cluster/network`, `config/network`. */
  readonly rule: string;
  readonly message: string;
}

/** Part of a document in force. */
export interface Silencing {
  /** Codes of warnings that nobody wants to see about it. Default none. */
  readonly silenced?: readonly string[];
}

/** Part of a document. */
export interface Annotated {
  readonly annotations?: Document["annotations"] | undefined;
}

export function silencing({ annotations }: Annotated): Silencing {
  const codes = silencedBy(annotations, SILENCE_ANNOTATION);
  return codes.length === 0 ? {} : { silenced: codes };
}

/** @param message `undefined`: there is nothing to warn about. */
export function warn(
  { rule, silenced = [] }: Silencing & { readonly rule: string },
  code: Reason,
  message: string | undefined,
): readonly DocumentWarning[] {
  return message === undefined || silenced.includes(code) ? [] : [{ code, rule, message }];
}
