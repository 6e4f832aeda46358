import { describe, expect, it } from "vitest";
import {
  bindingOf,
  type MemberCluster,
  memberClusters,
  type PropagationPolicy,
  propagationPolicies,
  type ResourceBinding,
  resourceBindings,
} from "../../api/karmada.ts";
import { finalizers, instanceName, annotations as keys, labels } from "../../api/keys.ts";
import { isOwnedBy } from "../../api/owner.ts";
import { seenOf } from "../../api/seen.ts";
import {
  type Instance,
  instances,
  type WorkloadDeployment,
  workloadDeployments,
} from "../../api/workload.ts";
import { aCondition, aDeployment, aTemplate, NOW_MS } from "../../deployment/testing/fixtures.ts";
import type { Corrections } from "../../hub/collect/corrections.ts";
import { decideWriteBack } from "../../hub/collect/write-back.ts";
import { decideFederation } from "../../hub/federator/decide.ts";
import { decideProjection } from "../../hub/projector/decide.ts";
import { signer } from "../../hub/testing/fixtures.ts";
import { known, NAMESPACES, Plane, type Request } from "../../hub/testing/plane.ts";
import { type ConformanceStage, type ProgressOptions, requirements } from "../testing/conformance.ts";
import { carriedOf } from "./carried.ts";
import { decidePolicy, policyOf } from "./policy.ts";

for (const resource of [
  workloadDeployments,
  instances,
  propagationPolicies,
  resourceBindings,
  memberClusters,
])
  known(resource);

const NAME = "w0";
const NAMESPACE = "default";
const ROUNDS = 12;

/** The decisions of `karmada` between planes, with a Karmada and cells that are played: without threads, sockets or waits. */
class KarmadaStage implements ConformanceStage {
  readonly violations: string[] = [];
  readonly #project = new Plane("project");
  readonly #hub = new Plane("hub");
  readonly #cells = ["a", "b"].map((name) => new Plane(name));
  /** What Karmada could not delete: the cell did not answer. */
  readonly #pending = new Map<Plane, string>();
  readonly #namespace: string;

  constructor() {
    const make = (plane: Plane, resource: Request["resource"], body: object): unknown =>
      plane.take({ do: "create", resource, body: { ...body, kind: resource.kind } });
    make(this.#project, NAMESPACES, { metadata: { name: NAMESPACE } });
    this.#namespace = `ns-${this.#project.now(NAMESPACES)[0]?.metadata?.uid}`;
    for (const { name } of this.#cells)
      make(this.#hub, memberClusters, { metadata: { name, labels: { [labels.city]: "DFW" } } });
    for (const cell of this.#cells) make(cell, NAMESPACES, { metadata: { name: this.#namespace } });
    for (const { name } of this.#cells) this.#say(name, true);
  }

  async create(min: number): Promise<void> {
    const body = {
      ...aDeployment({ name: NAME, min, template: aTemplate("app:0") }),
      kind: "WorkloadDeployment",
    };
    const metadata = { name: NAME, namespace: NAMESPACE };
    this.#project.take({ do: "create", resource: workloadDeployments, body: { ...body, metadata } });
  }

  async change(min: number, image: string): Promise<void> {
    const body = { spec: { template: aTemplate(image), scaleSettings: { minReplicas: min } } };
    this.#patch(this.#project, this.#source, body);
  }

  async remove(): Promise<void> {
    this.#delete(this.#project, workloadDeployments, this.#source);
  }

  async removeOnHub(): Promise<void> {
    this.#delete(this.#hub, workloadDeployments, this.#onHub);
  }

  async setAway(cell: string, isAway: boolean): Promise<void> {
    for (const plane of this.#cells.filter(({ name }) => name === cell)) plane.isReachable = !isAway;
    this.#say(cell, !isAway);
  }

  async drain(): Promise<void> {
    throw new Error("Karmada moves");
  }

  /** All that is remembered is in objects. */
  async restart(): Promise<void> {}

  async progress({ areAnswersLost = false, rounds = ROUNDS }: ProgressOptions = {}): Promise<void> {
    // Without answers, creations are tried again: the API server has each once.
    for (let round = 0; round < rounds * (areAnswersLost ? 2 : 1); round += 1) this.#round();
  }

  async settle(): Promise<void> {
    for (const { name } of this.#cells) await this.setAway(name, false);
    const version = (): string => [this.#project, this.#hub, ...this.#cells].map((it) => it.version).join();
    for (let round = 0, before = ""; before !== version(); round += 1) {
      before = version();
      if (round > 100) throw new Error("it never rests");
      this.#round();
    }
  }

  async look(): ReturnType<ConformanceStage["look"]> {
    return {
      inCells: this.#cells.flatMap((cell) =>
        cell.now(workloadDeployments).map(({ metadata, spec }) => ({
          cell: cell.name,
          uid: metadata?.uid ?? "",
          image: spec?.template.spec.runtime.sandbox?.containers[0]?.image ?? "",
        })),
      ),
      isOnHub: this.#onHub !== undefined,
      status: this.#source?.status,
      shown: this.#project.now(instances).length,
    };
  }

  get #source(): WorkloadDeployment | undefined {
    return this.#project.get(workloadDeployments, NAMESPACE, NAME);
  }

  get #onHub(): WorkloadDeployment | undefined {
    return this.#hub.get(workloadDeployments, this.#namespace, NAME);
  }

  get #binding(): ResourceBinding | undefined {
    return this.#hub.get(resourceBindings, this.#namespace, bindingOf(NAME));
  }

  get #policies(): readonly PropagationPolicy[] {
    return this.#hub.now(propagationPolicies);
  }

  get #hubNamespace() {
    return this.#hub.get(NAMESPACES, "", this.#namespace);
  }

  #round(): void {
    this.#federate();
    this.#policy();
    this.#propagate();
    for (const cell of this.#cells) {
      for (let step = 0; step < 10; step += 1) this.#run(cell);
      if (cell.isReachable) this.#writeBack(cell);
    }
    this.#propagate();
    this.#show();
  }

  // Berth.

  #federate(): void {
    const deployment = this.#source;
    if (deployment === undefined) return;
    const hub = this.#onHub;
    const binding = this.#binding;
    const clusters = this.#hub.now(memberClusters);
    const [policy] = this.#policies;
    const isOf = hub !== undefined && binding?.spec?.resource?.uid === hub.metadata?.uid;
    const carried =
      hub &&
      carriedOf({
        deployment: hub,
        binding: isOf ? binding : undefined,
        policy,
        clusters,
        behindForMs: 0,
        nowMs: NOW_MS,
      });
    const decision = decideFederation({
      project: { path: "acme/web", uid: this.#project.uid, isSynced: true },
      deployment,
      namespace: this.#project.now(NAMESPACES)[0],
      hubNamespace: seenOf(this.#hubNamespace),
      hubDeployment: seenOf(hub),
      karmada: { carried, isBound: binding !== undefined, push: undefined },
      choose: () => expect.unreachable(),
      isProvenGone: false,
      isOtherAbsent: true,
      isDoubted: false,
      isConfirmed: true,
      cells: [],
      withdrawals: [],
      nowMs: NOW_MS,
      signer,
    });
    const { mark, createNamespace, create, patch, status } = decision;
    if (mark !== undefined) return this.#patch(this.#project, deployment, { metadata: mark });
    if (createNamespace) this.#hub.take({ do: "create", resource: NAMESPACES, body: createNamespace });
    if (create) this.#hub.take({ do: "create", resource: workloadDeployments, body: create });
    if (patch !== undefined) this.#patch(this.#hub, hub, patch);
    this.#delete(this.#hub, workloadDeployments, decision.delete);
    if (status !== undefined)
      this.#project.take({ do: "status", resource: workloadDeployments, seen: deployment, body: { status } });
  }

  #policy(): void {
    const hub = this.#onHub;
    const [policy] = this.#policies;
    const deployments = hub && policyOf(hub) === "city-dfw" ? [hub] : [];
    const bindings = this.#binding ? [this.#binding] : [];
    const decision = decidePolicy({ namespace: this.#namespace, policy, deployments, bindings });
    if (decision.create)
      this.#hub.take({ do: "create", resource: propagationPolicies, body: decision.create });
    this.#delete(this.#hub, propagationPolicies, decision.delete);
  }

  #writeBack(cell: Plane): void {
    const hubDeployment = this.#onHub;
    const [deployment] = cell.now(workloadDeployments);
    const { labels: namespaceLabels = {} } = this.#hubNamespace?.metadata ?? {};
    for (const name of namesOf(cell.now(instances), this.#hub.now(instances))) {
      const copy = this.#hub.get(instances, this.#namespace, name);
      const instance = seenOf(cell.get(instances, this.#namespace, name));
      const view = { instance, deployment, hubDeployment, namespaceLabels, cellUid: cell.uid, copy };
      const { findings, ...decision } = decideWriteBack(view);
      for (const { reason } of findings) this.violations.push(reason);
      this.#sendInstance(this.#hub, copy, decision);
    }
  }

  #show(): void {
    const hub = this.#onHub;
    for (const name of namesOf(this.#project.now(instances), this.#hub.now(instances))) {
      const projection = this.#project.get(instances, NAMESPACE, name);
      const decision = decideProjection({
        deployment: this.#source,
        copy: seenOf(this.#hub.get(instances, this.#namespace, name)),
        hubDeployment: seenOf(hub),
        inCell: { is: "none" },
        projection,
      });
      this.#sendInstance(this.#project, projection, decision);
    }
  }

  #sendInstance(
    plane: Plane,
    seen: Instance | undefined,
    decision: Corrections & {
      readonly create?: Instance | undefined;
      readonly delete?: Instance | undefined;
    },
  ): void {
    if (decision.create) plane.take({ do: "create", resource: instances, body: decision.create });
    this.#delete(plane, instances, decision.delete);
    if (seen === undefined || decision.delete !== undefined) return;
    const { patch, status } = decision;
    if (patch !== undefined) plane.take({ do: "patch", resource: instances, seen, body: patch });
    else if (status !== undefined) plane.take({ do: "status", resource: instances, seen, body: { status } });
  }

  // Karmada.

  #propagate(): void {
    for (const [cell, uid] of this.#pending) {
      const [present] = cell.now(workloadDeployments);
      if (!cell.isReachable) continue;
      if (present === undefined) this.#pending.delete(cell);
      else if (present.metadata?.uid === uid) this.#delete(cell, workloadDeployments, present);
    }
    const hub = this.#onHub;
    const binding = this.#binding;
    if (binding !== undefined && binding.spec?.resource?.uid !== hub?.metadata?.uid) {
      for (const cell of this.#cells) this.#withdraw(cell);
      return this.#delete(this.#hub, resourceBindings, binding);
    }
    if (hub === undefined) return;
    const [policy] = this.#policies;
    if (binding === undefined && policy !== undefined) {
      const ready = this.#cells.find((it) => it.isReachable);
      const { uid = "" } = hub.metadata ?? {};
      const spec = {
        resource: { kind: "WorkloadDeployment", name: NAME, uid },
        clusters: [{ name: ready?.name ?? "" }],
      };
      const metadata = { name: bindingOf(NAME), namespace: this.#namespace };
      this.#hub.take({
        do: "create",
        resource: resourceBindings,
        body: { kind: "ResourceBinding", metadata, spec } as object,
      });
    }
    for (const cell of this.#cells)
      if (this.#binding?.spec?.clusters?.some(({ name }) => name === cell.name) && !this.#pending.has(cell))
        this.#bring(cell, hub);
  }

  #withdraw(cell: Plane): void {
    const [present] = cell.now(workloadDeployments);
    if (present?.metadata?.uid !== undefined) this.#pending.set(cell, present.metadata.uid);
  }

  #bring(cell: Plane, { metadata, spec }: WorkloadDeployment): void {
    if (!cell.isReachable) return;
    const [present] = cell.now(workloadDeployments);
    const { labels: own, annotations } = metadata ?? {};
    const body = {
      kind: "WorkloadDeployment",
      metadata: { name: NAME, namespace: this.#namespace, labels: own, annotations },
      spec,
    };
    if (present === undefined)
      cell.take({ do: "create", resource: workloadDeployments, body: body as object });
    else if (
      JSON.stringify([present.spec, present.metadata?.annotations]) !== JSON.stringify([spec, annotations])
    )
      this.#patch(cell, present, { metadata: { labels: own, annotations }, spec });
    const binding = this.#binding;
    const aggregatedStatus = [{ clusterName: cell.name, applied: true, status: present?.status }];
    if (
      binding !== undefined &&
      JSON.stringify(binding.status?.aggregatedStatus) !== JSON.stringify(aggregatedStatus)
    )
      this.#hub.take({
        do: "status",
        resource: resourceBindings,
        seen: binding,
        body: { status: { aggregatedStatus } },
      });
  }

  #say(name: string, isReady: boolean): void {
    const seen = this.#hub.get<MemberCluster>(memberClusters, "", name);
    const status = { conditions: [aCondition("Ready", isReady ? "True" : "Unknown", "x", "no answer")] };
    if (seen && JSON.stringify(seen.status) !== JSON.stringify(status))
      this.#hub.take({ do: "status", resource: memberClusters, seen, body: { status } });
  }

  /** One thing that a cell does by itself. */
  #run(cell: Plane): void {
    const going = cell.now(instances).find(({ metadata }) => metadata?.deletionTimestamp !== undefined);
    if (going !== undefined)
      return void cell.take({
        do: "patch",
        resource: instances,
        seen: going,
        body: { metadata: { finalizers: [] } },
      });
    const [deployment] = cell.now(workloadDeployments);
    if (deployment === undefined) return;
    const { metadata, spec, status } = deployment;
    const isEnding = metadata?.deletionTimestamp !== undefined;
    const own = cell.now(instances).filter((it) => isOwnedBy(it, deployment));
    if (isEnding && own.length === 0) return this.#patch(cell, deployment, { metadata: { finalizers: [] } });
    if (!isEnding && !metadata?.finalizers?.length)
      return this.#patch(cell, deployment, { metadata: { finalizers: [finalizers.workload] } });
    const count = isEnding ? 0 : (spec?.scaleSettings.minReplicas ?? 0);
    const wanted = Array.from({ length: count }, (_, at) => instanceName(NAME, at));
    const wrong = own.find((it) => !wanted.includes(it.metadata?.name ?? ""));
    if (wrong !== undefined) return this.#delete(cell, instances, wrong);
    const missing = wanted.find((name) => cell.get(instances, this.#namespace, name) === undefined);
    const { uid = "" } = metadata ?? {};
    if (missing !== undefined) {
      const owner = { apiVersion: "v1", kind: "WorkloadDeployment", name: NAME, uid, controller: true };
      const of = {
        name: missing,
        namespace: this.#namespace,
        finalizers: [finalizers.instance],
        ownerReferences: [owner],
      };
      const body = { kind: "Instance", metadata: of, spec: { ...spec?.template.spec } };
      return void cell.take({ do: "create", resource: instances, body });
    }
    const next = {
      replicas: count,
      readyReplicas: count,
      currentReplicas: count,
      updatedReplicas: count,
      desiredReplicas: count,
      observedSourceGeneration: Number(metadata?.annotations?.[keys.sourceGeneration]),
    };
    if (JSON.stringify(status) !== JSON.stringify(next))
      cell.take({ do: "status", resource: workloadDeployments, seen: deployment, body: { status: next } });
  }

  #patch(plane: Plane, seen: WorkloadDeployment | undefined, body: object): void {
    if (seen !== undefined) plane.take({ do: "patch", resource: workloadDeployments, seen, body });
  }

  #delete(plane: Plane, resource: Request["resource"], seen: object | undefined): void {
    if (seen !== undefined) plane.take({ do: "delete", resource, seen });
  }
}

function namesOf(...lists: readonly (readonly Instance[])[]): ReadonlySet<string> {
  return new Set(lists.flat().map(({ metadata }) => metadata?.name ?? ""));
}

describe("karmada does what every driver must do:", () => {
  it.each(requirements.filter(({ needs }) => needs === undefined))("$name", async (requirement) => {
    const stage = new KarmadaStage();
    await requirement.run(stage);
    expect(stage.violations).toEqual([]);
  });
});
