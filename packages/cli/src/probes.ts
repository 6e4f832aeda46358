import {
  type Clock,
  type Component,
  createServerComponent,
  type HealthCheck,
  type Logger,
  type MetricsRegistry,
  type ProbeServers,
  startProbeServers,
} from "@berth/runtime";

export interface ProbeOptions {
  /** `:8080`, `127.0.0.1:0`; `0` is off. Default off. */
  readonly metricsBindAddress?: string;
  readonly healthProbeBindAddress?: string;
}

/** The servers of metrics and health, as a component. */
export interface Probes {
  readonly component: Component;
  /** Settles once they listen, or could not. */
  readonly listening: Promise<void>;
  servers(): ProbeServers | undefined;
  failedToListen(): unknown;
}

export function createProbes(
  { metricsBindAddress = "0", healthProbeBindAddress = "0" }: ProbeOptions,
  parts: {
    readonly checks: readonly HealthCheck[];
    readonly metrics: MetricsRegistry;
    readonly log: Logger;
    readonly clock: Clock;
  },
): Probes {
  const { checks, ...common } = parts;
  const listening = Promise.withResolvers<void>();
  let servers: ProbeServers | undefined;
  let failure: unknown;
  const start = async (): Promise<ProbeServers> => {
    try {
      servers = await startProbeServers({
        metricsBindAddress,
        healthBindAddress: healthProbeBindAddress,
        liveChecks: [],
        readyChecks: checks,
        ...common,
      });
      return servers;
    } catch (error) {
      failure = error;
      throw error;
    } finally {
      listening.resolve();
    }
  };
  return {
    component: createServerComponent({ name: "servers", start }),
    listening: listening.promise,
    servers: () => servers,
    failedToListen: () => failure,
  };
}
