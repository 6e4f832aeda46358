import type { MetricsRegistry } from "@berth/runtime";

/** A gauge of the faults of documents as last read, by reason. @returns sets it: a reason without a fault goes back to 0. */
export function createFaultGauge(
  registry: MetricsRegistry,
  texts: { readonly name: string; readonly help: string },
): (faults: readonly { readonly reason: string }[]) => void {
  const gauge = registry.gauge({ ...texts, labels: ["reason"] });
  const reported = new Set<string>();
  return (faults) => {
    const counts = new Map<string, number>([...reported].map((reason) => [reason, 0]));
    for (const { reason } of faults) counts.set(reason, (counts.get(reason) ?? 0) + 1);
    for (const [reason, count] of counts) {
      reported.add(reason);
      gauge.set(count, { reason });
    }
  };
}
