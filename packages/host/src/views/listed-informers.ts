/** Informers for a command: each reads its objects once, and never hears of a change. */
import { type ApiError, isApiError, type KubeClient, type KubeObject, nameOfResource } from "@berth/kube";
import {
  type Clock,
  type ClusterName,
  contains,
  cover,
  createFedInformer,
  type Feed,
  type InformerRequest,
  type InformerSink,
  type Scope,
  type SharedInformer,
  type SharedInformers,
  scopeOf,
  whenAborted,
} from "@berth/runtime";

export interface ListedInformers extends SharedInformers {
  /** Resolves once all informers that have started hold what there is, or cannot. Rejects with an `ApiError`. */
  settled(): Promise<void>;
}

export interface ListedInformersOptions {
  readonly cluster: ClusterName;
  readonly clock: Clock;
  /** Reads for informers that started together: see `listFrom`. Rejects with what the command cannot go on with. */
  readonly fill: (readers: readonly Reader[]) => Promise<void>;
  /** The server refuses to list these objects. The informer keeps nothing. Called once for each informer. */
  readonly onRefused: (informer: InformerRequest<KubeObject>, error: ApiError) => void;
}

/** One informer, as `fill` sees it. */
export interface Reader {
  readonly asked: InformerRequest<KubeObject>;
  readonly scope: Scope;
  readonly sink: InformerSink<KubeObject>;
  readonly signal: AbortSignal;
  /** Why it keeps nothing. */
  failure?: ApiError;
}

/** Informers that start in one turn of the event loop are filled together. */
export function createListedInformers(options: ListedInformersOptions): ListedInformers {
  let waiting: Reader[] = [];
  let reading: Promise<void> = Promise.resolve();
  const begin = (reader: Reader): void => {
    waiting.push(reader);
    if (waiting.length > 1) return;
    const before = reading;
    reading = (async () => {
      await before;
      await new Promise<void>((resolve) => setImmediate(resolve));
      const readers = waiting;
      waiting = [];
      await options.fill(readers);
      for (const { asked, failure } of readers)
        if (isApiError(failure, "forbidden")) options.onRefused(asked, failure);
    })();
    // The command awaits `settled`.
    reading.catch(() => undefined);
  };
  return {
    informer<T extends KubeObject>(asked: InformerRequest<T>): SharedInformer<T> {
      let reader: Reader | undefined;
      const informer = createFedInformer({ ...asked, ...options }, (sink): Feed => {
        return {
          lastByteAt: undefined,
          async run(signal) {
            // Of the objects of this informer only its own functions know the type.
            reader = { asked, scope: scopeOf(asked.scope ?? {}), sink, signal } as unknown as Reader;
            begin(reader);
            await whenAborted(signal);
          },
        };
      });
      return {
        informer,
        get refused() {
          return isApiError(reader?.failure, "forbidden") ? reader.failure : undefined;
        },
        get isMissing() {
          return isApiError(reader?.failure, "notFound");
        },
      };
    },
    async settled() {
      for (let last: unknown; last !== reading; ) {
        last = reading;
        await reading;
      }
    },
  };
}

/**
 * Fills readers by one list for each resource that includes the others' scopes. Where the server refuses it, each of the
 * others reads for itself.
 */
export function listFrom(client: Pick<KubeClient, "pages">): ListedInformersOptions["fill"] {
  return async (readers) => {
    await Promise.all(groupsOf(readers).map((group) => readAll(group, client)));
  };
}

/** The server has refused what the reader asks for, or does not have it. */
export function failReader(reader: Reader, error: ApiError): void {
  reader.failure = error;
  reader.sink.connection(error);
  if (isApiError(error, "notFound")) reader.asked.onMissing?.();
}

/** Readers of one resource, which ask for whole objects or for metadata. */
function groupsOf(readers: readonly Reader[]): readonly (readonly Reader[])[] {
  const keyOf = ({ asked: { resource, metadataOnly = false } }: Reader): string =>
    JSON.stringify([nameOfResource(resource), resource.version, metadataOnly]);
  return [...Map.groupBy(readers, keyOf).values()];
}

async function readAll(readers: readonly Reader[], client: Pick<KubeClient, "pages">): Promise<void> {
  const served = cover(
    readers.map(({ scope }) => scope),
    () => false,
  );
  const byList = Map.groupBy(readers, ({ scope }) => served.get(scope.text)?.text ?? scope.text);
  await Promise.all(
    byList.entries().map(async ([text, those]) => {
      if (await readOnce(text, those, client)) return;
      const narrower = those.filter(({ scope }) => scope.text !== text);
      const alone = Map.groupBy(narrower, ({ scope }) => scope.text);
      await Promise.all(alone.entries().map(([own, group]) => readOnce(own, group, client)));
    }),
  );
}

/** One list for these readers. @param text of the scope among theirs to list. @returns false where the server refuses. */
async function readOnce(
  text: string,
  readers: readonly Reader[],
  client: Pick<KubeClient, "pages">,
): Promise<boolean> {
  const wide = readers.find(({ scope }) => scope.text === text);
  if (wide === undefined) return true;
  const { resource, metadataOnly = false } = wide.asked;
  const snapshots = readers.map(({ sink }) => sink.beginSnapshot());
  const signal = AbortSignal.any(readers.map((it) => it.signal));
  const take = (object: KubeObject): KubeObject => {
    for (const [index, { scope, sink }] of readers.entries())
      if (scope.text === text || contains(scope, object)) snapshots[index]?.put(sink.project(object));
    return TAKEN;
  };
  try {
    const pages = client.pages<KubeObject>(resource, {
      ...wide.scope.asked,
      metadataOnly,
      signal,
      project: take,
    });
    for await (const _ of pages);
  } catch (error) {
    if (!isApiError(error, "forbidden", "notFound")) throw error;
    for (const reader of readers) failReader(reader, error);
    return isApiError(error, "notFound");
  }
  for (const [index, reader] of readers.entries()) {
    delete reader.failure;
    const snapshot = snapshots[index];
    if (snapshot !== undefined) await reader.sink.replace(snapshot);
  }
  return true;
}

/** What a page holds in place of an object that each reader has taken its part of. */
const TAKEN: KubeObject = {};
