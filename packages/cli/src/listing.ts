/** Whole lists for one command, from whatever may be read. */
import { isApiError, type KubeObject, type ListOptions, type Resource } from "@berth/kube";
import type { Session } from "./session.ts";
import type { Surroundings } from "./surroundings.ts";

export interface Listing<T extends KubeObject>
  extends Pick<ListOptions<T>, "fieldSelector" | "labelSelector" | "metadataOnly" | "namespace" | "project"> {
  readonly resource: Resource<T>;
  /** What follows where it may not be read, as the end of a sentence. Default none is named. */
  readonly consequence?: string;
}

export interface ListingSurroundings {
  readonly session: Pick<Session, "client" | "leftOut">;
  readonly surroundings: Pick<Surroundings, "stderr" | "signal">;
}

/**
 * One object after the other, a page held at a time.
 * @returns false where the server does not have the resource, or it may not be read, which the session notes. Rejects
 *   with every other `ApiError`.
 */
export async function eachObject<T extends KubeObject>(
  { resource, consequence, ...options }: Listing<T>,
  { session: { client, leftOut }, surroundings: { signal } }: ListingSurroundings,
  take: (object: T) => void | Promise<void>,
): Promise<boolean> {
  try {
    for await (const { items } of client.pages(resource, { ...options, signal }))
      for (const object of items) await take(object);
    return true;
  } catch (error) {
    if (isApiError(error, "notFound")) return false;
    if (!isApiError(error, "forbidden")) throw error;
    leftOut.note(kindsOf(resource), error, consequence);
    return false;
  }
}

/** All of them; `undefined` where `eachObject` answers false. */
export async function listObjects<T extends KubeObject>(
  listing: Listing<T>,
  around: ListingSurroundings,
): Promise<readonly T[] | undefined> {
  const found: T[] = [];
  const isRead = await eachObject(listing, around, (object) => {
    found.push(object);
  });
  return isRead ? found : undefined;
}

/** `ArchitecturePolicies`; of a kind whose name is not known `workerpools`. */
function kindsOf({ kind, plural }: Resource): string {
  return kind === "" ? plural : `${kind.replace(/y$/, "ie")}s`;
}
