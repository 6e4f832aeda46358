/** A webhook configuration of ours, kept right while it is needed and taken away when it is not. */

import { Demand, EARLY_MS, keepOnceNeeded } from "@berth/host";
import type {
  KubeClient,
  MutatingWebhookConfiguration,
  Resource,
  ValidatingWebhookConfiguration,
} from "@berth/kube";
import { type Policy, type Reason, reasons } from "@berth/placement";
import {
  type Clock,
  type ClusterName,
  type Component,
  createLoopComponent,
  createObjectKeeper,
  isSameData,
  type Logger,
  type MetricsRegistry,
  type Running,
  sleep,
} from "@berth/runtime";
import type { WebhookOwner, WebhookServer } from "./webhook-server.ts";

type Configuration = MutatingWebhookConfiguration | ValidatingWebhookConfiguration;

export interface KeptWebhookOptions<T extends { readonly policy: Policy }, W extends Configuration> {
  /** `footprint`: of its components. */
  readonly name: string;
  /** Mutating or validating ones. */
  readonly resource: Resource<W>;
  readonly client: KubeClient;
  readonly cluster: ClusterName;
  /** What has these labels, and is not wanted, is deleted. */
  readonly selector: Readonly<Record<string, string>>;
  /** Of which `owner` is one. */
  readonly webhook: WebhookServer;
  readonly owner: WebhookOwner;
  /** The documents that it is for; `undefined` until some have been read. */
  readonly inForce: () => T | undefined;
  /** From the first time on it is served and watched. */
  readonly isNeeded: (inForce: T) => boolean;
  /** What is to stand, with the authority that the API server has to trust. Asked only when it is needed. */
  readonly desired: (inForce: T, ca: string) => W;
  readonly metrics: MetricsRegistry;
  readonly log: Logger;
  readonly clock: Clock;
}

export interface KeptWebhook {
  /** `inForce`, or what the server says, may be different now. */
  changed(): void;
  /** When it was first needed: monotonic ms. */
  neededMs(): number | undefined;
  /** Why the API server may not be asking; only while it is needed. */
  problem(): string | undefined;
  /** Does the configuration stand as desired? `false` where this replica does not keep it. */
  settled(): boolean;
  /** What the leader runs. */
  readonly component: Component;
}

/** Without any need, and without leftovers of an earlier process, it costs one list at the start and no right to write. */
export function createKeptWebhook<T extends { readonly policy: Policy }, W extends Configuration>(
  options: KeptWebhookOptions<T, W>,
): KeptWebhook {
  const { name, client, resource, selector, webhook, owner, inForce, isNeeded, desired, clock, log } =
    options;
  const demand = new Demand();
  let neededMs: number | undefined;
  const keeper = createObjectKeeper({
    ...options,
    name: `${name}-webhooks`,
  });
  const changed = (): void => {
    const found = inForce();
    if (found === undefined) return;
    const needed = isNeeded(found);
    if (needed) {
      webhook.demand(owner);
      demand.note();
      neededMs ??= clock.monotonic();
    }
    // What stands may be for documents that are yet to be read: it must not be taken for left over.
    if (found.policy.isUndecided) return;
    const ca = webhook.caBundle();
    if (!needed) keeper.setDesired([]);
    else if (ca !== undefined) keeper.setDesired([desired(found, ca)]);
  };
  const problem = (): string | undefined => {
    const found = inForce();
    if (found === undefined || !isNeeded(found)) return undefined;
    const unserved = webhook.problem();
    if (unserved !== undefined) return unserved;
    if (webhook.caBundle() === undefined)
      return "nobody says which authority the API server has to trust: put ca.crt beside the certificate";
    return keeper.problem();
  };
  const hasLeftovers = async (_: undefined, signal: AbortSignal): Promise<boolean> => {
    const labels = Object.entries(selector).map(([key, value]) => `${key}=${value}`);
    const scope = { labelSelector: labels.join(","), limit: 1, signal };
    return (await client.list(resource, scope)).items.length > 0;
  };
  return {
    changed,
    neededMs: () => neededMs,
    problem,
    settled: () => keeper.settled(),
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

/** Whether the API server asks, for conditions. */
export interface AskedJudgement {
  readonly ready: boolean;
  readonly reason: Reason;
  readonly message: string;
}

/** Of one that is needed; `undefined` while it is early, and it may yet come right. */
export function judgeAsked(kept: KeptWebhook, clock: Clock): AskedJudgement | undefined {
  const why = kept.problem() ?? (kept.settled() ? undefined : "the webhook configuration is not written yet");
  const neededMs = kept.neededMs();
  const isEarly = neededMs === undefined || clock.monotonic() - neededMs < EARLY_MS;
  if (why !== undefined)
    return isEarly ? undefined : { ready: false, reason: reasons.AdmissionFailed, message: why };
  return { ready: true, reason: reasons.AdmissionByWebhook, message: "Berth is asked about new pods" };
}

/** How often a state is compared with the one that was told. Milliseconds. */
const REPORT_MS = 3000;

/**
 * Tells within three seconds that `state` has changed. A state also changes with time, and with what the API server refuses
 * or accepts, so it is compared instead of waited for.
 */
export function createStateReport(
  name: string,
  { state, clock, tell }: { readonly state: () => unknown; readonly clock: Clock; readonly tell: () => void },
): Component {
  return createLoopComponent({
    name,
    async run(signal) {
      let told = state();
      while (await sleep(clock, REPORT_MS, signal)) {
        const current = state();
        if (isSameData(current, told)) continue;
        told = current;
        tell();
      }
    },
  });
}
