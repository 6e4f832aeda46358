/** The reconciler of one object with rules, and a server of which a test gives the answers. */
import { createObjectReconciler, type ObjectDecision, type ObjectRules } from "@berth/host";
import type { ApplyOptions, DeleteOptions, KubeClient, KubeObject, ObjectName, Patch } from "@berth/kube";
import {
  type Clock,
  clusterName,
  createSilentLogger,
  type Lister,
  type ReconcileResult,
} from "@berth/runtime";
import type { EventSink } from "../report.ts";

/** What a test answers; each may throw or reject with `ApiError`. */
export interface Answers {
  get?(of: ObjectName): Promise<KubeObject>;
  patch?(name: string, patch: Patch, subresource: string | undefined): Promise<KubeObject> | KubeObject;
  apply?(body: KubeObject, options: ApplyOptions | undefined): Promise<KubeObject>;
  delete?(name: string, options: DeleteOptions | undefined): Promise<void>;
}

/** Requests that have no answer reject with a `TypeError`. */
export function clientOf(answers: Answers): KubeClient {
  const client: Partial<Record<keyof KubeClient, unknown>> = {
    get: async (_: unknown, of: ObjectName) => answers.get?.(of),
    patch: async (_: unknown, { name }: ObjectName, patch: Patch, options?: { subresource?: string }) =>
      answers.patch?.(name, patch, options?.subresource),
    apply: async (_: unknown, body: KubeObject, options?: ApplyOptions) => answers.apply?.(body, options),
    delete: async (_: unknown, { name }: ObjectName, options?: DeleteOptions) =>
      answers.delete?.(name, options),
  };
  return client as unknown as KubeClient;
}

export interface ObjectRun<T extends KubeObject, P, D extends ObjectDecision> {
  readonly rules: ObjectRules<T, P, D>;
  readonly objects: Pick<Lister<T>, "get">;
  readonly client: KubeClient;
  readonly clock: Clock;
  readonly events?: EventSink;
}

/** Looks at the object of this name. */
export function lookingAt<T extends KubeObject, P, D extends ObjectDecision>({
  rules,
  ...options
}: ObjectRun<T, P, D>): (namespace: string, name: string) => Promise<ReconcileResult | undefined> {
  const reconcile = createObjectReconciler({ ...rules, ...options });
  const context = { signal: new AbortController().signal, log: createSilentLogger() };
  return (namespace, name) => reconcile({ cluster: clusterName("c"), namespace, name }, context);
}
