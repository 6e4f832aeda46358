/** Has projects join and leave: those that the Fleet lists, or those of Milo. On every replica, as each keeps the caches. */
import type { KubeClient, KubeObject } from "@berth/kube";
import {
  type ClusterAccess,
  type ClusterName,
  type Component,
  clusterName,
  createLoopComponent,
  type Logger,
  type Uid,
  whenAborted,
} from "@berth/runtime";
import { annotations as keys, projectOfNamespace } from "../../api/keys.ts";
import { controlPlaneOf, MILO, PROJECT_IDENTITY, pathOfProject } from "../../api/milo.ts";
import { nameOfProject } from "../../fleet/document.ts";
import type { HubConnections, ListedProject, Planes } from "./planes.ts";

export interface ProjectMembersOptions {
  readonly planes: Planes;
  readonly projects: NonNullable<HubConnections["projects"]>;
  readonly log: Logger;
}

interface Wanted {
  readonly path: string;
  /** Another one: the project has another connection. */
  readonly connection: object;
  readonly to: () => ClusterAccess["to"];
}

export class ProjectMembers {
  readonly #options: ProjectMembersOptions;
  /** What each has joined with. */
  readonly #joined = new Map<string, { readonly connection: object; readonly identity: Uid | undefined }>();
  /** Connections that lead to the cluster of another project, by the name of theirs. */
  readonly #refused = new Map<string, object>();
  #listed: readonly ListedProject[];
  #changed = Promise.withResolvers<void>();

  constructor(options: ProjectMembersOptions) {
    this.#options = options;
    const { planes, projects } = options;
    this.#listed = "listed" in projects ? projects.listed : [];
    // As long as the process.
    planes.projects.subscribe((of) => this.#meet(of));
    planes.views.discovered?.subscribe({ onChange: () => this.look(), onState: () => this.look() });
  }

  /** Another list is in force. */
  use(listed: readonly ListedProject[]): void {
    this.#listed = listed;
    this.look();
  }

  /** The hub, or what Milo says, may have been read. */
  look(): void {
    this.#changed.resolve();
  }

  component(): Component {
    return createLoopComponent({
      name: "project-members",
      run: async (signal) => {
        const ended = whenAborted(signal);
        while (!signal.aborted) {
          this.#changed = Promise.withResolvers();
          this.#update();
          await Promise.race([this.#changed.promise, ended]);
        }
      },
      note: () => {
        const names = [...this.#refused.keys()];
        return names.length === 0
          ? undefined
          : `projects with the cluster of another one: ${names.join(", ")}: give each its own`;
      },
    });
  }

  #update(): void {
    const { planes, log } = this.#options;
    const { hub, views, projects, projectNamed: named } = planes;
    // The hub says which cluster each project was.
    if (views.hub.namespaces.state(hub.name) !== "synced") return;
    const wanted = this.#wanted();
    if (wanted === undefined) return;
    for (const name of new Set([...this.#joined.keys(), ...this.#refused.keys()])) {
      if (wanted.has(name)) continue;
      log.warn("a project has left: what it has on the hub and in cells stays", { project: name });
      this.#leave(name);
      // One that it kept out may join now.
      this.#refused.clear();
    }
    const pins = pinsOf(views.hub.namespaces.list(hub.name));
    for (const [name, { path, connection, to }] of wanted) {
      if (this.#refused.get(name) === connection) continue;
      const cluster = clusterName(name);
      named.set(name, { cluster, path });
      const before = this.#joined.get(name);
      if (before?.connection === connection) continue;
      const [pin, ...others] = pins.get(name) ?? [];
      const identity = before === undefined && others.length === 0 ? pin : before?.identity;
      this.#joined.set(name, { connection, identity });
      projects.join(cluster, {
        to: to(),
        identityNamespace: PROJECT_IDENTITY,
        ...(identity !== undefined && { identity }),
      });
    }
  }

  /** `undefined`: not known, so nobody joins and nobody leaves. */
  #wanted(): ReadonlyMap<string, Wanted> | undefined {
    const { planes, projects: given } = this.#options;
    if ("listed" in given)
      return new Map(
        this.#listed.map((it) => [nameOfProject(it), { path: it.path, connection: it.to, to: () => it.to }]),
      );
    const { discovered } = planes.views;
    if (discovered?.state(MILO) !== "synced") return undefined;
    const { milo } = given;
    const wanted = new Map<string, Wanted>();
    for (const it of discovered.list(MILO)) {
      const { name = "" } = it.metadata ?? {};
      // It stays until it is gone, whatever is said of it meanwhile.
      const path = pathOfProject(it) ?? planes.projectNamed.get(name)?.path;
      const to = (): KubeClient => milo.under(controlPlaneOf(name), { cluster: name });
      if (path !== undefined) wanted.set(name, { path, connection: milo, to });
    }
    return wanted;
  }

  /** Of two projects that are one cluster, the one stays that the hub knows, or that was seen first. */
  #meet(of: ClusterName): void {
    const { planes, log } = this.#options;
    const { hub, views, projects, projectNamed: named } = planes;
    const uid = projects.get(of)?.identity;
    const ours = this.#joined.get(of);
    if (uid === undefined || ours === undefined || !named.has(of)) return;
    const pins = pinsOf(views.hub.namespaces.list(hub.name));
    const isPinned = (name: string): boolean => pins.get(name)?.has(uid) === true;
    const twins = [...this.#joined.keys()].filter(
      (name) => name !== of && (isPinned(name) || projects.get(clusterName(name))?.identity === uid),
    );
    const twin = twins.find(isPinned) ?? (isPinned(of) ? undefined : twins[0]);
    const refuse = (name: string, other: string): void => {
      log.error("two projects are one cluster: one of them is left out", { project: name, other });
      this.#refused.set(name, this.#joined.get(name)?.connection ?? ours.connection);
      this.#leave(name);
    };
    if (twin !== undefined) refuse(of, twin);
    else for (const name of twins) refuse(name, of);
  }

  #leave(name: string): void {
    const { projects, projectNamed: named } = this.#options.planes;
    named.delete(name);
    this.#joined.delete(name);
    // The set keeps the end of the membership.
    void projects.leave(clusterName(name));
  }
}

/** The clusters that each project has been: a namespace on the hub keeps that for which it was made. */
function pinsOf(namespaces: Iterable<KubeObject>): ReadonlyMap<string, ReadonlySet<Uid>> {
  const pins = new Map<string, Set<Uid>>();
  for (const it of namespaces) {
    const name = projectOfNamespace(it);
    const uid = it.metadata?.annotations?.[keys.projectUid];
    if (name === undefined || uid === undefined) continue;
    pins.set(name, (pins.get(name) ?? new Set()).add(uid));
  }
  return pins;
}
