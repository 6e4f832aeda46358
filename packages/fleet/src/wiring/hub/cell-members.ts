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
import { leaseOfCell } from "../../fleet/settings.ts";
import { MAX_CELL_ANSWER } from "./cell-objects.ts";
import type { Planes } from "./planes.ts";

export interface CellMembersOptions {
  readonly planes: Planes;
  /** Berth's namespace: the Secrets are there. In each cell the Lease, unless the Cell names another one. */
  readonly home: string;
  readonly userAgent: string;
  /** What is known of the connection of a Cell has changed. */
  readonly onChange: (cell: ClusterName) => void;
}

/** Why a Cell is not connected. */
export interface CellProblem {
  readonly reason: "SecretInvalid" | "DuplicateIdentity";
  readonly message: string;
}

interface CellAccess {
  readonly access: ClusterAccess;
  /** Equal for equal credentials. */
  readonly fingerprint: string;
  /** Wall clock, ms. `undefined`: the credential does not say. */
  readonly expiresMs: number | undefined;
}

export class CellMembers {
  readonly #options: CellMembersOptions;
  /** Why a Cell is not connected. */
  readonly #problems = new Map<string, CellProblem>();
  /** What each was joined with, also as text. */
  readonly #joined = new Map<string, CellAccess & { readonly text: string }>();
  #changed = Promise.withResolvers<void>();

  constructor(options: CellMembersOptions) {
    this.#options = options;
  }

  problemOf(cell: string): CellProblem | undefined {
    return this.#problems.get(cell);
  }

  /** When the credential of a Cell ends, wall clock ms. `undefined`: it does not say, or the Cell is not connected. */
  expiresMsOf(cell: string): number | undefined {
    return this.#joined.get(cell)?.expiresMs;
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
    const { own, hub, views } = this.#options.planes;
    // A Cell that is not seen may be there. A cluster that left would have to be read again.
    if ([views.cells, views.secrets].some((it) => it.state(own.name) !== "synced")) return;
    // Else a Cell that is the hub would be read as a cell until it is known.
    if (hub.set.get(hub.name)?.identity === undefined) return;
    const listed = [...views.cells.list(own.name)].sort(byAge);
    const names = new Set(listed.map(({ metadata }) => metadata?.name ?? ""));
    // First: a Cell may have the cluster and the credential of one that has gone.
    for (const name of [...this.#joined.keys(), ...this.#problems.keys()])
      if (!names.has(name)) this.#leave(name as ClusterName, undefined);
    const credentials = new Map<string, string>();
    for (const cell of listed) await this.#follow(cell, listed, credentials);
  }

  /** @param credentials of older Cells, as they are now: their names, by fingerprint. */
  async #follow(cell: Cell, all: readonly Cell[], credentials: Map<string, string>): Promise<void> {
    const { planes, home } = this.#options;
    const { metadata, spec } = cell;
    const name = (metadata?.name ?? "") as ClusterName;
    if (spec === undefined) return;
    const role = roleOf(cell, all, planes);
    if (role !== undefined) return this.#leave(name, { reason: "DuplicateIdentity", message: role });
    const invalid = (message: string): void => this.#leave(name, { reason: "SecretInvalid", message });
    const secretName = spec.secretRef.name;
    const secret = planes.views.secrets.get({ cluster: planes.own.name, namespace: home, name: secretName });
    if (secret === undefined) return invalid(`Secret ${home}/${secretName} does not exist`);
    const { uid, identityNamespace, namespace } = spec;
    const text = JSON.stringify([uid, identityNamespace, namespace, secret.data?.["kubeconfig"]]);
    const joined = this.#joined.get(name);
    try {
      const isSame = joined?.text === text;
      const { access, fingerprint, expiresMs } = isSame ? joined : await this.#accessOf(cell, secret);
      const other = credentials.get(fingerprint);
      if (other !== undefined)
        return invalid(`Secret ${home}/${secretName} has the credential of Cell ${other}: give each its own`);
      credentials.set(fingerprint, name);
      if (isSame) return;
      planes.cells.join(name, access);
      this.#joined.set(name, { text, access, fingerprint, expiresMs });
      this.#problems.delete(name);
      this.#options.onChange(name);
    } catch (error) {
      invalid((error as KubeconfigError).message);
    }
  }

  async #accessOf({ metadata, spec }: Cell, secret: Secret): Promise<CellAccess> {
    const { home, userAgent } = this.#options;
    const name = metadata?.name ?? "";
    const origin = `Secret ${home}/${secret.metadata?.name}`;
    const text = Buffer.from(secret.data?.["kubeconfig"] ?? "", "base64").toString();
    if (text === "") throw new Error(`${origin} has no key kubeconfig`);
    const { connect, fingerprint, expiresMs } = await parseKubeconfig(text, { origin });
    const access = {
      to: { ...connect, userAgent, maxAnswerBytes: MAX_CELL_ANSWER },
      identity: spec?.uid ?? "",
      ...(spec?.identityNamespace && { identityNamespace: spec.identityNamespace }),
      lease: { namespace: spec?.namespace ?? home, name: leaseOfCell(name) },
    };
    return { access, fingerprint, expiresMs };
  }

  /** @param problem absent: there is no such Cell. */
  #leave(name: ClusterName, problem: CellProblem | undefined): void {
    const isNews = this.#joined.delete(name) || this.#problems.get(name)?.message !== problem?.message;
    this.#problems.delete(name);
    if (problem !== undefined) this.#problems.set(name, problem);
    // The set keeps the end of the membership.
    void this.#options.planes.cells.leave(name);
    if (isNews) this.#options.onChange(name);
  }
}

/** The older one of two Cells stays. */
function byAge({ metadata: one }: Cell, { metadata: other }: Cell): number {
  const rank = (it: typeof one): string => `${it?.creationTimestamp} ${it?.name}`;
  return rank(one) < rank(other) ? -1 : 1;
}

/** An API server has one role: a cell is no hub, no project, and one Cell only. The text says what it is already. */
function roleOf(
  cell: Cell,
  byAge: readonly Cell[],
  { hub, projects, projectNamed }: Planes,
): string | undefined {
  const uid = cell.spec?.uid;
  const older = byAge.slice(0, byAge.indexOf(cell)).find((it) => it.spec?.uid === uid);
  if (older !== undefined) return `Cell ${older.metadata?.name} is the same cluster: a cluster has one Cell`;
  if (uid === hub.set.get(hub.name)?.identity) return "it is the hub: a hub cannot be a cell";
  const project = [...projectNamed.values()].find(({ cluster }) => projects.get(cluster)?.identity === uid);
  return project && `it is the control plane of project ${project.path}: a project cannot be a cell`;
}
