/** Stores the declared taints and cordons of an installation in a ConfigMap; see `DeclaredPlaces`. */
import { createHash } from "node:crypto";
import { baseName, type OneShotRun, unlessForbidden } from "@berth/host";
import { type ConfigMap, configMaps, isApiError, type KubeClient } from "@berth/kube";
import { berthAs } from "../api/group.ts";
import { type PlaceStore } from "./declared-places.ts";
import { holdsPods, type MarkId } from "./mark.ts";

export interface PlaceConfigMap {
  readonly namespace: string;
  readonly installation: string;
}

const TIMEOUT_MS = 10_000;

export function placeConfigMapName(installation: string): string {
  return `${baseName(berthAs(installation))}-declared-places`;
}

/** Only adds entries, each with its own key, so two processes cannot delete each other's entries. */
export function createPlaceStore(
  client: Pick<KubeClient, "get" | "patch" | "create">,
  { namespace, installation }: PlaceConfigMap,
): PlaceStore {
  const of = { namespace, name: placeConfigMapName(installation) };
  return {
    async load(signal) {
      try {
        const { data } = await client.get(configMaps, of, { signal, timeoutMs: TIMEOUT_MS });
        return Object.values(data ?? {});
      } catch (error) {
        if (isApiError(error, "notFound")) return [];
        throw error;
      }
    },
    async add(ids, signal) {
      const data = Object.fromEntries(ids.map((id) => [keyOf(id), id]));
      const options = { signal, timeoutMs: TIMEOUT_MS };
      const patch = (): Promise<ConfigMap> =>
        client.patch(configMaps, of, { type: "merge", body: { data } }, options);
      try {
        await patch();
      } catch (error) {
        if (!isApiError(error, "notFound")) throw error;
        const labels = { "app.kubernetes.io/managed-by": "berth" };
        await client
          .create(configMaps, { metadata: { ...of, labels }, data }, options)
          .catch((failure: unknown) => {
            if (isApiError(failure, "alreadyExists")) return patch();
            throw failure;
          });
      }
    },
  };
}

/** A hash, because ConfigMap keys allow no `/` or `:` and are shorter than taint keys. */
function keyOf(id: MarkId): string {
  return createHash("sha256").update(id).digest("hex");
}

/** The declared places, for a command. Empty without the permission; the command then notes the consequence. */
export async function readDeclaredPlaces(
  session: OneShotRun & { readonly stateNamespace: () => Promise<{ readonly name: string }> },
): Promise<ReadonlySet<MarkId>> {
  const { client, installation, signal } = session;
  const { name: namespace } = await session.stateNamespace();
  const store = createPlaceStore(client, { namespace, installation });
  const consequence = "recorded taints of rules that are not in force count as forged";
  const what = `the ConfigMap ${namespace}/${placeConfigMapName(installation)}`;
  const ids = await unlessForbidden(
    what,
    session,
    () => session.ask(what, async () => [...(await store.load(signal))]),
    consequence,
  );
  return new Set([...(ids ?? [])].filter(holdsPods));
}
