/** One pod and its reconciler, of which the test tells when the informer tells of it. */
import { ApiError, type ApiFailure, type Pod } from "@berth/kube";
import { createVirtualClock, type EventInput, type ReconcileResult, type VirtualClock } from "@berth/runtime";
import { type PodBuilder } from "@berth/testcluster";
import { clientOf, lookingAt } from "../../node/testing/object-run.ts";
import type { ImageQuestion } from "../image-observations.ts";
import { podRules } from "../pod-reconciler.ts";
import type { WorkloadOutcome } from "../pod-view.ts";
import type { ArchitecturePolicies } from "../policy.ts";
import { type KnownImages, sightOf } from "./observations.ts";
import { PodServer } from "./pod-server.ts";
import { policiesOf } from "./policies.ts";

export const GATE = { name: "berth.dev/architecture" };

export interface World {
  readonly server: PodServer;
  readonly clock: VirtualClock;
  readonly events: EventInput[];
  readonly outcomes: Map<string, WorkloadOutcome>;
  readonly wanted: ImageQuestion[];
  readonly lifted: number[];
  images: KnownImages;
  policies: ArchitecturePolicies | undefined;
  labels: Readonly<Record<string, string>> | undefined;
  refusal: ((after: Pod) => ApiFailure | undefined) | undefined;
  /** Of patches of the status. */
  statusRefusal: ApiFailure | undefined;
  statusPatches: number;
  /** Looks at the pod as the informer last told of it. */
  reconcile(): Promise<ReconcileResult | undefined>;
  /** The informer tells of the newest version, and the pod is looked at. */
  told(): Promise<ReconcileResult | undefined>;
}

export function aWorld(pod: PodBuilder, mode: "Taint" | "Affinity" | "Both" = "Affinity"): World {
  const clock = createVirtualClock();
  const server = new PodServer({ refusal: (_, after) => world.refusal?.(after) });
  server.create(pod.build(), clock.now());
  const lifted: number[] = [];
  const rules = podRules({
    namespaceLabels: () => world.labels,
    policies: () => world.policies,
    observations: { look: (question) => sightOf(world.images).look(question) },
    demand: { want: (question) => void world.wanted.push(question) },
    observer: {
      decided: (workload, outcome) => void world.outcomes.set(workload, outcome),
      gone: (workload) => void world.outcomes.delete(workload),
    },
    report: { changed: () => undefined, lifted: (heldMs) => void lifted.push(heldMs) },
    clock,
  });
  const client = clientOf({
    patch(name, patch, subresource) {
      if (subresource === undefined) return server.send(name, patch);
      world.statusPatches += 1;
      const failure = world.statusRefusal;
      if (failure === undefined) return server.send(name, patch);
      throw new ApiError(failure, { verb: "patch", resource: "pods", name });
    },
  });
  const events = { record: (event: EventInput) => void world.events.push(event) };
  const look = lookingAt({ rules, objects: server.reader, client, clock, events });
  const world: World = {
    server,
    clock,
    lifted,
    events: [],
    outcomes: new Map(),
    wanted: [],
    images: {},
    policies: policiesOf({ p: { mode } }),
    labels: {},
    refusal: undefined,
    statusRefusal: undefined,
    statusPatches: 0,
    reconcile: () => look("default", "p"),
    told: () => {
      server.catchUp("p");
      return look("default", "p");
    },
  };
  return world;
}
