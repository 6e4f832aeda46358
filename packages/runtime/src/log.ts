/** Values that go with a log line: plain data, never a credential, never a whole object. */
export type LogFields = Readonly<Record<string, unknown>>;

/**
 * Structured logging as the runtime sees it. Levels mean: `error` somebody should act, `warn` it goes on but look,
 * `info` something changed, `debug` why nothing changed.
 */
export interface Logger {
  /** Somebody should act. */
  error(message: string, fields?: LogFields): void;
  /** It goes on, but somebody should look. */
  warn(message: string, fields?: LogFields): void;
  /** Something changed. */
  info(message: string, fields?: LogFields): void;
  /** Why nothing changed. */
  debug(message: string, fields?: LogFields): void;
  /** A logger that adds these fields to every line. */
  with(fields: LogFields): Logger;
}
