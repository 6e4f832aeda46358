import type { MetricsRegistry } from "../metrics.ts";

/** Counters of an admission server. */
export interface AdmissionMetrics {
  /** A request has been answered, or its client disconnected (`aborted`). */
  answered(path: string, code: string, tookMs: number): void;
  /** A handler decided. */
  decided(path: string, decision: "allowed" | "patched" | "denied"): void;
  /** A connection failed in its TLS handshake. */
  handshakeFailed(): void;
}

/** One label for all paths that are not served, because clients can invent paths. */
export const OTHER_PATH = "other";

/** Measures nothing. */
export const noAdmissionMetrics: AdmissionMetrics = {
  answered: () => undefined,
  decided: () => undefined,
  handshakeFailed: () => undefined,
};

/** The state of an admission server that its gauges read at each scrape. */
export interface AdmissionServerState {
  readonly inFlight: number;
  /** When the certificate that it shows ends, ms since the epoch; `undefined` without one. */
  readonly certificateEndsMs: number | undefined;
}

/** Declares the metrics of an admission server. Labels grow with its handlers, never with its requests. */
export function declareAdmissionMetrics(
  registry: MetricsRegistry,
  state: AdmissionServerState,
): AdmissionMetrics {
  registry.gauge({
    name: `${registry.prefix}admission_in_flight_requests`,
    help: "Admission requests being received or decided.",
    collect: (gauge) => gauge.set(state.inFlight),
  });
  registry.gauge({
    name: `${registry.prefix}admission_certificate_expiration_timestamp_seconds`,
    help: "When the certificate of the admission server ends, in Unix time; 0 without a certificate.",
    collect: (gauge) => gauge.set((state.certificateEndsMs ?? 0) / 1000),
  });
  const total = registry.counter({
    name: `${registry.prefix}admission_requests_total`,
    help: "HTTP requests to the admission server, by status code; `aborted` when the client disconnected first.",
    labels: ["path", "code"],
  });
  const duration = registry.histogram({
    name: `${registry.prefix}admission_request_duration_seconds`,
    help: "From the headers of an admission request to its answer.",
    labels: ["path"],
    buckets: [0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30],
  });
  const decisions = registry.counter({
    name: `${registry.prefix}admission_decisions_total`,
    help: "Decisions of admission handlers: allowed as it is, allowed with a patch, or denied.",
    labels: ["path", "decision"],
  });
  const handshakes = registry.counter({
    name: `${registry.prefix}admission_tls_handshake_failures_total`,
    help: "Connections that failed in their TLS handshake, such as those of an API server with another caBundle.",
  });
  return {
    answered(path, code, tookMs) {
      total.inc({ path, code });
      duration.observe(tookMs / 1000, { path });
    },
    decided: (path, decision) => decisions.inc({ path, decision }),
    handshakeFailed: () => handshakes.inc(),
  };
}
