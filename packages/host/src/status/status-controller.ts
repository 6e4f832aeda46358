/** Keeps the status of documents of one kind. Kinds differ only in what they decide. */

import type { KubeClient, KubeObject, ObjectMeta } from "@berth/kube";
import {
  type Clock,
  type ClusterName,
  type Controller,
  createController,
  type Informer,
  keyOf,
  type Logger,
  type MetricsRegistry,
  type ObjectKey,
  toSelf,
  watchFor,
} from "@berth/runtime";
import { documentName, ruleName } from "../documents/sources.ts";
import { createKeySource } from "../key-source.ts";
import {
  createStatusReconciler,
  type StatusDecision,
  type StatusReconcilerOptions,
} from "./status-reconciler.ts";

/** `S` is what is written of a status, `J` what became of a document. */
export interface StatusControllerOptions<T extends KubeObject, S, J>
  extends Pick<StatusReconcilerOptions<T, S>, "resource" | "isGood" | "action" | "noun" | "events"> {
  readonly name: string;
  readonly objects: Informer<T>;
  /** `undefined`: this version has not been looked at. */
  readonly judge: (name: string, version: ObjectMeta) => J | undefined;
  /** @param rule `cluster/<name>`. */
  readonly decide: (object: T, judgement: J | undefined, rule: string) => StatusDecision<S>;
  readonly client: Pick<KubeClient, "patch">;
  readonly cluster: ClusterName;
  readonly metrics: MetricsRegistry;
  readonly log: Logger;
  readonly clock: Clock;
}

export interface StatusController {
  readonly controller: Controller;
  /** Look at the object of this rule, `cluster/<name>`. A rule of another source has none. */
  readonly askRule: (rule: string) => void;
  readonly askAll: () => void;
}

/** Counts change with every node or pod: a status says it at most this often. Milliseconds. */
const COALESCE_MS = 1000;

/** Asking is ignored while it does not run: it looks at all objects when it starts. */
export function createStatusController<T extends KubeObject, S, J>(
  options: StatusControllerOptions<T, S, J>,
): StatusController {
  const { name, resource, objects, judge, decide, client, cluster, metrics, log, clock } = options;
  const keyNamed = (named: string): ObjectKey => keyOf(cluster, { metadata: { name: named } });
  const asked = createKeySource(() => []);
  const controller = createController({
    name,
    reconcile: createStatusReconciler<T, S>({
      ...options,
      patchStatus: (named, body, signal) =>
        client.patch(resource, { name: named }, { type: "merge", body }, { signal, subresource: "status" }),
      decide: (object, named) =>
        decide(object, judge(named, object.metadata ?? {}), ruleName("cluster", named)),
    }),
    sources: [watchFor<T>({ informer: objects, map: toSelf(cluster) }), asked],
    queue: { coalesceMs: COALESCE_MS },
    clock,
    log,
    metrics,
  });
  return {
    controller,
    askRule(rule) {
      const named = documentName(rule, "cluster");
      if (named !== undefined) asked.ask([keyNamed(named)]);
    },
    askAll: () => asked.ask(Array.from(objects.list(), (object) => keyOf(cluster, object))),
  };
}
