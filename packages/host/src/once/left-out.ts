/** Collects what a command could not read because permissions are missing. */
import { type ApiError, describeRequest, type RequestInfo, type Resource } from "@berth/kube";
import type { Output } from "./output.ts";

/** Reports each missing permission once. */
export class LeftOut {
  /** Messages by the missing permission. */
  readonly #lines = new Map<string, string>();

  /** @param consequence the end of a sentence. */
  note(what: string, { request }: ApiError, consequence?: string): void {
    const rule = toRule(request);
    const so = consequence === undefined ? "" : `, so ${consequence}`;
    const line = `${what} are left out${so}: ${describeRequest(request)} is forbidden; needed: ${rule}\n`;
    if (!this.#lines.has(rule)) this.#lines.set(rule, line);
  }

  /** The caller names this permission in its own error. */
  drop({ request }: ApiError): void {
    this.#lines.delete(toRule(request));
  }

  get isEmpty(): boolean {
    return this.#lines.size === 0;
  }

  /** Returns and removes the permissions: the caller names them in its own error, and `tell` does not repeat them. */
  take(): readonly string[] {
    const rules = [...this.#lines.keys()];
    this.#lines.clear();
    return rules;
  }

  tell(output: Pick<Output, "write">): void {
    for (const line of this.#lines.values()) output.write(line);
  }
}

/** `verb "list" on "nodes"`: the permission that an administrator has to grant. */
export function toRule({ verb, resource, subresource, namespace }: RequestInfo): string {
  const what = subresource === undefined ? resource : `${resource}/${subresource}`;
  return `verb "${verb}" on "${what}"${namespace ? ` in namespace "${namespace}"` : ""}`;
}

/** `NetworkPolicies`; the plural resource name, such as `workerpools`, when the kind is not known. */
export function pluralOf({ kind, plural }: Resource): string {
  return kind === "" ? plural : `${kind.replace(/y$/, "ie")}s`;
}
