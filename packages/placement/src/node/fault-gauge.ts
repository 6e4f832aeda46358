import type { MetricsRegistry } from "@berth/runtime";

/** A gauge of document faults at the last read, by reason. @returns sets it; reasons without faults go back to 0. */
export function createFaultGauge(
  registry: MetricsRegistry,
  texts: { readonly name: string; readonly help: string },
): (faults: readonly { readonly reason: string }[]) => void {
  const gauge = registry.gauge({ ...texts, labels: ["reason"] });
  const reported = new Set<string>();
  return (faults) => {
    const byReason = Map.groupBy(faults, ({ reason }) => reason);
    for (const reason of byReason.keys()) reported.add(reason);
    for (const reason of reported) gauge.set(byReason.get(reason)?.length ?? 0, { reason });
  };
}
