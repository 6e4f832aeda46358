/** Keeps the status of documents of one kind up to date, with one guarded patch when it differs. */
import { isApiError, type KubeClient, type KubeObject, type ObjectMeta, type Resource } from "@berth/kube";
import {
  type Clock,
  type ClusterName,
  type Controller,
  createController,
  type EventInput,
  type Informer,
  keyOf,
  type Logger,
  type MetricsRegistry,
  type ObjectKey,
  referenceTo,
  toSelf,
  watchFor,
} from "@berth/runtime";
import { type DocumentResult, documentName, ruleName } from "../documents/sources.ts";
import { createKeySource } from "../key-source.ts";
import { ConditionLog, type Said } from "./condition-log.ts";
import { type BaseStatus, decideStatus, type StatusParts, toCondition } from "./decide-status.ts";

/** How a kind builds the status of its documents. `S` is the type of the status. */
export interface StatusRules<T extends KubeObject, S extends BaseStatus> {
  /** Called once this version has a result. Default: only the condition Ready. @param rule `cluster/<name>`. */
  readonly decide?: (object: T, result: DocumentResult, rule: string) => StatusParts<S>;
  /** True for news that needs no action. Default: conditions with status True. */
  readonly isGood?: (news: Said) => boolean;
  /** Logs the conditions of documents in files. Default: no log. */
  readonly logsFiles?: true;
  /** The `action` of Events. Default `Keep` and the kind. */
  readonly action?: string;
}

export interface StatusControllerOptions<T extends KubeObject, S extends BaseStatus>
  extends StatusRules<T, S> {
  readonly resource: Resource<T>;
  readonly objects: Informer<T>;
  /** The results of documents; see `DocumentSource`. */
  readonly source: {
    readonly files: readonly string[];
    /** `undefined`: this version was not compiled yet. */
    resultOf(name: string, version: ObjectMeta): DocumentResult | undefined;
    resultOfFile(name: string): DocumentResult | undefined;
  };
  readonly events: { record(event: EventInput): void };
  readonly client: Pick<KubeClient, "patch">;
  readonly cluster: ClusterName;
  readonly metrics: MetricsRegistry;
  readonly log: Logger;
  readonly clock: Clock;
}

export interface StatusController {
  readonly controller: Controller;
  /** Checks the document of this rule, `cluster/<name>`. */
  readonly askRule: (rule: string) => void;
  readonly askAll: () => void;
  /** Checks the documents of the rules whose text differs from the one at the last call. */
  readonly askChanged: (texts: ReadonlyMap<string, string>) => void;
}

/** Interval between two status updates, ms: counts change with every node or pod. */
const COALESCE_MS = 1000;

function readyOnly(_: unknown, result: DocumentResult): StatusParts<never> {
  return { conditions: [toCondition("Ready", result)], rest: {}, isNews: () => true };
}

/** Requests while it does not run are ignored: it checks all objects when it starts. */
export function createStatusController<T extends KubeObject & { readonly status?: S }, S extends BaseStatus>(
  options: StatusControllerOptions<T, S>,
): StatusController {
  const { resource, objects, source, decide = readyOnly, events } = options;
  const { isGood = ({ status }) => status === "True", action = `Keep${resource.kind}` } = options;
  const { client, cluster, metrics, log, clock } = options;
  /** `label rule`. */
  const noun = resource.kind.replaceAll(/\B[A-Z]/g, " $&").toLowerCase();
  const said = new ConditionLog({ noun, isGood, log });
  const keyNamed = (name: string): ObjectKey => keyOf(cluster, { metadata: { name } });
  /** The keys of documents in files contain `/`, so they differ from every object name. */
  const files = (): readonly string[] =>
    options.logsFiles ? source.files.map((name) => ruleName("config", name)) : [];
  const asked = createKeySource(() => files().map(keyNamed));
  const logFile = (rule: string, name: string): undefined => {
    said.keep(files());
    const result = source.resultOfFile(name);
    if (result === undefined) return undefined;
    const object = { status: { conditions: said.of(rule) } } as T;
    const { status } = decideStatus(object, decide(object, result, rule), clock.now());
    if (status?.conditions) said.tell(rule, status.conditions);
    return undefined;
  };
  const reconcile = async (
    key: ObjectKey,
    context: { readonly signal: AbortSignal; readonly log: Logger },
  ): Promise<undefined> => {
    const { name } = key;
    const file = documentName(name, "config");
    if (file !== undefined) return logFile(name, file);
    const object = objects.get(key);
    const { uid, resourceVersion, deletionTimestamp } = object?.metadata ?? {};
    if (object === undefined || uid === undefined || resourceVersion === undefined) return undefined;
    const result = source.resultOf(name, object.metadata ?? {});
    if (result === undefined || deletionTimestamp !== undefined) return undefined;
    const { status, patch, news } = decideStatus(
      object,
      decide(object, result, ruleName("cluster", name)),
      clock.now(),
    );
    if (status === undefined) return undefined;
    const body = { metadata: { uid, resourceVersion }, status: patch };
    try {
      const { signal } = context;
      await client.patch(resource, { name }, { type: "merge", body }, { signal, subresource: "status" });
    } catch (error) {
      // A newer version arrives soon, or the object is gone. Its event queues the key again.
      if (isApiError(error, "conflict", "uidMismatch", "notFound")) return undefined;
      throw error;
    }
    for (const one of news) {
      const { type: condition, reason, message } = one;
      const good = isGood(one);
      context.log[good ? "info" : "warn"](noun, { name, condition, reason, message });
      const type = good ? "Normal" : "Warning";
      events.record({ regarding: referenceTo(resource, object), reason, note: message, type, action });
    }
    return undefined;
  };
  const controller = createController({
    name: `${noun.replaceAll(" ", "-").replace(/y$/, "ie")}s`,
    reconcile,
    sources: [watchFor<T>({ informer: objects, map: toSelf(cluster) }), asked],
    queue: { coalesceMs: COALESCE_MS },
    clock,
    log,
    metrics,
  });
  const askRule = (rule: string): void => {
    const name = documentName(rule, "cluster");
    if (name !== undefined) asked.ask([keyNamed(name)]);
    else if (files().includes(rule)) asked.ask([keyNamed(rule)]);
  };
  let known: ReadonlyMap<string, string> = new Map();
  return {
    controller,
    askRule,
    askChanged(texts) {
      for (const [rule, text] of texts) if (known.get(rule) !== text) askRule(rule);
      known = texts;
    },
    askAll() {
      asked.ask(Array.from(objects.list(), (object) => keyOf(cluster, object)));
      asked.ask(files().map(keyNamed));
    },
  };
}
