import { type DestinationStream, type Logger as Pino, pino } from "pino";
import { type Clock, systemClock } from "./clock.ts";
import type { LogFields, Logger } from "./log.ts";
import { redactFields, redactText } from "./redaction.ts";

/** See `Logger` for what each one means. */
export type LogLevel = "error" | "warn" | "info" | "debug";

/** From the most to the least urgent. */
export const LOG_LEVELS: readonly LogLevel[] = ["error", "warn", "info", "debug"];

/** Which lines are written, and where. */
export interface JsonLoggerOptions {
  /** Lines below it are not written. Default `info`. */
  readonly level?: LogLevel;
  /** Gets each line with its line feed. Default: standard output. */
  readonly destination?: {
    /** Called once per line, in order. */
    write(line: string): void;
  };
  readonly clock?: Clock;
}

/** Names that every line has already; a field of the same name gets an underscore. */
const OWN_NAMES: ReadonlySet<string> = new Set(["level", "time", "msg"]);

/**
 * One JSON object per line: `{"level":"info","time":"2026-11-21T00:00:00.000Z", …fields, "msg":"…"}`.
 *
 * Guarantees: `time` is RFC 3339 in UTC. Fields are bounded in depth, number and length. `[redacted]` replaces values
 * that are likely credentials, by field name or by text. A field never makes it throw. Lines are written at once,
 * without worker threads, so none are lost when the process ends.
 */
export function createJsonLogger(options: JsonLoggerOptions = {}): Logger {
  const clock = options.clock ?? systemClock;
  const pinoOptions = {
    level: options.level ?? "info",
    base: null,
    timestamp: () => `,"time":"${new Date(clock.now()).toISOString()}"`,
    formatters: { level: (level: string) => ({ level }) },
    // The fields are redacted already. Pino's own serializers would process `err` and `req` again.
    serializers: {},
  };
  const destination: DestinationStream = options.destination ?? pino.destination({ dest: 1, sync: true });
  const root = pino(pinoOptions, destination);
  return wrap(root, () => root);
}

/** Writes nothing: for tests, and for commands whose output is for people. */
export function createSilentLogger(): Logger {
  const silent: Logger = { error() {}, warn() {}, info() {}, debug() {}, with: () => silent };
  return silent;
}

/** @param own made at its first line, because each reconcile has a logger and most write nothing. */
function wrap(root: Pino, own: () => Pino): Logger {
  const write =
    (level: LogLevel) =>
    (message: string, fields?: LogFields): void => {
      // Check this before the fields, so that a disabled `debug` costs almost nothing.
      if (!root.isLevelEnabled(level)) return;
      own()[level](toFields(fields ?? {}), redactText(message));
    };
  return {
    error: write("error"),
    warn: write("warn"),
    info: write("info"),
    debug: write("debug"),
    with(fields) {
      let child: Pino | undefined;
      return wrap(root, () => (child ??= own().child(toFields(fields))));
    },
  };
}

function toFields(fields: LogFields): Record<string, unknown> {
  try {
    const named = Object.entries(fields).map(([name, value]) => [
      OWN_NAMES.has(name) ? `${name}_` : name,
      value,
    ]);
    return redactFields(Object.fromEntries(named));
  } catch (error) {
    return { fields: `[unreadable: ${redactText(String(error))}]` };
  }
}
