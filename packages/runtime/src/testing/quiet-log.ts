import type { Logger } from "../log.ts";

/** A logger that says nothing, for tests. */
export const quietLog: Logger = {
  error: () => undefined,
  warn: () => undefined,
  info: () => undefined,
  debug: () => undefined,
  with: () => quietLog,
};
