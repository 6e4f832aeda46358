/** A DaemonSet and its reconciler, against a server that keeps versions, on a clock of our own. */
import { applyPatch } from "@berth/host";
import { type DaemonSet, type JsonPatchOperation, type Toleration } from "@berth/kube";
import { createVirtualClock, type EventInput, type VirtualClock } from "@berth/runtime";
import { clientOf, lookingAt } from "../../node/testing/object-run.ts";
import { daemonSetRules } from "../daemonset-reconciler.ts";
import type { WorkloadOutcome } from "../pod-view.ts";
import type { ArchitecturePolicies } from "../policy.ts";
import { type KnownImages, sightOf } from "./observations.ts";
import { policiesOf } from "./policies.ts";

export const KEY = "supported-arch";
export const tolerate = (...values: readonly string[]): readonly Toleration[] =>
  values.map((value) => ({ key: KEY, value, effect: "NoSchedule" }));
export const everything: Toleration = { operator: "Exists" };
export const other: Toleration = { key: "example.com/other", operator: "Exists", effect: "NoExecute" };

export interface Init {
  readonly images?: readonly string[];
  readonly tolerations?: readonly Toleration[];
  readonly namespace?: string;
  readonly annotations?: Readonly<Record<string, string>>;
  readonly deletionTimestamp?: string;
}

export function daemonSetOf(init: Init = {}): DaemonSet {
  const { images = ["multi"], tolerations, namespace = "kube-system", annotations, deletionTimestamp } = init;
  return {
    metadata: {
      name: "cni",
      namespace,
      uid: "u1",
      resourceVersion: "1",
      // The API server keeps one on every DaemonSet that it has stored.
      annotations: {},
      ...(deletionTimestamp !== undefined && { deletionTimestamp }),
    },
    spec: {
      selector: { matchLabels: { app: "cni" } },
      template: {
        metadata: { labels: { app: "cni" }, ...(annotations && { annotations }) },
        spec: {
          containers: images.map((image, at) => ({ name: `c${at}`, image })),
          ...(tolerations && { tolerations }),
        },
      },
    },
  };
}

export const IMAGES: KnownImages = {
  multi: ["amd64", "arm64"],
  amd: ["amd64"],
  arm: ["arm64"],
  lost: { failed: "ImageNotFound", retryAt: 5_000 },
  down: { failed: "RegistryUnreachable" },
};

export class World {
  readonly clock: VirtualClock = createVirtualClock();
  readonly events: EventInput[] = [];
  readonly outcomes: Map<string, WorkloadOutcome> = new Map();
  readonly wanted: Set<string> = new Set();
  images: KnownImages = IMAGES;
  policies: ArchitecturePolicies = policiesOf({ p: {} });
  namespaceLabels: Readonly<Record<string, string>> | null | undefined = {};
  isTainting = true;
  stored: DaemonSet | undefined;
  writes = 0;
  readonly #look = lookingAt({
    rules: daemonSetRules({
      namespaceLabels: () => this.namespaceLabels,
      policies: () => this.policies,
      observations: { look: (question) => sightOf(this.images).look(question) },
      demand: { want: ({ image }) => this.wanted.add(image) },
      isTainting: () => this.isTainting,
      observer: {
        decided: (workload, outcome) => this.outcomes.set(workload, outcome),
        gone: (workload) => this.outcomes.delete(workload),
      },
      clock: this.clock,
      ownNamespace: "berth-system",
    }),
    objects: { get: () => this.stored },
    client: clientOf({ patch: (_, { body }) => this.#patch(body as readonly JsonPatchOperation[]) }),
    clock: this.clock,
    events: { record: (event) => this.events.push(event) },
  });

  constructor(init: Init = {}) {
    this.stored = daemonSetOf(init);
  }

  #patch(patch: readonly JsonPatchOperation[]): DaemonSet {
    this.writes += 1;
    return this.put(applyPatch(this.stored, patch) as DaemonSet);
  }

  put(daemonSet: DaemonSet): DaemonSet {
    const resourceVersion = String(Number(this.stored?.metadata?.resourceVersion) + 1);
    this.stored = { ...daemonSet, metadata: { ...daemonSet.metadata, resourceVersion } };
    return this.stored;
  }

  /** @returns when to look again, ms. */
  async look(): Promise<number | undefined> {
    return (await this.#look("kube-system", "cni"))?.recheckAfterMs;
  }

  /** Another writer removes what Berth set. */
  revert(): void {
    this.put(daemonSetOf());
  }

  get tolerations(): readonly Toleration[] | undefined {
    return this.stored?.spec?.template.spec?.tolerations;
  }

  get told(): readonly string[] {
    return this.events.splice(0).map(({ type, reason }) => `${type} ${reason}`);
  }

  get uncovered(): readonly string[] | undefined {
    return this.outcomes.get("DaemonSet kube-system/cni")?.uncovered;
  }
}
