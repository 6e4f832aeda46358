/** Finds gates whose signals can never hold together. Pure. */
import type { DaemonSetSignal, SignalGroup, StartupGateSpec } from "./document.ts";

/**
 * @param exists whether there is a DaemonSet. Default: it is not known, so each may exist.
 * @returns why no node can pass the gate; `undefined` when one may.
 */
export function neverOpens(
  { signals }: Pick<StartupGateSpec, "signals">,
  exists: (daemonSet: DaemonSetSignal) => boolean = () => true,
): string | undefined {
  const needed = contradiction([signals], exists);
  if (needed !== undefined || signals.anyOf.length === 0) return needed;
  const problems = signals.anyOf.map((group) => contradiction([signals, group], exists));
  return problems.includes(undefined) ? undefined : [...new Set(problems)].join("; nor: ");
}

/** Why these signals do not hold together. */
function contradiction(
  groups: readonly SignalGroup[],
  exists: (daemonSet: DaemonSetSignal) => boolean,
): string | undefined {
  const missing = groups.flatMap(({ daemonSets }) => daemonSets).find((it) => !exists(it));
  if (missing !== undefined) return `there is no DaemonSet ${missing.namespace}/${missing.name}`;
  const wanted = groups.flatMap(({ conditions, annotations }) => [
    ...conditions.map(({ type, status }) => [`condition ${type}`, status] as const),
    ...annotations.map(({ key, value }) => [`annotation ${key}`, value] as const),
  ]);
  const first = new Map<string, string>();
  for (const [what, value] of wanted) {
    const other = first.get(what) ?? value;
    if (other !== value) return `${what} cannot be both ${other} and ${value}`;
    first.set(what, value);
  }
  return undefined;
}
