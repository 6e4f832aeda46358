import type { RequestInfo, RequestOutcome } from "@berth/kube";
import type { MetricsRegistry } from "./metrics.ts";

/**
 * Declares the metrics of requests to the API server, and returns the `onAnswer` that counts them. The labels grow with
 * the kinds in use, never with objects.
 */
export function declareApiMetrics(
  metrics: MetricsRegistry,
): (request: RequestInfo, outcome: RequestOutcome, tookMs: number) => void {
  const requests = metrics.counter<"verb" | "resource" | "outcome">({
    name: `${metrics.prefix}api_requests_total`,
    help: "Requests to the API server by outcome; `ok`, or the kind of failure.",
    labels: ["verb", "resource", "outcome"],
  });
  const duration = metrics.histogram<"verb">({
    name: `${metrics.prefix}api_request_duration_seconds`,
    help: "Time until the API server began to answer.",
    labels: ["verb"],
  });
  return ({ verb, resource, subresource }, outcome, tookMs) => {
    const full = subresource === undefined ? resource : `${resource}/${subresource}`;
    requests.inc({ verb, resource: full, outcome });
    duration.observe(tookMs / 1000, { verb });
  };
}
