/** A Workload, what surrounds Berth, and what must hold for each of its writes. Time is virtual. */
import { type KubeObject, type Pod, pods, type Resource } from "@berth/kube";
import { createVirtualClock, isConditionTrue, mergeConditions, type VirtualClock } from "@berth/runtime";
import { gates, labels, ordinalOf } from "../api/keys.ts";
import { type ResourceClaim, resourceClaims } from "../api/quota.ts";
import {
  type Instance,
  instances,
  type Workload,
  type WorkloadDeployment,
  workloadDeployments,
  workloads,
} from "../api/workload.ts";
import { templateHash } from "../deployment/template-hash.ts";
import { aTemplate } from "../deployment/testing/fixtures.ts";
import { type ControllerName, FleetLife } from "./fleet-life.ts";
import { ObjectServer, type Written } from "./object-server.ts";

const WORKLOAD = "w";
const DEPLOYMENT = `${WORKLOAD}-us-dfw`;
/** Longer than Berth puts anything off that it does by itself. Looks at a running claim are further apart. */
const QUIET_ROUNDS = 12;
const ROUND_MS = 60_000;
const MOST_ROUNDS = 300;

export class FleetWorld {
  readonly clock: VirtualClock = createVirtualClock();
  readonly server: ObjectServer = new ObjectServer(() => this.clock.now());
  readonly violations: string[] = [];
  isQuotaDown = false;
  life: FleetLife;
  #writes = 0;
  /** Berth is writing, and not the surroundings. */
  #isBerth = false;
  /** Names of Ready Instances that Berth took down or showed as down, until they are Ready again. */
  readonly #down = new Set<string>();
  /** By kind and name, the objects as this life of Berth wrote them last. It knows them, whatever its caches show. */
  #own = new Map<string, KubeObject>();

  constructor(instanceCount: number) {
    this.server.onWrite = (written) => this.#check(written);
    this.server.create<Workload>(workloads, {
      metadata: { name: WORKLOAD },
      spec: {
        template: aTemplate(),
        placements: [{ name: "us", cityCodes: ["DFW"], scaleSettings: { minReplicas: instanceCount } }],
      },
    });
    this.life = this.#born();
  }

  get instances(): readonly Instance[] {
    return this.server.all(instances).toSorted((a, b) => ordinal(a) - ordinal(b));
  }

  get workload(): Workload | undefined {
    return this.server.all(workloads)[0];
  }

  get deployment(): WorkloadDeployment | undefined {
    return this.server.all(workloadDeployments)[0];
  }

  scale(minReplicas: number): void {
    const placements = [{ name: "us", cityCodes: ["DFW"], scaleSettings: { minReplicas } }];
    this.#edit({ placements });
  }

  roll(image: string): void {
    this.#edit({ template: aTemplate(image) });
  }

  removeWorkload(): void {
    this.server.delete(workloads, { name: WORKLOAD });
  }

  removeInstance(at: number): void {
    const instance = this.#instanceAt(at);
    if (instance) this.server.delete(instances, { name: instance.metadata?.name ?? "" });
  }

  /** The kubelet says so. A pod without a node gets one first. */
  ready(at: number, isReady: boolean): void {
    const pod = this.#podAt(at);
    if (pod?.metadata?.deletionTimestamp !== undefined || pod?.status?.phase === "Failed") return;
    this.#tell(pod, {
      phase: "Running",
      conditions: [{ type: "Ready", status: isReady ? "True" : "False" }],
    });
  }

  evict(at: number): void {
    const pod = this.#podAt(at);
    if (pod?.spec?.nodeName !== undefined)
      this.#tell(pod, {
        phase: "Failed",
        reason: "Evicted",
        conditions: [{ type: "Ready", status: "False" }],
      });
  }

  /** The kubelet has ended a pod that was deleted. */
  end(at: number): void {
    const pod = this.#podAt(at);
    const name = pod?.metadata?.name ?? "";
    if (pod?.metadata?.deletionTimestamp !== undefined) this.server.delete(pods, { name });
  }

  /** The quota service decides. It takes no grant back. */
  decide(at: number, isGranted: boolean): void {
    const claim = this.server
      .all(resourceClaims)
      .find(({ metadata }) => metadata?.name === `instance-${DEPLOYMENT}-${at}`);
    if (claim === undefined || isConditionTrue(claim.status?.conditions, "Granted")) return;
    const [status, reason] = isGranted ? ["True", "QuotaAvailable"] : ["False", "QuotaExceeded"];
    const wanted = {
      type: "Granted",
      status: status as "True",
      reason,
      message: "decided",
    };
    const conditions = mergeConditions(claim.status?.conditions, [wanted], this.clock.now());
    const body = { status: { conditions } };
    this.server.patch(resourceClaims, nameOf(claim), { type: "merge", body }, "status");
  }

  /** An earlier process, which had not seen that the Instance was gone, makes its claim. */
  claimForGone(at: number, uid = "gone"): void {
    const name = `instance-${DEPLOYMENT}-${at}`;
    if (this.server.all(resourceClaims).some(({ metadata }) => metadata?.name === name)) return;
    const own = {
      [labels.sourceCluster]: "single",
      [labels.instanceNamespace]: "default",
      [labels.instanceUid]: uid,
    };
    this.server.create<ResourceClaim>(resourceClaims, { metadata: { name, labels: own } });
  }

  async look(controller: ControllerName, at: number): Promise<void> {
    const names = {
      workloads: WORKLOAD,
      "workload-deployments": DEPLOYMENT,
      instances: `${DEPLOYMENT}-${at}`,
    };
    this.#isBerth = true;
    await this.life.look(controller, names[controller]);
    this.#isBerth = false;
    if (this.life.isDead) this.restart();
  }

  restart(): void {
    this.life.isDead = true;
    this.life = this.#born();
    this.#own = new Map();
  }

  /** Everything that others do is done, until Berth has nothing to do. */
  async settle(): Promise<void> {
    this.isQuotaDown = false;
    let quiet = 0;
    for (let round = 0; round < MOST_ROUNDS && quiet < QUIET_ROUNDS; round += 1) {
      const before = this.#writes;
      await this.round();
      for (const { metadata } of this.server.all(pods)) {
        const at = ordinalOf(metadata?.name ?? "");
        this.ready(at, true);
        this.end(at);
      }
      for (const { metadata } of this.server.all(resourceClaims))
        this.decide(ordinalOf(metadata?.name ?? ""), true);
      quiet = before === this.#writes ? quiet + 1 : 0;
      await this.clock.advance(quiet > 0 ? ROUND_MS : 1000);
    }
    if (quiet < QUIET_ROUNDS) this.violations.push("it never settles");
  }

  /** One round, in which these caches do not catch up. */
  async roundWithout(...kinds: readonly Resource[]): Promise<void> {
    for (const kind of [workloads, workloadDeployments, instances, pods, resourceClaims] as Resource[])
      if (!kinds.includes(kind)) this.life.cacheOf(kind).see();
    await this.look("workloads", 0);
    await this.look("workload-deployments", 0);
    await this.look("instances", 0);
  }

  /** The caches catch up, and each object is looked at once. */
  async round(): Promise<void> {
    await this.life.probe();
    this.life.seeAll();
    await this.look("workloads", 0);
    await this.look("workload-deployments", 0);
    const named = [instances, pods, resourceClaims].flatMap((it: Resource) => this.server.all(it));
    for (const at of new Set(named.map(ordinal))) await this.look("instances", at);
  }

  #born(): FleetLife {
    const { server, clock } = this;
    return new FleetLife({ server, clock, isQuotaDown: () => this.isQuotaDown });
  }

  #edit(spec: object): void {
    if (this.workload !== undefined)
      this.server.patch(workloads, { name: WORKLOAD }, { type: "merge", body: { spec } });
  }

  #instanceAt(at: number): Instance | undefined {
    return this.instances.find((it) => ordinal(it) === at);
  }

  #podAt(at: number): Pod | undefined {
    return this.server.all(pods).find((it) => ordinal(it) === at);
  }

  #tell(pod: Pod | undefined, status: object): void {
    if (pod === undefined) return;
    const body = { spec: { nodeName: "n1" } };
    this.server.patch(pods, nameOf(pod), { type: "merge", body });
    this.server.patch(pods, nameOf(pod), { type: "merge", body: { status } }, "status");
  }

  #check({ resource, before, after }: Written): void {
    this.#writes += 1;
    if (this.#isBerth && after !== undefined)
      this.#own.set(`${resource.plural} ${after.metadata?.name}`, after);
    if (resource === instances) this.#checkInstance(before, after);
    if (this.#isBerth && resource === resourceClaims && before === undefined)
      this.#checkClaim(after as ResourceClaim);
  }

  #checkInstance(before: Instance | undefined, after: Instance | undefined): void {
    const { name = "", uid = "" } = (after ?? before)?.metadata ?? {};
    const isGoing = after === undefined || after.metadata?.deletionTimestamp !== undefined;
    if (!isGoing && isReady(after)) this.#down.delete(name);
    if (after === undefined) this.#checkLeftOvers(name, uid);
    if (!this.#isBerth || before === undefined) return;
    const claims = this.server.all(resourceClaims).filter((it) => claimantOf(it) === uid);
    const isGranted = claims.some(({ status }) => isConditionTrue(status?.conditions, "Granted"));
    if (after !== undefined && isGated(before) && !isGated(after) && !isGranted)
      this.violations.push(`${name} loses its gate without a grant`);
    if (after !== undefined && !isGoing) this.#checkReady(before, after);
    if (isGoing && before.metadata?.deletionTimestamp === undefined) this.#checkDeletion(before);
  }

  /** By what Berth has seen, the Instance is wanted as it is, or another one is down. */
  #checkDeletion(before: Instance): void {
    const { name = "" } = before.metadata ?? {};
    const seen = this.#known(workloadDeployments, DEPLOYMENT);
    const { spec, metadata } = seen ?? {};
    const isCounted = (one: string): boolean =>
      metadata?.deletionTimestamp === undefined && ordinalOf(one) < (spec?.scaleSettings.minReplicas ?? 0);
    if (!isCounted(name) || spec === undefined) return;
    if (before.spec?.controller?.templateHash === templateHash(spec.template))
      this.violations.push(`${name} is deleted and was right`);
    if (!isReady(this.#known(instances, name))) return;
    const others = [...this.#down].filter((one) => one !== name && isCounted(one));
    if (others.length > 0) this.violations.push(`${name} goes down while ${others.join()} is down`);
    this.#down.add(name);
  }

  /** The newest version that Berth has seen or written. */
  #known<T extends KubeObject>(resource: Resource<T>, name: string): T | undefined {
    const shown = this.life.cacheOf(resource).get({ name }) as T | undefined;
    const own = this.#own.get(`${resource.plural} ${name}`) as T | undefined;
    const [a, b] = [shown, own].map((it) => Number(it?.metadata?.resourceVersion ?? 0));
    return (a ?? 0) < (b ?? 0) ? own : shown;
  }

  /** A running Instance is shown as down only when its pod is not Ready: an outage of quota changes nothing. */
  #checkReady(before: Instance, after: Instance): void {
    const { name = "", uid } = after.metadata ?? {};
    const hadGrant = isConditionTrue(before.status?.conditions, "QuotaGranted");
    if (!isGated(before) && hadGrant && !isConditionTrue(after.status?.conditions, "QuotaGranted"))
      this.violations.push(`${name} runs, and its grant is shown as lost`);
    const pod = this.#known(pods, name);
    const isOurs = pod?.metadata?.ownerReferences?.some((it) => it.uid === uid) === true;
    const isUp = isOurs && pod?.metadata?.deletionTimestamp === undefined && isReady(pod);
    if (isReady(before) && !isReady(after) && isUp) this.violations.push(`${name} is shown as down`);
    if (isReady(before) && !isReady(after)) this.#down.add(name);
  }

  #checkLeftOvers(name: string, uid: string): void {
    for (const { metadata } of this.server.all(pods))
      if (metadata?.ownerReferences?.some((it) => it.uid === uid))
        this.violations.push(`${name} leaves its pod`);
    for (const claim of this.server.all(resourceClaims))
      if (claimantOf(claim) === uid) this.violations.push(`${name} leaves its claim`);
  }

  #checkClaim(claim: ResourceClaim): void {
    const uid = claimantOf(claim);
    if (!this.instances.some(({ metadata }) => metadata?.uid === uid))
      this.violations.push(`${claim.metadata?.name} is made for an Instance that is gone`);
  }
}

export function isReady(object: KubeObject | undefined): boolean {
  const { status } = (object ?? {}) as Pick<Instance, "status">;
  return isConditionTrue(status?.conditions, "Ready");
}

export function ordinal({ metadata }: KubeObject): number {
  return ordinalOf(metadata?.name ?? "");
}

function nameOf({ metadata }: KubeObject): { readonly name: string } {
  return { name: metadata?.name ?? "" };
}

function isGated({ spec }: Instance): boolean {
  return spec?.controller?.schedulingGates?.some(({ name }) => name === gates.quota) === true;
}

/** The uid of the Instance that the claim was made for. */
function claimantOf({ metadata }: ResourceClaim): string | undefined {
  return metadata?.labels?.[labels.instanceUid];
}
