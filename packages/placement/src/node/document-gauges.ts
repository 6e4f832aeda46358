import type { MetricsRegistry } from "@berth/runtime";

interface Texts {
  readonly name: string;
  readonly help: string;
}

export interface DocumentGauges {
  readonly inForce: Texts;
  /** Faults of documents as last read. With `byReason` it has a label for their reasons. */
  readonly problems: Texts & { readonly byReason?: boolean };
}

/** @returns sets both gauges. Reasons without faults go back to 0. */
export function createDocumentGauges(
  registry: MetricsRegistry,
  { inForce, problems: { byReason, ...texts } }: DocumentGauges,
): (count: number, faults: readonly { readonly reason: string }[]) => void {
  const inForceNow = registry.gauge(inForce);
  const problems = registry.gauge(byReason ? { ...texts, labels: ["reason"] } : texts);
  const reported = new Set<string>();
  return (count, faults) => {
    inForceNow.set(count);
    if (!byReason) return problems.set(faults.length);
    const byName = Map.groupBy(faults, ({ reason }) => reason);
    for (const reason of byName.keys()) reported.add(reason);
    for (const reason of reported) problems.set(byName.get(reason)?.length ?? 0, { reason });
  };
}
