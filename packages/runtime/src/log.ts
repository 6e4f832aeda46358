/** Values that go with a log line: plain data, never a credential, never a whole object. */
export type LogFields = Readonly<Record<string, unknown>>;

/**
 * Structured logging as the runtime sees it. Levels mean: `error` somebody should act, `warn` it goes on but look,
 * `info` something changed, `debug` why nothing changed.
 */
export interface Logger {
  error(message: string, fields?: LogFields): void;
  warn(message: string, fields?: LogFields): void;
  info(message: string, fields?: LogFields): void;
  debug(message: string, fields?: LogFields): void;
  /** A logger that adds these fields to every line. */
  with(fields: LogFields): Logger;
}
