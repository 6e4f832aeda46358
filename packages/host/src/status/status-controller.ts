/** Keeps the status of documents of one kind. Kinds differ only in their reconciler. */

import type { KubeClient, KubeObject, ObjectMeta, Resource } from "@berth/kube";
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
  type Reconcile,
  toSelf,
  watchFor,
} from "@berth/runtime";
import { documentName } from "../documents/sources.ts";
import { createKeySource } from "../key-source.ts";

/** What a reconciler of a status is made of, `J` being what became of a document. */
export interface StatusParts<J> {
  /** Rejects with `ApiError`. */
  readonly patchStatus: (name: string, body: object, signal: AbortSignal) => Promise<unknown>;
  /** Of the version that is known of; `undefined` without one. */
  readonly judgementOf: (name: string) => J | undefined;
}

export interface StatusControllerOptions<T extends KubeObject, J> {
  readonly name: string;
  readonly resource: Resource<T>;
  readonly objects: Informer<T>;
  readonly judge: (name: string, version: ObjectMeta) => J | undefined;
  readonly reconcile: (parts: StatusParts<J>) => Reconcile<ObjectKey>;
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
export function createStatusController<T extends KubeObject, J>(
  options: StatusControllerOptions<T, J>,
): StatusController {
  const { name, resource, objects, judge, reconcile, client, cluster, metrics, log, clock } = options;
  const keyNamed = (named: string): ObjectKey => keyOf(cluster, { metadata: { name: named } });
  const asked = createKeySource(() => []);
  const controller = createController({
    name,
    reconcile: reconcile({
      patchStatus: (named, body, signal) =>
        client.patch(resource, { name: named }, { type: "merge", body }, { signal, subresource: "status" }),
      judgementOf(named) {
        const { metadata } = objects.get(keyNamed(named)) ?? {};
        return metadata && judge(named, metadata);
      },
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
