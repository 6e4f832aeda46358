import type { Node } from "@berth/kube";
import {
  type Clock,
  type Component,
  createServerComponent,
  type HealthCheck,
  type Informer,
  type Logger,
  type MetricsRegistry,
  type ProbeServers,
  problemOf,
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
  parts.metrics.gauge({
    name: "berth_component_problem",
    help: "1 for a component that cannot do its work now, or has not started: /readyz?verbose says why.",
    labels: ["component"],
    collect(gauge) {
      for (const check of checks)
        gauge.set(problemOf(check) === undefined ? 0 : 1, { component: check.name });
    },
  });
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

/** Until Berth has reached the API server it cannot know what to answer, whatever it is asked. */
export function nodesReadCheck(nodes: Informer<Node>): HealthCheck {
  const isRead = (): boolean => nodes.synced || nodes.refusal !== undefined;
  return { name: "nodes-read", check: () => (isRead() ? undefined : "the nodes have not been read yet") };
}
