/** The objects of one kind in one cluster, as a view shows them. */
import type { KubeObject } from "@berth/kube";
import {
  type Change,
  type ClusterName,
  type FleetView,
  findCondition,
  type ViewHandler,
} from "@berth/runtime";
import type { Cell, Withdrawal } from "../../../api/cell.ts";
import { hubNamespaceOf } from "../../../api/keys.ts";
import { parsePlacement } from "../../../api/placement.ts";
import type { WorkloadDeployment } from "../../../api/workload.ts";
import { by } from "../../reads.ts";
import { hubBy } from "../planes.ts";

const nameOf = ({ metadata }: KubeObject): string => `${metadata?.namespace ?? ""}/${metadata?.name}`;

/** By the cell of a placement or a Withdrawal, by namespace, and by the owner. */
const VALUES: Readonly<Record<string, (of: KubeObject) => string | undefined>> = {
  [hubBy.cellUid]: (of) =>
    (of as Withdrawal).spec?.cellUid ??
    (of as Cell).spec?.uid ??
    parsePlacement(of.metadata?.annotations?.["berth.dev/placement"])?.uid,
  [hubBy.move]: ({ metadata }) =>
    parsePlacement(metadata?.annotations?.["berth.dev/placement"])?.next && "next",
  [by.city]: (of) => (of as Cell).spec?.city ?? (of as WorkloadDeployment).spec?.cityCode,
  [hubBy.unread]: (of) => {
    const { spec, status } = of as WorkloadDeployment;
    return findCondition(status?.conditions, "Stale")?.reason === "CellsNotRead" ? spec?.cityCode : undefined;
  },
  [by.namespace]: ({ metadata }) => metadata?.namespace,
  [by.deployment]: ({ metadata }) => metadata?.ownerReferences?.[0]?.uid,
  [hubBy.hubNamespace]: ({ metadata }) => hubNamespaceOf(metadata?.uid ?? ""),
};

export class Objects<T extends KubeObject> {
  readonly #of: ClusterName;
  readonly #objects = new Map<string, T>();
  readonly #handlers: ViewHandler<T>[] = [];
  /** `false`: the view is not synced. */
  isRead = true;

  readonly view: FleetView<T> = {
    get: ({ cluster, namespace, name }) =>
      cluster === this.#of ? this.#objects.get(`${namespace}/${name}`) : undefined,
    list: (of) => (of === this.#of ? this.#objects.values() : []),
    having: (path) => (this.#objects.has(path) ? [this.#of] : []),
    state: () => (this.isRead ? "synced" : "unsynced"),
    byIndex: (index, value) => [...this.#objects.values()].filter((it) => VALUES[index]?.(it) === value),
    subscribe: (handler) => {
      this.#handlers.push(handler);
      return { [Symbol.dispose]: () => undefined };
    },
  };

  constructor(of: ClusterName) {
    this.#of = of;
  }

  get size(): number {
    return this.#objects.size;
  }

  set(object: T): void {
    const old = this.#objects.get(nameOf(object));
    this.#objects.set(nameOf(object), object);
    this.#tell(old ? { type: "updated", old, object } : { type: "added", object, initial: false });
  }

  delete(object: T): void {
    this.#objects.delete(nameOf(object));
    this.#tell({ type: "deleted", object });
  }

  /** A list shows these: its view is read, and tells of it as a whole and of each. */
  read(...objects: readonly T[]): void {
    this.isRead = true;
    for (const object of objects) this.#objects.set(nameOf(object), object);
    for (const handler of this.#handlers) handler.onState?.(this.#of);
    for (const object of objects) this.#tell({ type: "added", object, initial: true });
  }

  #tell(change: Change<T>): void {
    for (const handler of this.#handlers) handler.onChange?.(change, this.#of);
  }
}
