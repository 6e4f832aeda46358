/** What one command could not read for want of permissions. */
import { type ApiError, describeRequest } from "@berth/kube";
import { CommandError, exitCodes } from "./exit-codes.ts";
import { toRule } from "./failure-text.ts";
import type { Output } from "./surroundings.ts";

/** Names each missing permission once, however often it was asked for. */
export class LeftOut {
  /** Lines by the permission that they lack. */
  readonly #lines = new Map<string, string>();

  /** @param consequence the end of a sentence. */
  note(what: string, { request }: ApiError, consequence?: string): void {
    const rule = toRule(request);
    const so = consequence === undefined ? "" : `, so ${consequence}`;
    const line = `${what} are left out${so}: ${describeRequest(request)} is forbidden; needed: ${rule}\n`;
    if (!this.#lines.has(rule)) this.#lines.set(rule, line);
  }

  get isEmpty(): boolean {
    return this.#lines.size === 0;
  }

  /** The error of a command that has nothing to go by: it names the permissions, and `tell` does not name them again. */
  refuse(what: string): CommandError {
    const rules = [...this.#lines.keys()].join(", ");
    this.#lines.clear();
    const message = `${what}: permissions are missing; needed: ${rules} (berth manifests prints the roles)`;
    return new CommandError(message, exitCodes.cluster);
  }

  tell(output: Pick<Output, "write">): void {
    for (const line of this.#lines.values()) output.write(line);
  }
}
