/** Lists objects for a command, as far as the permissions allow. */
import { isApiError, type KubeObject, type ListOptions, type Resource } from "@berth/kube";
import type { InformerRequest } from "@berth/runtime";
import { pluralOf } from "./left-out.ts";
import type { OneShotRun } from "./run.ts";

export interface Listing<T extends KubeObject>
  extends Pick<ListOptions<T>, "fieldSelector" | "labelSelector" | "metadataOnly" | "namespace" | "project"> {
  readonly resource: Resource<T>;
  /** What follows when the user may not read the resource, as the end of a sentence. Default: none. */
  readonly consequence?: string;
}

type Reading = Pick<OneShotRun, "client" | "leftOut" | "signal">;

/**
 * Calls `take` for each object. Holds one page in memory.
 * @returns false where the server does not have the resource, or forbids the read, which `leftOut` records. Rejects
 *   with every other `ApiError`.
 */
export async function eachObject<T extends KubeObject>(
  { resource, consequence, ...options }: Listing<T>,
  run: Reading,
  take: (object: T) => void | Promise<void>,
): Promise<boolean> {
  const read = async (): Promise<boolean> => {
    for await (const { items } of run.client.pages(resource, { ...options, signal: run.signal }))
      for (const object of items) await take(object);
    return true;
  };
  try {
    return (await unlessForbidden(pluralOf(resource), run, read, consequence)) ?? false;
  } catch (error) {
    if (isApiError(error, "notFound")) return false;
    throw error;
  }
}

/** All objects; `undefined` where `eachObject` returns false. */
export async function listObjects<T extends KubeObject>(
  listing: Listing<T>,
  run: Reading,
): Promise<readonly T[] | undefined> {
  const found: T[] = [];
  const isRead = await eachObject(listing, run, (object) => {
    found.push(object);
  });
  return isRead ? found : undefined;
}

/**
 * All objects, read through an informer of the command, so that a snapshot holds them. `undefined` where the server does
 * not have the resource, or forbids the read, which the command reports at its end. Rejects with every other `ApiError`.
 */
export async function readObjects<T extends KubeObject>(
  request: Omit<InformerRequest<T>, "log"> & { readonly name: string },
  { informers, log }: Pick<OneShotRun, "informers" | "log">,
): Promise<readonly T[] | undefined> {
  const { informer } = informers.informer<T>({ ...request, log });
  const stop = new AbortController();
  const running = informer.start(stop.signal);
  try {
    await informers.settled();
    return informer.synced ? [...informer.list()] : undefined;
  } finally {
    stop.abort();
    await (await running).ended;
  }
}

/** `undefined` when the read is forbidden, which `leftOut` records. @param consequence the end of a sentence. */
export async function unlessForbidden<T>(
  what: string,
  { leftOut }: Pick<OneShotRun, "leftOut">,
  read: () => Promise<T>,
  consequence?: string,
): Promise<T | undefined> {
  try {
    return await read();
  } catch (error) {
    if (!isApiError(error, "forbidden")) throw error;
    leftOut.note(what, error, consequence);
    return undefined;
  }
}
