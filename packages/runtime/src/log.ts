/** Values that go with a log line: plain data, never a credential, never a whole object. */
export type LogFields = Readonly<Record<string, unknown>>;

/**
 * Structured logging as the runtime uses it. Levels: `error` the operator should act, `warn` Berth continues but the
 * operator should look, `info` a change, `debug` why nothing changed.
 */
export interface Logger {
  /** The operator should act. */
  error(message: string, fields?: LogFields): void;
  /** Berth continues, but the operator should look. */
  warn(message: string, fields?: LogFields): void;
  /** Something changed. */
  info(message: string, fields?: LogFields): void;
  /** Why nothing changed. */
  debug(message: string, fields?: LogFields): void;
  /** A logger that adds these fields to every line. */
  with(fields: LogFields): Logger;
}
