/** A webhook configuration of ours, kept right while it is needed and taken away when it is not. */
import {
  type KubeClient,
  type MutatingWebhookConfiguration,
  mutatingWebhookConfigurations,
} from "@berth/kube";
import {
  type Clock,
  type ClusterName,
  type Component,
  createObjectKeeper,
  type Logger,
  type MetricsRegistry,
  type Running,
} from "@berth/runtime";
import { Demand, keepOnceNeeded } from "./admission-keeping.ts";
import type { WebhookOwner, WebhookServer } from "./webhook-server.ts";

export interface KeptWebhookOptions {
  /** `footprint`: of its components. */
  readonly name: string;
  readonly client: KubeClient;
  readonly cluster: ClusterName;
  /** What has these labels, and is not wanted, is deleted. */
  readonly selector: Readonly<Record<string, string>>;
  /** Of which `owner` is one. */
  readonly webhook: WebhookServer;
  readonly owner: WebhookOwner;
  /** `undefined` while that is not known: what stands is left as it is. */
  readonly isNeeded: () => boolean | undefined;
  /** What is to stand, with the authority that the API server has to trust. Asked only when it is needed. */
  readonly desired: (ca: string) => MutatingWebhookConfiguration;
  readonly metrics: MetricsRegistry;
  readonly log: Logger;
  readonly clock: Clock;
}

export interface KeptWebhook {
  /** `isNeeded`, `desired`, or what the server says, may be different now. */
  changed(): void;
  /** Why the API server may not be asking; only while it is needed. */
  problem(): string | undefined;
  /** What the leader runs. */
  readonly component: Component;
}

/** Without any need, and without leftovers of an earlier process, it costs one list at the start and no right to write. */
export function createKeptWebhook(options: KeptWebhookOptions): KeptWebhook {
  const { name, client, selector, webhook, owner, isNeeded, desired, clock, log } = options;
  const demand = new Demand();
  const keeper = createObjectKeeper({
    ...options,
    name: `${name}-webhooks`,
    resource: mutatingWebhookConfigurations,
  });
  const [informer] = keeper.components;
  const changed = (): void => {
    const needed = isNeeded();
    if (needed === undefined) return;
    if (!needed) {
      keeper.setDesired([]);
      return;
    }
    webhook.demand(owner);
    demand.note();
    const ca = webhook.caBundle();
    if (ca !== undefined) keeper.setDesired([desired(ca)]);
  };
  const problem = (): string | undefined => {
    if (isNeeded() !== true) return undefined;
    const unserved = webhook.problem();
    if (unserved !== undefined) return unserved;
    if (webhook.caBundle() === undefined)
      return "nobody says which authority the API server has to trust: put ca.crt beside the certificate";
    return keeper.problem() ?? informer.problem?.();
  };
  const hasLeftovers = async (_: undefined, signal: AbortSignal): Promise<boolean> => {
    const labels = Object.entries(selector).map(([key, value]) => `${key}=${value}`);
    const scope = { labelSelector: labels.join(","), limit: 1, signal };
    return (await client.list(mutatingWebhookConfigurations, scope)).items.length > 0;
  };
  return {
    changed,
    problem,
    component: {
      name: `${name}-admission`,
      start(signal): Promise<Running> {
        changed();
        const pairs = () => [keeper.components];
        const prepare = () => Promise.resolve(undefined);
        const keeping = { demand, prepare, hasLeftovers, pairs, clock, log };
        return Promise.resolve({ ended: keepOnceNeeded(keeping, signal) });
      },
      problem,
    },
  };
}
