import { ApiError, type ApiFailure, type Node } from "@berth/kube";
import type { EventInput, ObjectKey } from "@berth/runtime";
import { clusterName } from "@berth/runtime";
import type { NodePatch } from "../patch.ts";
import type { NodeApi } from "../writer.ts";
import { FieldLedger } from "./field-ledger.ts";
import { editNode, patchNode } from "./world.ts";

/** One node and what was sent for it. The cache shows a version only when told: what an informer does in its time. */
export interface OneNode {
  readonly key: ObjectKey;
  readonly api: NodeApi;
  readonly cache: { get(key: ObjectKey): Node | undefined };
  readonly patches: readonly NodePatch[];
  readonly reads: number;
  readonly events: { readonly list: EventInput[]; record(event: EventInput): void };
  /** The node as it is now. */
  readonly node: Node;
  /** Lets the cache catch up. */
  observe(): void;
  /** Another writer's change; the cache catches up with it. */
  edit(edit: Parameters<typeof editNode>[1]): void;
  /** Another writer's change that the cache does not show yet. */
  editUnseen(edit: Parameters<typeof editNode>[1]): void;
  remove(): void;
  /** Answers a patch with a failure as long as this says so. */
  refuse: ((patch: NodePatch) => ApiFailure | undefined) | undefined;
}

export function oneNode(start: Node): OneNode {
  let node: Node | undefined = start;
  let seen: Node | undefined = start;
  let reads = 0;
  const name = start.metadata?.name ?? "";
  const patches: NodePatch[] = [];
  const list: EventInput[] = [];
  const fail = (failure: ApiFailure): never => {
    throw new ApiError(failure, { verb: "patch", resource: "nodes", name });
  };
  const current = (): Node => node ?? fail({ kind: "notFound" });
  const ledger = new FieldLedger();
  ledger.note("kubelet", undefined, start);
  const store = (manager: string, next: Node): Node => {
    ledger.note(manager, node, next);
    node = next;
    return next;
  };
  const world: OneNode = {
    key: { cluster: clusterName("test"), namespace: "", name },
    cache: { get: () => seen },
    patches,
    events: { list, record: (event) => void list.push(event) },
    refuse: undefined,
    get reads() {
      return reads;
    },
    get node() {
      return current();
    },
    observe: () => void (seen = node),
    edit(edit) {
      world.editUnseen(edit);
      seen = node;
    },
    editUnseen: (edit) => void store("somebody", editNode(current(), edit)),
    remove: () => void (node = seen = undefined),
    api: {
      patch: async (_name, patch, _signal, versionOnly) => {
        patches.push(patch);
        const refusal = world.refuse?.(patch);
        if (refusal !== undefined) fail(refusal);
        const { uid, resourceVersion } = current().metadata ?? {};
        if (resourceVersion !== patch.metadata.resourceVersion) fail({ kind: "conflict", causes: [] });
        if (uid !== patch.metadata.uid) fail({ kind: "uidMismatch" });
        const stored = store("berth", patchNode(current(), { ...patch, metadata: withoutGuards(patch) }));
        return versionOnly
          ? { metadata: { resourceVersion: stored.metadata?.resourceVersion ?? "" } }
          : stored;
      },
      read: async () => {
        reads += 1;
        return { ...current(), metadata: { ...current().metadata, managedFields: ledger.entries } };
      },
    },
  };
  return world;
}

function withoutGuards({ metadata }: NodePatch): object {
  const { uid: _uid, resourceVersion: _version, ...rest } = metadata;
  return rest;
}
