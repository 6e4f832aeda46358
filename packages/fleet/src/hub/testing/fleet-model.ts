/**
 * A project, a hub and cells as planes, with the real decisions between them. Requests get lost, arrive late, or are not
 * answered. Actors play the cells: they make and delete Instances as their deployments say. A virtual clock.
 *
 * It is long because all reconcilers of a hub are in it, as they share what one process remembers.
 */
import type { KubeObject, Resource } from "@berth/kube";
import { type Cell, cells, type Withdrawal, withdrawalName, withdrawals } from "../../api/cell.ts";
import { finalizers, instanceName, annotations as keys, labels, ordinalOf } from "../../api/keys.ts";
import { createSigner, type Signer } from "../../api/origin.ts";
import { isOwnedBy } from "../../api/owner.ts";
import {
  type CellPlacement,
  formatPlacement,
  hasSlot,
  parsePlacement,
  targetsOf,
} from "../../api/placement.ts";
import type { Seen } from "../../api/seen.ts";
import {
  type DeploymentStatus,
  type Instance,
  instances,
  type WorkloadDeployment,
  workloadDeployments,
} from "../../api/workload.ts";
import { canonicalJson, templateHash } from "../../deployment/template-hash.ts";
import { aTemplate } from "../../deployment/testing/fixtures.ts";
import { decideCarry } from "../../drivers/direct/carry.ts";
import { decideWithdrawal, LATE_MS, strayVerdict } from "../../drivers/direct/withdraw.ts";
import {
  adopted,
  type CellSeen,
  cellWith,
  type Found,
  foundIn,
  isDraining,
  isForgotten,
  mayEnd,
  nameOf,
  uidOf,
} from "../cells/seen.ts";
import { decideCopy } from "../collect/copy.ts";
import { decideFederation } from "../federator/decide.ts";
import { mirrorStatus, ranBefore } from "../mirror/status.ts";
import { type Choice, type ChoiceView, choose, chooseNext } from "../placement/choose.ts";
import { isReadyAs, type MoveFacts } from "../placement/move.ts";
import { decideProjection } from "../projector/decide.ts";
import { isDeleting, recordOf, recordText, type Source, sourceOf, sourceUidOf } from "../source.ts";
import { known, NAMESPACES, Plane, type Request } from "./plane.ts";

for (const resource of [workloadDeployments, instances, cells, withdrawals]) known(resource);

/** What becomes of the requests of one pass. */
export type Fate = "answered" | "unanswered" | "late" | "lost";
export const NAMES = ["w0", "w1"] as const;
export type Name = (typeof NAMES)[number];
const NAMESPACE = "default";
const START_MS = Date.parse("2026-01-01T00:00:00Z");
const realSigner = createSigner(Buffer.alloc(32, 7));
const signatures = new Map<string, string>();
/** The same, faster. */
const signer: Signer = {
  sign(origin, place) {
    const text = JSON.stringify([origin, place]);
    const known = signatures.get(text) ?? realSigner.sign(origin, place);
    signatures.set(text, known);
    return known;
  },
  signRecord: (...record) => realSigner.signRecord(...record),
};
const there = <T>(value: T | undefined): Seen<T> =>
  value === undefined ? { is: "none" } : { is: "there", value };
const unknown = { is: "unknown", because: "it is not read" } as const;

const hasRun = (source: WorkloadDeployment): boolean =>
  ranBefore(source) || recordOf(source, signer) !== undefined;

interface Waiting {
  readonly plane: Plane;
  readonly request: Request;
  readonly untilMs: number;
}

/** A status that a cell wrote, by its number in `location.name`. */
interface Written {
  readonly status: DeploymentStatus;
  readonly spec: string;
}

export class FleetModel {
  readonly project: Plane = new Plane("project");
  readonly hub: Plane = new Plane("hub");
  /** Where Berth's own kinds are. */
  readonly own: Plane;
  readonly cells: readonly Plane[] = ["a", "b"].map((name) => new Plane(name));
  readonly violations: string[] = [];
  nowMs: number = START_MS;
  #fate: Fate = "answered";
  #hubNamespace = "";
  #queue: Waiting[] = [];
  #statuses: Written[] = [];
  readonly #heardMs = new Map<string, number>();
  /** Deployments of cells that a restore brought back, by uid. Berth cannot prevent what they do at once. */
  readonly #zombies = new Set<string>();
  /** Sources that were not live when the hub lost what it knew of them. */
  readonly #excused = new Set<string>();
  readonly #unremembered = new Set<string>();
  /** Cells of which the operator said that they never come back. */
  readonly #forgotten = new Set<string>();
  #isProjectRestored = false;
  #isReleasing = false;
  // The memory of the process.
  #leaderSinceMs = START_MS - LATE_MS;
  #proven = new Set<string>();
  #provenGone = new Set<string>();
  #unanswered = new Map<string, number>();
  #goneSince = new Map<string, number>();
  /** When a move was seen first, by its source and epoch. */
  #moving = new Map<string, number>();
  #mustSee = new Map<string, readonly [Plane, number]>();
  /** Uids that an uncached read did not find. */
  #absent = new Set<string>();
  #doubts = new Set<string>();
  /** Generations that an uncached read has shown, by the uid of their source. */
  #confirmed = new Map<string, number>();

  /**
   * @param isSelf Berth's own kinds are on the hub.
   * @param aheadMs how far the clock of Berth is ahead of those of the API servers.
   */
  constructor(isSelf: boolean, aheadMs: number = 0) {
    this.nowMs += aheadMs;
    this.#leaderSinceMs += aheadMs;
    this.own = isSelf ? this.hub : new Plane("own");
    for (const plane of this.planes) plane.onWrite = (...change) => this.#check(plane, ...change);
    const namespace = { apiVersion: "v1", kind: "Namespace" };
    this.project.take({
      do: "create",
      resource: NAMESPACES,
      body: { ...namespace, metadata: { name: NAMESPACE } },
    });
    this.#hubNamespace = `ns-${this.project.now(NAMESPACES)[0]?.metadata?.uid}`;
    for (const { name } of this.cells) this.addCell(name);
    for (const plane of this.planes) plane.probe();
    // Of a Cell that is in no backup, Berth could know nothing.
    this.own.oldest = this.own.version;
    this.project.oldest = this.project.version;
  }

  get planes(): readonly Plane[] {
    return [...new Set([this.project, this.hub, this.own, ...this.cells])];
  }

  // Users and operators.

  create(name: Name, min: number): void {
    const body: WorkloadDeployment = {
      kind: "WorkloadDeployment",
      metadata: { name, namespace: NAMESPACE },
      spec: {
        workloadRef: { name: "w", uid: "uid-w" },
        placementName: "us",
        cityCode: "DFW",
        template: aTemplate("app:0"),
        scaleSettings: { minReplicas: min },
      },
    };
    this.project.take({ do: "create", resource: workloadDeployments, body });
  }

  change(name: Name, min: number, image: string): void {
    const seen = this.project.get(workloadDeployments, NAMESPACE, name);
    const body = { spec: { template: aTemplate(image), scaleSettings: { minReplicas: min } } };
    if (seen !== undefined) this.project.take({ do: "patch", resource: workloadDeployments, seen, body });
  }

  remove(name: Name): void {
    const seen = this.project.get(workloadDeployments, NAMESPACE, name);
    if (seen !== undefined) this.project.take({ do: "delete", resource: workloadDeployments, seen });
  }

  removeOnHub(name: Name): void {
    const seen = this.hub.get(workloadDeployments, this.#hubNamespace, name);
    if (seen !== undefined) this.hub.take({ do: "delete", resource: workloadDeployments, seen });
  }

  stripOnHub(name: Name): void {
    const seen = this.hub.get(workloadDeployments, this.#hubNamespace, name);
    if (seen === undefined) return;
    this.hub.strip(workloadDeployments, seen);
    this.#loseUnshown();
  }

  removeHubNamespace(): void {
    const seen = this.hub.get(NAMESPACES, "", this.#hubNamespace);
    if (seen === undefined) return;
    const finalized = { ...seen, metadata: { ...seen.metadata, finalizers: ["kubernetes"] } };
    this.hub.take({ do: "patch", resource: NAMESPACES, seen, body: { metadata: finalized.metadata } });
    const present = this.hub.get(NAMESPACES, "", this.#hubNamespace);
    if (present === undefined) return;
    this.hub.take({ do: "delete", resource: NAMESPACES, seen: present });
    this.hub.endNamespace(present);
  }

  addCell(name: string): void {
    const plane = this.cells.find((it) => it.name === name);
    const body: Cell = {
      kind: "Cell",
      metadata: { name, finalizers: [finalizers.cell] },
      spec: { city: "DFW", secretRef: { name }, uid: plane?.uid ?? "" },
    };
    this.own.take({ do: "create", resource: cells, body });
  }

  forget(name: string): void {
    const seen = this.own.get(cells, "", name);
    if (seen === undefined) return;
    this.#forgotten.add(name);
    this.own.take({ do: "patch", resource: cells, seen, body: { spec: { forgotten: true } } });
  }

  /** All that Berth reports as orphaned. */
  decideOrphans(name: Name, how: "adopt" | "withdraw"): void {
    if (!this.own.isSynced || !this.hub.isSynced || !this.project.isSynced) return;
    for (const found of this.#found(name)) {
      const { cell, deployment, origin } = found;
      const view = {
        found,
        hubDeployment: this.#onHub(name),
        withdrawals: this.#withdrawalsOf(name),
        source:
          this.#wished(name)?.metadata?.uid === origin.sourceUid ? ("live" as const) : ("gone" as const),
      };
      const seen = this.own.get(cells, "", nameOf(cell));
      if (seen === undefined || strayVerdict(view) !== "orphaned") continue;
      const { namespace = "" } = deployment.metadata ?? {};
      const id = { namespace, name, sourceUid: origin.sourceUid, epoch: origin.epoch };
      if (how === "adopt")
        this.own.take({ do: "patch", resource: cells, seen, body: { spec: { adopt: [id] } } });
      else {
        const spec = { cell: nameOf(cell), cellUid: uidOf(cell), ...id, start: origin.start };
        const body = { kind: "Withdrawal", metadata: { name: withdrawalName(spec) }, spec };
        this.own.take({ do: "create", resource: withdrawals, body });
      }
    }
  }

  drain(name: string, drain: boolean): void {
    const seen = this.own.get(cells, "", name);
    if (seen !== undefined) this.own.take({ do: "patch", resource: cells, seen, body: { spec: { drain } } });
  }

  removeCell(name: string): void {
    const seen = this.own.get(cells, "", name);
    if (seen !== undefined) this.own.take({ do: "delete", resource: cells, seen });
  }

  restore(plane: Plane, changes: number): void {
    const before = new Map(plane.now(workloadDeployments).map((it) => [it.metadata?.uid, it]));
    plane.restore(changes);
    if (plane === this.project || plane === this.hub) this.#loseUnshown();
    if (plane === this.project) {
      this.#isProjectRestored = true;
      this.#excuse(
        (uid) =>
          !this.#isKept(uid) && this.hub.now(workloadDeployments).every((it) => sourceUidOf(it) !== uid),
      );
    }
    for (const it of plane.now(workloadDeployments)) {
      const { uid = "", annotations } = it.metadata ?? {};
      if (!this.cells.includes(plane)) continue;
      const past = before.get(uid);
      const isHeldBefore = past?.metadata?.annotations?.[keys.hold] !== undefined;
      if (past === undefined || isDeleting(past) || (isHeldBefore && annotations?.[keys.hold] === undefined))
        this.#zombies.add(uid);
    }
    if (plane === this.hub || plane === this.own) {
      const known = new Set(this.own.now(cells).map(({ spec }) => spec?.uid));
      // Without its Cell, nothing says that a cell may have what ran before.
      this.#excuse((uid, cell) => !this.#isLive(uid) || !known.has(cell.uid));
    }
  }

  /** What was placed and has shown no status yet: now only the cell knows of it. */
  #loseUnshown(): void {
    for (const it of this.project.now(workloadDeployments))
      if (!hasRun(it)) this.#unremembered.add(it.metadata?.uid ?? "");
  }

  /** Nothing says any more that they should go. Berth reports them, and a person decides. */
  #excuse(isLost: (sourceUid: string, cell: Plane) => boolean): void {
    for (const cell of this.cells)
      for (const { objects } of cell.states)
        for (const it of objects.values()) {
          const uid = it.metadata?.annotations?.[keys.sourceUid] ?? "";
          if (isLost(uid, cell)) this.#excused.add(uid);
        }
  }

  // Time, and what happens between planes.

  advance(ms: number): void {
    this.nowMs += ms;
    this.#queue = this.#queue.filter(({ untilMs }) => untilMs > this.nowMs);
  }

  deliver(at: number): void {
    const [waiting] = this.#queue.splice(at % Math.max(this.#queue.length, 1), 1);
    if (waiting?.plane.isReachable) waiting.plane.take(waiting.request);
    else if (waiting !== undefined) this.#queue.push(waiting);
  }

  /** Somebody edits the labels of the namespace on the hub, or corrects them. */
  relabel(upstream: string = NAMESPACE): void {
    const seen = this.hub.get(NAMESPACES, "", this.#hubNamespace);
    const body = { metadata: { labels: { [labels.upstreamNamespace]: upstream } } };
    if (seen !== undefined) this.hub.take({ do: "patch", resource: NAMESPACES, seen, body });
  }

  /**
   * Another process leads. What the one before has sent may still arrive.
   *
   * @param lag how many states its watches are behind. Absent: it reads all anew.
   */
  restart(lag?: number): void {
    this.#leaderSinceMs = this.nowMs;
    for (const map of [this.#unanswered, this.#goneSince, this.#moving, this.#mustSee, this.#confirmed])
      map.clear();
    for (const set of [this.#proven, this.#provenGone, this.#absent, this.#doubts]) set.clear();
    for (const plane of this.planes) {
      if (lag === undefined) {
        plane.isSynced = false;
        plane.probe();
      } else plane.lag(lag);
    }
  }

  /** Where the hub has it. */
  cellOf(name: Name): string | undefined {
    const placed = this.hub.get(workloadDeployments, this.#hubNamespace, name);
    return parsePlacement(placed?.metadata?.annotations?.[keys.placement])?.cell;
  }

  /** One thing that the cell does by itself. `false`: nothing is left to do. */
  cellStep(plane: Plane): boolean {
    for (const it of plane.now(instances))
      if (isDeleting(it)) {
        plane.take({ do: "patch", resource: instances, seen: it, body: { metadata: { finalizers: [] } } });
        return true;
      }
    return plane.now(workloadDeployments).some((it) => this.#cellWork(plane, it));
  }

  #cellWork(plane: Plane, deployment: WorkloadDeployment): boolean {
    const { metadata, spec, status } = deployment;
    const { name = "", namespace = "", uid = "", annotations = {} } = metadata ?? {};
    const own = plane.now(instances).filter((it) => isOwnedBy(it, deployment));
    const patch = (body: object): boolean => {
      plane.take({ do: "patch", resource: workloadDeployments, seen: deployment, body });
      return true;
    };
    if (isDeleting(deployment) && own.length === 0) return patch({ metadata: { finalizers: [] } });
    if (!isDeleting(deployment) && (metadata?.finalizers ?? []).length === 0)
      return patch({ metadata: { finalizers: [finalizers.workload] } });
    const start = Number(annotations[keys.ordinalStart]);
    const min =
      isDeleting(deployment) || annotations[keys.hold] !== undefined
        ? 0
        : (spec?.scaleSettings.minReplicas ?? 0);
    const wanted = Array.from({ length: min }, (_, at) => instanceName(name, start + at));
    const hash = templateHash(spec?.template ?? aTemplate("none"));
    const wrong = own.find(
      (it) => !wanted.includes(it.metadata?.name ?? "") || it.spec?.controller?.templateHash !== hash,
    );
    if (wrong !== undefined) return plane.take({ do: "delete", resource: instances, seen: wrong });
    const missing = wanted.find((it) => own.every((one) => one.metadata?.name !== it));
    if (missing !== undefined && plane.get(instances, namespace, missing) === undefined)
      return plane.take({
        do: "create",
        resource: instances,
        body: {
          kind: "Instance",
          metadata: {
            name: missing,
            namespace,
            finalizers: [finalizers.instance],
            ownerReferences: [{ apiVersion: "v1", kind: "WorkloadDeployment", name, uid, controller: true }],
          },
          spec: { ...spec?.template.spec, controller: { templateHash: hash, schedulingGates: [] } },
        } as KubeObject,
      });
    const next: DeploymentStatus = {
      replicas: own.length,
      readyReplicas: own.length,
      currentReplicas: own.length,
      updatedReplicas: own.length,
      desiredReplicas: min,
      ...(metadata?.generation !== undefined && { observedGeneration: metadata.generation }),
      observedSourceGeneration: Number(annotations[keys.sourceGeneration]),
    };
    const { location: _location, ...present } = status ?? {};
    if (canonicalJson(present) === canonicalJson(next)) return false;
    this.#statuses.push({ status: next, spec: canonicalJson(spec ?? {}) });
    const numbered = { ...next, location: { namespace: uid, name: String(this.#statuses.length - 1) } };
    return plane.take({
      do: "status",
      resource: workloadDeployments,
      seen: deployment,
      body: { status: numbered },
    });
  }

  // Berth.

  /** All take up what there is, and do one thing each. The requests of one of them arrive late. */
  round(name: Name, late?: Pass): void {
    for (const what of PASSES) {
      for (const plane of this.planes) plane.see();
      this.pass(what, name, what === late ? "late" : "answered");
    }
    for (const plane of this.cells) this.cellStep(plane);
  }

  /** One reconciler, for one name. */
  pass(what: Pass, name: Name, fate: Fate = "answered"): void {
    this.#fate = fate;
    if (!this.#hasSeenOwnWrites(name)) return;
    if (what === "federate") this.#federate(name);
    else if (what === "carry") this.#carry(name);
    else if (what === "withdraw") this.#withdraw(name);
    else if (what === "mirror") this.#mirror(name);
    else if (what === "collect") this.#collect(name);
    else if (what === "project") this.#projectInstances(name);
    else this.#endCells();
  }

  #federate(name: Name): void {
    const { project, hub, own } = this;
    if (!project.isSynced) return;
    const deployment = project.seen(workloadDeployments).find((it) => it.metadata?.name === name);
    const hubDeployment = this.#onHub(name);
    const other = hubDeployment && sourceUidOf(hubDeployment);
    const isOtherAbsent =
      other === undefined ||
      other === deployment?.metadata?.uid ||
      this.#isAbsent(project, workloadDeployments, NAMESPACE, name, other);
    if (deployment === undefined) {
      if (
        hub.isSynced &&
        hubDeployment !== undefined &&
        !isDeleting(hubDeployment) &&
        this.#source(hubDeployment) === "gone"
      )
        this.#send(hub, name, { do: "delete", resource: workloadDeployments, seen: hubDeployment });
      return;
    }
    const { uid = "", generation = 0 } = deployment.metadata ?? {};
    const view = {
      project: this.#projectSeen,
      deployment,
      namespace: project.seen(NAMESPACES)[0],
      hubNamespace: hub.isSynced && own.isSynced ? there(this.#seenHubNamespace) : unknown,
      hubDeployment: hub.isSynced && own.isSynced ? there(hubDeployment) : unknown,
      hubSinceMs: hub.isSynced ? undefined : START_MS,
      choose: () => this.#choose(name, uid, hasRun(deployment), undefined, recordOf(deployment, signer)),
      isProvenGone: this.#provenGone.has(uid),
      isOtherAbsent,
      isDoubted: this.#doubts.has(uid),
      isConfirmed: false,
      cells: this.#cellsSeen(),
      withdrawals: this.#withdrawalsOf(name),
      nowMs: this.nowMs,
      signer,
    };
    let decision = decideFederation(view);
    const present = project.get(workloadDeployments, NAMESPACE, name)?.metadata;
    if (
      decision.confirm &&
      project.isReachable &&
      present?.uid === uid &&
      present.generation === generation
    ) {
      this.#doubts.delete(uid);
      this.#confirmed.set(uid, generation);
      decision = decideFederation({ ...view, isConfirmed: true });
    }
    const { mark, createNamespace, create, patch, withdraw, status } = decision;
    const resource = workloadDeployments;
    if (mark !== undefined)
      return void this.#send(project, name, {
        do: "patch",
        resource,
        seen: deployment,
        body: { metadata: mark },
      });
    if (
      createNamespace !== undefined &&
      !this.#send(hub, name, { do: "create", resource: NAMESPACES, body: createNamespace })
    )
      return;
    if (create !== undefined && !this.#send(hub, name, { do: "create", resource, body: create })) return;
    if (
      patch !== undefined &&
      hubDeployment !== undefined &&
      !this.#send(hub, name, { do: "patch", resource, seen: hubDeployment, body: patch })
    )
      return;
    if (decision.delete !== undefined)
      this.#send(hub, name, { do: "delete", resource, seen: decision.delete });
    for (const spec of withdraw ?? []) this.#createWithdrawal(name, spec);
    if (status !== undefined)
      this.#send(project, name, { do: "status", resource, seen: deployment, body: { status } });
  }

  #carry(name: Name): void {
    const { hub, own } = this;
    const deployment = this.#onHub(name);
    if (!hub.isSynced || !own.isSynced || deployment === undefined) return;
    const sourceUid = sourceUidOf(deployment) ?? "";
    const source = this.#source(deployment);
    const placement = parsePlacement(deployment.metadata?.annotations?.[keys.placement]);
    const upstream = this.project.seen(workloadDeployments).find((it) => it.metadata?.uid === sourceUid);
    const ran = ranBefore(deployment) || (upstream !== undefined && hasRun(upstream));
    const epochIn = (cellUid: string): number | undefined =>
      targetsOf(placement).find(({ uid }) => uid === cellUid)?.epoch;
    const proofOf = (cellUid: string): string => `${deployment.metadata?.uid}/${cellUid}/${epochIn(cellUid)}`;
    const decision = decideCarry({
      deployment,
      copies: hub.seen(instances).filter((it) => isOwnedBy(it, deployment)),
      source,
      wantedGeneration: source === "live" ? upstream?.metadata?.generation : undefined,
      confirmedGeneration: this.#confirmed.get(sourceUid),
      recorded: upstream && recordText(upstream, signer),
      ranBefore: ran,
      cells: this.#cellsSeen(),
      found: this.#found(name),
      foreign: new Set(),
      namespace: this.#seenHubNamespace ?? {},
      namespaceIn: (cellUid) =>
        this.#cellPlane(cellUid)
          .seen(NAMESPACES)
          .find((it) => it.metadata?.name === this.#hubNamespace),
      withdrawals: this.#withdrawalsOf(name),
      proven: new Set(this.cells.map(({ uid }) => uid).filter((uid) => this.#proven.has(proofOf(uid)))),
      isLatePossible: (cellUid) =>
        this.nowMs - this.#leaderSinceMs < LATE_MS ||
        this.nowMs - (this.#unanswered.get(`${name}/${cellUid}`) ?? Number.NEGATIVE_INFINITY) < LATE_MS,
      choose: () =>
        choose(this.#choiceOf(name, sourceUid, ran, placement, upstream && recordOf(upstream, signer))),
      move: this.#moveFacts(name, sourceUid, placement, deployment),
      hub: hub.uid,
      signer,
    });
    const resource = workloadDeployments;
    const { place, create, patch, prove, withdraw, deleteCopies, release } = decision;
    if (decision.confirmSource) this.#doubts.add(sourceUid);
    if (place !== undefined) {
      if (place.reason === "Moved") this.#checkMove(name, deployment, place.placement);
      const body = {
        metadata: {
          labels: { [labels.cell]: place.placement.cell },
          annotations: { [keys.placement]: formatPlacement(place.placement) },
        },
      };
      return void this.#send(hub, name, { do: "patch", resource, seen: deployment, body });
    }
    if (create !== undefined) {
      const plane = this.#cellPlane(create.cellUid);
      const { namespace: body } = create;
      if (body !== undefined && !this.#send(plane, name, { do: "create", resource: NAMESPACES, body }))
        return;
      if (!this.#send(plane, name, { do: "create", resource, body: create.deployment })) return;
    }
    for (const { found, body } of patch ?? [])
      if (
        !this.#send(this.#cellPlane(uidOf(found.cell)), name, {
          do: "patch",
          resource,
          seen: found.deployment,
          body,
        })
      )
        return;
    for (const found of decision.delete ?? []) {
      this.#checkDeletion(found, "carry");
      this.#send(this.#cellPlane(uidOf(found.cell)), name, {
        do: "delete",
        resource,
        seen: found.deployment,
      });
    }
    for (const cell of prove ?? []) {
      const plane = this.#cellPlane(uidOf(cell));
      const present = plane.get(workloadDeployments, this.#hubNamespace, name);
      if (
        plane.isReachable &&
        (present === undefined || present.metadata?.annotations?.[keys.sourceUid] !== sourceUid)
      )
        this.#proven.add(proofOf(plane.uid));
    }
    for (const spec of withdraw ?? []) this.#createWithdrawal(name, spec);
    for (const seen of deleteCopies ?? []) this.#send(hub, name, { do: "delete", resource: instances, seen });
    if (release === undefined) return;
    const left = (deployment.metadata?.finalizers ?? []).filter((it) => it !== finalizers.direct);
    const body = { metadata: { finalizers: left } };
    this.#isReleasing = release.isProven;
    const isDone = this.#send(hub, name, { do: "patch", resource, seen: deployment, body });
    this.#isReleasing = false;
    if (isDone && release.isProven) this.#provenGone.add(sourceUid);
  }

  #withdraw(name: Name): void {
    if (!this.own.isSynced || !this.hub.isSynced) return;
    for (const withdrawal of this.#withdrawalsOf(name)) {
      const { spec, metadata } = withdrawal;
      const id = metadata?.uid ?? "";
      const cell = cellWith(this.#cellsSeen(), spec?.cellUid ?? "");
      const plane = this.#cellPlane(spec?.cellUid ?? "");
      if (cell?.state.is !== "synced") this.#goneSince.delete(id);
      const since = this.#goneSince.get(id);
      const decision = decideWithdrawal({
        withdrawal,
        cell,
        found: this.#found(name),
        hubDeployment: this.#onHub(name),
        source: this.#sourceOfUid(spec?.sourceUid ?? "", name),
        goneForMs: since === undefined ? undefined : this.nowMs - since,
      });
      if (decision.do === "delete") {
        this.#goneSince.delete(id);
        this.#checkDeletion(decision.found, "withdraw");
        this.#send(plane, name, {
          do: "delete",
          resource: workloadDeployments,
          seen: decision.found.deployment,
        });
      } else if (decision.do === "prove" && plane.isReachable) {
        const present = plane.get(workloadDeployments, this.#hubNamespace, name);
        if (present?.metadata?.annotations?.[keys.sourceUid] === spec?.sourceUid) continue;
        this.#goneSince.set(id, this.nowMs);
      } else if (decision.do === "end")
        this.#send(this.own, name, { do: "delete", resource: withdrawals, seen: withdrawal });
    }
  }

  #mirror(name: Name): void {
    const to = this.#onHub(name);
    if (!this.hub.isSynced || to === undefined) return;
    const placement = parsePlacement(to.metadata?.annotations?.[keys.placement]);
    const found = this.#found(name).find(
      (it) =>
        uidOf(it.cell) === placement?.uid &&
        it.origin.epoch === placement.epoch &&
        it.origin.sourceUid === sourceUidOf(to) &&
        !isDeleting(it.deployment),
    );
    const cell = cellWith(this.#cellsSeen(), placement?.uid ?? "");
    const isHeard = cell?.state.is === "synced";
    const status = mirrorStatus({
      to,
      generation: Number(to.metadata?.annotations?.[keys.sourceGeneration]),
      from: found?.deployment,
      stale: isHeard
        ? undefined
        : {
            reason: "CellUnreachable",
            message: "silent",
            sinceMs: this.#heardMs.get(placement?.uid ?? "") ?? START_MS,
          },
      own: isHeard ? { Stale: undefined } : {},
      nowMs: this.nowMs,
    });
    if (status !== undefined)
      this.#send(this.hub, name, { do: "status", resource: workloadDeployments, seen: to, body: { status } });
  }

  #collect(name: Name): void {
    const { hub } = this;
    const hubDeployment = this.#onHub(name);
    if (!hub.isSynced || hubDeployment === undefined) return;
    const copies = hub.seen(instances);
    const isOf = (it: Instance): boolean => it.metadata?.name?.startsWith(`${name}-`) === true;
    for (const instance of new Set(
      [...this.cells.flatMap((it) => it.seen(instances)), ...copies]
        .filter(isOf)
        .map((it) => it.metadata?.name ?? ""),
    )) {
      const named = (it: Instance): boolean => it.metadata?.name === instance;
      const copy = copies.find(named);
      const uid = this.#holderOf(instance, hubDeployment, copy) ?? "";
      const cell = cellWith(this.#cellsSeen(), uid);
      const plane = this.#cellPlane(uid);
      const found = this.#found(name).find((it) => uidOf(it.cell) === uid);
      const inCell = plane.seen(instances);
      const copyView = {
        hubDeployment,
        namespaceLabels: this.#seenHubNamespace?.metadata?.labels ?? {},
        found,
        instance:
          cell?.state.is === "synced" &&
          (inCell.some(named) || this.#isAbsentOf(plane, copy, copy && sourceUidOf(copy)))
            ? there(inCell.find(named))
            : unknown,
        copy,
      };
      const decision = decideCopy(copyView);
      const { spec } = plane.now(instances).find(named) ?? {};
      this.#sendInstance(hub, name, copy, decision.read ? decideCopy({ ...copyView, spec }) : decision);
    }
  }

  #projectInstances(name: Name): void {
    const { project, hub } = this;
    if (!project.isSynced) return;
    const hubDeployment = this.#onHub(name);
    const copies = hub.seen(instances);
    const projections = project.seen(instances);
    const isOf = (it: Instance): boolean => it.metadata?.name?.startsWith(`${name}-`) === true;
    for (const instance of new Set(
      [...copies, ...projections].filter(isOf).map((it) => it.metadata?.name ?? ""),
    )) {
      const named = (it: Instance): boolean => it.metadata?.name === instance;
      const projection = projections.find(named);
      const uid = this.#holderOf(instance, hubDeployment, undefined);
      const cell = cellWith(this.#cellsSeen(), uid ?? "");
      const inCell = this.#cellPlane(uid ?? "").seen(instances);
      const decision = decideProjection({
        deployment: project.seen(workloadDeployments).find((it) => it.metadata?.name === name),
        copy:
          hub.isSynced &&
          (copies.some(named) ||
            this.#isAbsentOf(
              hub,
              projection && { metadata: { namespace: this.#hubNamespace, name: instance } },
              projection?.metadata?.labels?.[labels.hubUid],
            ))
            ? there(copies.find(named))
            : unknown,
        hubDeployment: hub.isSynced ? there(hubDeployment) : unknown,
        inCell: uid === undefined || cell?.state.is === "synced" ? there(inCell.find(named)) : unknown,
        projection,
      });
      this.#sendInstance(project, name, projection, decision);
    }
  }

  #sendInstance(
    plane: Plane,
    name: Name,
    seen: Instance | undefined,
    decision: ReturnType<typeof decideCopy>,
  ): void {
    const resource = instances;
    if (decision.create !== undefined)
      this.#send(plane, name, { do: "create", resource, body: decision.create });
    if (seen === undefined) return;
    if (decision.delete !== undefined) this.#send(plane, name, { do: "delete", resource, seen });
    if (decision.patch !== undefined)
      this.#send(plane, name, { do: "patch", resource, seen, body: decision.patch });
    else if (decision.status !== undefined)
      this.#send(plane, name, { do: "status", resource, seen, body: { status: decision.status } });
  }

  #endCells(): void {
    if (!this.own.isSynced || !this.hub.isSynced) return;
    for (const seen of this.#cellsSeen()) {
      const uid = uidOf(seen);
      const placed = this.hub
        .seen(workloadDeployments)
        .flatMap((it) => targetsOf(parsePlacement(it.metadata?.annotations?.[keys.placement])))
        .some((it) => it.uid === uid);
      const withdrawn = this.own.seen(withdrawals).some(({ spec }) => spec?.cellUid === uid);
      const hasDeployments = this.#cellPlane(uid).seen(workloadDeployments).length > 0;
      if (mayEnd({ seen, isNamed: placed || withdrawn, hasDeployments }))
        this.#send(this.own, "w0", {
          do: "patch",
          resource: cells,
          seen: seen.cell,
          body: { metadata: { finalizers: [] } },
        });
    }
  }

  // What it knows.

  get #projectSeen() {
    return { path: "acme/web", uid: this.project.uid, isSynced: this.project.isSynced };
  }

  get #seenHubNamespace(): KubeObject | undefined {
    return this.hub.seen(NAMESPACES).find((it) => it.metadata?.name === this.#hubNamespace);
  }

  #onHub(name: Name): WorkloadDeployment | undefined {
    return this.hub
      .seen(workloadDeployments)
      .find((it) => it.metadata?.name === name && it.metadata.namespace === this.#hubNamespace);
  }

  #cellPlane(uid: string): Plane {
    return this.cells.find((it) => it.uid === uid) ?? new Plane("none");
  }

  #cellsSeen(): readonly CellSeen[] {
    return this.own.seen(cells).map((cell) => {
      const plane = this.#cellPlane(cell.spec?.uid ?? "");
      if (plane.isSynced) this.#heardMs.set(plane.uid, this.nowMs);
      const assigned = this.hub
        .seen(workloadDeployments)
        .filter((it) => parsePlacement(it.metadata?.annotations?.[keys.placement])?.uid === plane.uid);
      return {
        cell,
        state: plane.isSynced
          ? { is: "synced" as const }
          : { is: "away" as const, reason: "CellUnreachable" as const, message: "silent" },
        hasApis: true,
        isAccepting: true,
        isFull: false,
        assigned: assigned.reduce((sum, it) => sum + (it.spec?.scaleSettings.minReplicas ?? 0), 0),
      };
    });
  }

  #found(name: Name): readonly Found[] {
    return this.#cellsSeen()
      .filter(({ state }) => state.is === "synced")
      .flatMap((cell) =>
        this.#cellPlane(uidOf(cell))
          .seen(workloadDeployments)
          .filter((it) => it.metadata?.name === name)
          .flatMap((it) => foundIn(cell, it, { hub: this.hub.uid, signer }) ?? []),
      )
      .map((it) => adopted(it, this.#onHub(name), this.#wished(name)));
  }

  #wished(name: Name): WorkloadDeployment | undefined {
    return this.project.seen(workloadDeployments).find((it) => it.metadata?.name === name);
  }

  #withdrawalsOf(name: Name): readonly Withdrawal[] {
    return this.own.seen(withdrawals).filter(({ spec }) => spec?.name === name);
  }

  /** The uid of the cell that an Instance is of. `undefined`: none has its ordinal. */
  #holderOf(
    instance: string,
    deployment: WorkloadDeployment | undefined,
    copy: Instance | undefined,
  ): string | undefined {
    const placement = parsePlacement(deployment?.metadata?.annotations?.[keys.placement]);
    const target = targetsOf(placement).find((it) => hasSlot(it, ordinalOf(instance)));
    return target?.uid ?? (copy && (placement?.uid ?? copy.metadata?.annotations?.[keys.cellUid]));
  }

  #moveFacts(
    name: Name,
    sourceUid: string,
    placement: CellPlacement | undefined,
    deployment: WorkloadDeployment,
  ): MoveFacts {
    const { next } = placement ?? {};
    const id = JSON.stringify([sourceUid, next]);
    if (next !== undefined && !this.#moving.has(id)) this.#moving.set(id, this.nowMs);
    const plane = this.#cellPlane(next?.uid ?? "");
    const present = plane.get(workloadDeployments, this.#hubNamespace, name);
    return {
      choose: (from) =>
        chooseNext({ ...this.#choiceOf(name, sourceUid, true, from, undefined), placement: from }),
      mayBegin: () => true,
      isConfirmed: plane.isReachable && present !== undefined && isReadyAs(deployment, present),
      forMs: this.nowMs - (this.#moving.get(id) ?? this.nowMs),
      timeoutMs: 600_000,
      restsForMs: 0,
      isUnconfirmed: false,
    };
  }

  #choose(
    name: Name,
    sourceUid: string,
    ran: boolean,
    placement: CellPlacement | undefined,
    recorded: CellPlacement | undefined,
  ): Choice {
    return choose(this.#choiceOf(name, sourceUid, ran, placement, recorded));
  }

  #choiceOf(
    name: Name,
    sourceUid: string,
    ran: boolean,
    placement: CellPlacement | undefined,
    recorded: CellPlacement | undefined,
  ): ChoiceView {
    return {
      city: "DFW",
      sourceUid,
      placement,
      recorded,
      ranBefore: ran,
      cells: this.#cellsSeen(),
      found: this.#found(name),
      withdrawals: this.#withdrawalsOf(name),
    };
  }

  #source(deployment: WorkloadDeployment): Source {
    return this.#sourceOfUid(sourceUidOf(deployment) ?? "", (deployment.metadata?.name ?? "w0") as Name);
  }

  #sourceOfUid(sourceUid: string, name: Name): Source {
    const named = this.#seenHubNamespace?.metadata?.labels?.[labels.upstreamNamespace];
    const namespace = this.project.seen(NAMESPACES).find((it) => it.metadata?.name === named);
    return sourceOf({
      sourceUid,
      projectUid: this.project.uid,
      project: this.#projectSeen,
      isOfNamespace: `ns-${namespace?.metadata?.uid}` === this.#hubNamespace,
      deployment: this.project
        .seen(workloadDeployments)
        .find((it) => it.metadata?.name === name && it.metadata.namespace === named),
      isAbsenceProven: this.#absent.has(sourceUid),
    });
  }

  /** An uncached read. `true`: it did not find this uid, now or before. */
  #isAbsent(plane: Plane, resource: Resource, namespace: string, name: string, uid: string): boolean {
    if (plane.isReachable && plane.get(resource, namespace, name)?.metadata?.uid !== uid)
      this.#absent.add(uid);
    return this.#absent.has(uid);
  }

  /** The same for an Instance. `true` also where nothing follows from it. */
  #isAbsentOf(plane: Plane, of: KubeObject | undefined, uid: string | undefined): boolean {
    const { namespace = "", name = "" } = of?.metadata ?? {};
    return of === undefined || uid === undefined || this.#isAbsent(plane, instances, namespace, name, uid);
  }

  #createWithdrawal(name: Name, spec: NonNullable<Withdrawal["spec"]>): void {
    const body: Withdrawal = { kind: "Withdrawal", metadata: { name: withdrawalName(spec) }, spec };
    this.#send(this.own, name, { do: "create", resource: withdrawals, body });
  }

  /** `true`: it was done, and Berth knows. */
  #send(plane: Plane, name: Name, request: Request): boolean {
    const isCreation = request.do === "create" && this.cells.includes(plane);
    const fate = plane.isReachable ? this.#fate : this.#fate === "lost" ? "lost" : "late";
    if (fate !== "answered" && isCreation) this.#unanswered.set(`${name}/${plane.uid}`, this.nowMs);
    if (fate === "late") this.#queue.push({ plane, request, untilMs: this.nowMs + LATE_MS });
    if (fate === "late" || fate === "lost") return false;
    const isDone = plane.take(request);
    if (isDone && fate === "answered") this.#mustSee.set(`${name}/${plane.name}`, [plane, plane.version]);
    return isDone && fate === "answered";
  }

  #hasSeenOwnWrites(name: Name): boolean {
    return this.planes.every((plane) => {
      const [, version = 0] = this.#mustSee.get(`${name}/${plane.name}`) ?? [];
      return plane.seenVersion >= version || !plane.isSynced;
    });
  }

  // What must hold.

  /** Also while it is being deleted. */
  #isKept(sourceUid: string): boolean {
    return this.project.now(workloadDeployments).some((it) => it.metadata?.uid === sourceUid);
  }

  #isLive(sourceUid: string): boolean {
    return this.project
      .now(workloadDeployments)
      .some((it) => it.metadata?.uid === sourceUid && !isDeleting(it));
  }

  #checkDeletion({ origin, cell, deployment }: Found, by: string): void {
    if (this.#isProjectRestored || !this.#isLive(origin.sourceUid)) return;
    // The hub itself says that it is elsewhere.
    const stored = this.hub.now(workloadDeployments).find((it) => sourceUidOf(it) === origin.sourceUid);
    const { leaving, epoch = 0 } = parsePlacement(stored?.metadata?.annotations?.[keys.placement]) ?? {};
    if (leaving?.uid === uidOf(cell) && leaving.epoch >= origin.epoch) return;
    // It had left this cell, whose backup brought it back. A process whose watch of the hub is behind takes that for the move.
    if (epoch > origin.epoch && deployment.metadata?.annotations?.[keys.hold] !== undefined) return;
    this.violations.push(`${by} deletes epoch ${origin.epoch} of live ${origin.sourceUid} in ${uidOf(cell)}`);
  }

  /** A cell may lose a deployment only when all of it runs in another one. */
  #checkMove(name: Name, deployment: WorkloadDeployment, { uid }: CellPlacement): void {
    const wanted = deployment.spec?.scaleSettings.minReplicas ?? 0;
    const hash = templateHash(deployment.spec?.template ?? aTemplate("none"));
    const ready = this.#cellPlane(uid)
      .now(instances)
      .filter((it) => it.metadata?.name?.startsWith(`${name}-`) && !isDeleting(it))
      .filter((it) => it.spec?.controller?.templateHash === hash).length;
    if (ready < wanted) this.violations.push(`${name} leaves its cell with ${ready} of ${wanted} elsewhere`);
  }

  #check(
    plane: Plane,
    resource: Resource,
    before: KubeObject | undefined,
    after: KubeObject | undefined,
  ): void {
    if (plane === this.hub && before?.kind === "WorkloadDeployment" && after === undefined) {
      // A backup of the project has taken the wish away, and then its record on the hub went.
      const uid = sourceUidOf(before) ?? "";
      if (this.#isProjectRestored && !this.#isKept(uid) && !this.#isReleasing) this.#excused.add(uid);
    }
    if (this.cells.includes(plane) && resource === workloadDeployments) this.#checkSpec(before, after);
    if (this.cells.includes(plane) && resource === instances && before === undefined && after !== undefined)
      this.#checkOwners(plane, after);
    if (
      (plane === this.hub || plane === this.project) &&
      resource === workloadDeployments &&
      after !== undefined
    )
      this.#checkStatus(plane, before, after);
  }

  /** A hub that was restored must not bring back what the project wanted before. */
  #checkSpec(before: WorkloadDeployment | undefined, after: WorkloadDeployment | undefined): void {
    const [had, has] = [before, after].map((it) =>
      Number(it?.metadata?.annotations?.[keys.sourceGeneration]),
    );
    if (this.#isProjectRestored || had === undefined || has === undefined || !(has < had)) return;
    this.violations.push(`carry brings generation ${has} to a cell that has ${had}`);
  }

  #checkOwners(plane: Plane, made: KubeObject): void {
    const { name = "", namespace = "" } = made.metadata ?? {};
    for (const other of this.cells) {
      const twin = other === plane ? undefined : other.get(instances, namespace, name);
      if (twin !== undefined && !this.#isBeyond(other, twin) && !this.#isBeyond(plane, made))
        this.violations.push(`${name} lives in ${other.name} and ${plane.name}`);
    }
  }

  /** No program could prevent that it runs: a person gave its cell up, or backups brought it back. */
  #isBeyond(plane: Plane, instance: KubeObject): boolean {
    const [owner] = instance.metadata?.ownerReferences ?? [];
    const deployment = plane.now(workloadDeployments).find((it) => it.metadata?.uid === owner?.uid);
    const sourceUid = deployment?.metadata?.annotations?.[keys.sourceUid] ?? "";
    return (
      this.#forgotten.has(plane.name) ||
      this.#zombies.has(owner?.uid ?? "") ||
      this.#unremembered.has(sourceUid) ||
      this.#excused.has(sourceUid)
    );
  }

  #checkStatus(plane: Plane, before: WorkloadDeployment | undefined, after: WorkloadDeployment): void {
    const { status, metadata, spec } = after;
    if (status === undefined || canonicalJson(status) === canonicalJson(before?.status ?? {})) return;
    const written = this.#statuses[Number(status.location?.name ?? Number.NaN)];
    const said = `${plane.name} says of ${metadata?.name}`;
    if (written === undefined) {
      if (before?.status?.location !== undefined || status.replicas !== 0)
        this.violations.push(`${said} what no cell has said`);
      return;
    }
    if (status.readyReplicas !== written.status.readyReplicas || status.replicas !== written.status.replicas)
      this.violations.push(`${said} ${status.readyReplicas}, its cell ${written.status.readyReplicas}`);
    const isNews = status.observedGeneration !== before?.status?.observedGeneration;
    if (plane === this.project && isNews && status.observedGeneration === metadata?.generation)
      if (written.spec !== canonicalJson(spec ?? {}))
        this.violations.push(`${said} that it has the present spec`);
  }

  /** All faults end, and everybody does what is left to do. */
  settle(): void {
    for (const plane of this.planes) plane.isReachable = true;
    while (this.#queue.length > 0) this.deliver(0);
    for (const { name } of this.cells) this.addCell(name);
    this.relabel();
    let quiet = 0;
    for (let round = 0; round < 200 && quiet < 4; round += 1) {
      const before = this.planes.map(({ version }) => version).join();
      for (const plane of this.planes) plane.probe();
      this.#leaveOneOpen();
      for (const name of NAMES)
        for (const what of PASSES) {
          for (const plane of this.planes) plane.see();
          this.pass(what, name);
        }
      for (const plane of this.cells) for (let at = 0; at < 100 && this.cellStep(plane); at += 1);
      for (const { name } of this.cells) this.addCell(name);
      this.advance(60_000);
      quiet = before === this.planes.map(({ version }) => version).join() ? quiet + 1 : 0;
    }
    if (quiet < 4) this.violations.push("it never rests");
    this.#checkEnd();
  }

  /** An operator ends the drains when no cell takes anything. */
  #leaveOneOpen(): void {
    const isOpen = (it: CellSeen): boolean => !isDraining(it) && !isForgotten(it) && !isDeleting(it.cell);
    const seen = this.#cellsSeen();
    if (!seen.some(isOpen)) for (const it of seen.filter(isDraining)) this.drain(nameOf(it), false);
  }

  #checkEnd(): void {
    const fault = (text: string): unknown => this.violations.push(`in the end ${text}`);
    for (const name of NAMES) {
      const source = this.project.get(workloadDeployments, NAMESPACE, name);
      const inCells = this.#found(name).filter((it) => !isForgotten(it.cell));
      const hubDeployment = this.#onHub(name);
      const runs = inCells.filter((it) => it.deployment.metadata?.annotations?.[keys.hold] === undefined);
      const ours = runs.filter((it) => it.origin.sourceUid === source?.metadata?.uid);
      for (const found of inCells) {
        const uid = found.deployment.metadata?.uid ?? "";
        if (found.origin.sourceUid === source?.metadata?.uid) continue;
        const isKnown =
          this.#zombies.has(uid) ||
          this.#excused.has(found.origin.sourceUid) ||
          this.#unremembered.has(found.origin.sourceUid) ||
          this.#forgotten.has(nameOf(found.cell));
        const view = {
          found,
          hubDeployment,
          withdrawals: this.#withdrawalsOf(name),
          source: "gone" as const,
        };
        if (!isKnown || strayVerdict(view) !== "orphaned") fault(`${name} is left in ${uidOf(found.cell)}`);
      }
      const hasProjections = this.project
        .now(instances)
        .filter((it) => it.metadata?.name?.startsWith(`${name}-`));
      if (source === undefined) {
        if (hubDeployment !== undefined) fault(`the hub keeps ${name}`);
        if (hasProjections.length > 0) fault(`the project keeps Instances of ${name}`);
        continue;
      }
      if (isDeleting(source)) fault(`${name} is never gone`);
      const min = source.spec?.scaleSettings.minReplicas ?? 0;
      // What a person has to look at first may hold all ordinals, or the name in each cell.
      const isBlocked = inCells.some((it) => it.origin.sourceUid !== source.metadata?.uid);
      if (ours.length === 0 && isBlocked) continue;
      if (ours.length !== 1) fault(`${name} is wanted ${ours.length} times`);
      const others = this.#cellsSeen().filter(
        (it) =>
          !isDraining(it) &&
          !isForgotten(it) &&
          !isDeleting(it.cell) &&
          inCells.every(({ cell }) => uidOf(cell) !== uidOf(it)),
      );
      if (ours.some(({ cell }) => isDraining(cell)) && others.length > 0)
        fault(`${name} has not left a cell that is drained`);
      if (hasProjections.length !== min)
        fault(`the project sees ${hasProjections.length} of ${min} of ${name}`);
      const { status, metadata } = source;
      if (
        status?.readyReplicas !== min ||
        status.unheard !== undefined ||
        status.observedGeneration !== metadata?.generation
      )
        fault(`${name} says ${JSON.stringify(status)} and not ${min} of generation ${metadata?.generation}`);
    }
    for (const { spec } of this.own.now(withdrawals)) {
      // A later placement of the same source is at its name, and a person has to say what becomes of that first.
      const isHeldUp = NAMES.flatMap((name) => this.#found(name)).some(
        ({ cell, origin }) =>
          uidOf(cell) === spec?.cellUid &&
          origin.sourceUid === spec.sourceUid &&
          origin.epoch > (spec.epoch ?? Number.POSITIVE_INFINITY),
      );
      if (!isHeldUp) fault(`a Withdrawal of ${spec?.name} is left`);
    }
  }
}

export const PASSES = ["federate", "carry", "withdraw", "mirror", "collect", "project", "cells"] as const;
export type Pass = (typeof PASSES)[number];
