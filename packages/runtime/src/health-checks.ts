/** One condition of being alive or ready. */
export interface HealthCheck {
  /** Part of the path `/readyz/<name>`: lower case, digits and dashes. */
  readonly name: string;
  /** Why it fails, in a sentence; `undefined` when it passes. Must be quick. Throwing counts as a failure. */
  check(): string | undefined;
  /** Information to show although the check passes; see `Component.note`. */
  note?(): string | undefined;
  /** A fault that leaves the process useful: the report names it and does not fail. As quick as `check`. */
  warning?(): string | undefined;
}

export interface HealthReport {
  readonly ok: boolean;
  /**
   * One line per check, as kube-apiserver writes them: `[+]ping ok`, `[-]caches: nodes not synced yet`, and
   * `[!]admission: it is refused` for a warning.
   */
  readonly text: string;
}

/** Always passes: shows that the process answers. */
const PING: HealthCheck = { name: "ping", check: () => undefined };

/** Runs all checks except the excluded ones. `title` starts the last line (`readyz check passed`). */
export function runChecks(
  title: string,
  checks: readonly HealthCheck[],
  excluded: ReadonlySet<string>,
): HealthReport {
  const lines: string[] = [];
  let ok = true;
  for (const check of [PING, ...checks]) {
    const isExcluded = excluded.has(check.name);
    const reason = isExcluded ? undefined : reasonOf(() => check.check());
    const warning = isExcluded || reason !== undefined ? undefined : reasonOf(() => check.warning?.());
    const note = isExcluded ? undefined : reasonOf(() => check.note?.());
    if (reason !== undefined) ok = false;
    if (reason !== undefined) lines.push(`[-]${check.name}: ${reason}`);
    else if (warning !== undefined) lines.push(`[!]${check.name}: ${warning}`);
    else
      lines.push(
        `[+]${check.name} ${isExcluded ? "excluded: " : ""}ok${note === undefined ? "" : `: ${note}`}`,
      );
  }
  lines.push(`${title} check ${ok ? "passed" : "failed"}`);
  return { ok, text: `${lines.join("\n")}\n` };
}

/** Runs the check of this name alone; a warning fails it. `undefined` when no check has the name. */
export function runOneCheck(name: string, checks: readonly HealthCheck[]): HealthReport | undefined {
  const found = [PING, ...checks].find((check) => check.name === name);
  if (found === undefined) return undefined;
  const reason = problemOf(found);
  return reason === undefined ? { ok: true, text: "ok\n" } : { ok: false, text: `[-]${name}: ${reason}\n` };
}

/** The failure of the check, else its warning, in one line. */
export function problemOf(check: HealthCheck): string | undefined {
  return reasonOf(() => check.check()) ?? reasonOf(() => check.warning?.());
}

/** The reason on one line, however the check formats it. */
function reasonOf(ask: () => string | undefined): string | undefined {
  try {
    return ask()?.replace(/\s+/g, " ");
  } catch (error) {
    return `the check itself failed: ${String(error).replace(/\s+/g, " ")}`;
  }
}
