/** Has the clusters of Cells join: each with the kubeconfig of its Secret. On every replica, as each keeps the caches. */
import { type KubeconfigError, parseKubeconfig, type Secret } from "@berth/kube";
import {
  type ClusterAccess,
  type ClusterName,
  type Component,
  createLoopComponent,
  whenAborted,
} from "@berth/runtime";
import type { Cell } from "../../api/cell.ts";
import { MAX_CELL_ANSWER } from "./cell-objects.ts";
import { leaseOf } from "./knowledge.ts";
import type { Planes } from "./planes.ts";

export interface CellMembersOptions {
  readonly planes: Planes;
  /** Berth's namespace: the Secrets are there. In each cell the Lease, unless the Cell names another one. */
  readonly home: string;
  readonly userAgent: string;
  /** What is known of the connection of a Cell has changed. */
  readonly onChange: (cell: ClusterName) => void;
}

export class CellMembers {
  readonly #options: CellMembersOptions;
  /** Why a Cell is not connected. */
  readonly #problems = new Map<string, string>();
  /** What each was joined with, as text. */
  readonly #joined = new Map<string, string>();
  /** By the name of the Cell: equal for equal credentials. */
  readonly #credentials = new Map<string, string>();
  #changed = Promise.withResolvers<void>();

  constructor(options: CellMembersOptions) {
    this.#options = options;
  }

  problemOf(cell: string): string | undefined {
    return this.#problems.get(cell);
  }

  /** Cells or Secrets have changed. */
  look(): void {
    this.#changed.resolve();
  }

  component(): Component {
    return createLoopComponent({
      name: "cell-members",
      run: async (signal) => {
        const ended = whenAborted(signal);
        while (!signal.aborted) {
          this.#changed = Promise.withResolvers();
          await this.#update();
          await Promise.race([this.#changed.promise, ended]);
        }
      },
    });
  }

  async #update(): Promise<void> {
    const { own, views, cells } = this.#options.planes;
    // A Cell that is not seen may be there. A cluster that left would have to be read again.
    if ([views.cells, views.secrets].some((it) => it.state(own.name) !== "synced")) return;
    const listed = [...views.cells.list(own.name)];
    for (const cell of listed) await this.#follow(cell, listed);
    const names = new Set(listed.map(({ metadata }) => metadata?.name ?? ""));
    for (const name of [...this.#joined.keys(), ...this.#problems.keys()])
      if (!names.has(name)) this.#leave(name as ClusterName, undefined);
    for (const name of this.#credentials.keys())
      if (!cells.has(name as ClusterName)) this.#credentials.delete(name);
  }

  async #follow(cell: Cell, all: readonly Cell[]): Promise<void> {
    const { planes, home } = this.#options;
    const { metadata, spec } = cell;
    const name = (metadata?.name ?? "") as ClusterName;
    if (spec === undefined) return;
    const twin = all.find((it) => it.spec?.uid === spec.uid && isBefore(it, cell));
    if (twin !== undefined)
      return this.#leave(name, `Cell ${twin.metadata?.name} is the same cluster: a cluster has one Cell`);
    if (spec.uid === planes.hub.set.get(planes.hub.name)?.identity)
      return this.#leave(name, "it is the hub: a hub cannot be a cell");
    const secretName = spec.secretRef.name;
    const secret = planes.views.secrets.get({ cluster: planes.own.name, namespace: home, name: secretName });
    if (secret === undefined) return this.#leave(name, `Secret ${home}/${secretName} does not exist`);
    const wanted = JSON.stringify([
      spec.uid,
      spec.identityNamespace,
      spec.namespace,
      secret.data?.["kubeconfig"],
    ]);
    if (this.#joined.get(name) === wanted) return;
    try {
      const access = await this.#accessOf(cell, secret);
      planes.cells.join(name, access);
      this.#joined.set(name, wanted);
      if (this.#problems.delete(name)) this.#options.onChange(name);
    } catch (error) {
      this.#leave(name, (error as KubeconfigError).message);
    }
  }

  async #accessOf({ metadata, spec }: Cell, secret: Secret): Promise<ClusterAccess> {
    const { home, userAgent } = this.#options;
    const name = metadata?.name ?? "";
    const origin = `Secret ${home}/${secret.metadata?.name}`;
    const text = Buffer.from(secret.data?.["kubeconfig"] ?? "", "base64").toString();
    if (text === "") throw new Error(`${origin} has no key kubeconfig`);
    const { connect, fingerprint } = await parseKubeconfig(text, { origin });
    const [other] = [...this.#credentials].find(([of, it]) => of !== name && it === fingerprint) ?? [];
    if (other !== undefined)
      throw new Error(`${origin} has the credential of Cell ${other}: give each its own`);
    this.#credentials.set(name, fingerprint);
    return {
      to: { ...connect, userAgent, maxAnswerBytes: MAX_CELL_ANSWER },
      identity: spec?.uid ?? "",
      ...(spec?.identityNamespace && { identityNamespace: spec.identityNamespace }),
      lease: { namespace: spec?.namespace ?? home, name: leaseOf(name) },
    };
  }

  /** @param problem absent: there is no such Cell. */
  #leave(name: ClusterName, problem: string | undefined): void {
    const isNews = this.#joined.delete(name) || this.#problems.get(name) !== problem;
    this.#problems.delete(name);
    if (problem !== undefined) this.#problems.set(name, problem);
    // The set keeps the end of the membership.
    void this.#options.planes.cells.leave(name);
    if (isNews) this.#options.onChange(name);
  }
}

/** The older one of two Cells stays. */
function isBefore({ metadata: one }: Cell, { metadata: other }: Cell): boolean {
  const rank = (it: typeof one): string => `${it?.creationTimestamp} ${it?.name}`;
  return rank(one) < rank(other);
}
