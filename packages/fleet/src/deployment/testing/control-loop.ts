/** A deployment with its Instances, an API server's rules about them, and a cache that is behind it. No clock. */
import { instanceName, ordinalOf } from "../../api/keys.ts";
import type { Instance, InstanceTemplate, WorkloadDeployment } from "../../api/workload.ts";
import { desiredCount, ordinalStart } from "../build.ts";
import { type DeploymentDecision, decideDeployment } from "../decide.ts";
import { isCurrent, templateHash } from "../template-hash.ts";
import { aCondition, aDeployment, type DeploymentFields, NOW_MS, withCondition } from "./fixtures.ts";

type Objects = ReadonlyMap<string, Instance>;

export class ControlLoop {
  deployment: WorkloadDeployment;
  isQuotaReachable = true;
  /** `create 0`, `delete 2`, in order. */
  readonly requests: string[] = [];
  readonly violations: string[] = [];
  statusWrites = 0;
  /** All states since the start. The cache shows one of them, and never an earlier one again. */
  readonly #states: Objects[] = [new Map()];
  #seen = 0;
  #nowMs = NOW_MS;
  #uids = 0;
  /** Ordinals whose Ready Instance Berth deleted, until one is Ready again. */
  readonly #down = new Set<number>();

  constructor(fields: DeploymentFields = {}) {
    this.deployment = aDeployment(fields);
  }

  get instances(): readonly Instance[] {
    return [...this.#now.values()].toSorted((a, b) => ordinal(a) - ordinal(b));
  }

  get readyCount(): number {
    return this.instances.filter(isReady).length;
  }

  change(change: { min?: number; template?: InstanceTemplate; start?: number }): void {
    const { metadata, spec } = this.deployment;
    if (spec === undefined) return;
    const { min = spec.scaleSettings.minReplicas, template = spec.template, start } = change;
    const annotations =
      start === undefined ? metadata?.annotations : { "berth.dev/ordinal-start": String(start) };
    this.deployment = {
      ...this.deployment,
      metadata: {
        ...metadata,
        generation: (metadata?.generation ?? 0) + 1,
        ...(annotations && { annotations }),
      },
      spec: { ...spec, template, scaleSettings: { ...spec.scaleSettings, minReplicas: min } },
    };
    for (const one of this.#down) if (!this.#isWanted(one)) this.#down.delete(one);
  }

  /** The cache takes up so many states more. */
  see(states = Number.POSITIVE_INFINITY): void {
    this.#seen = Math.min(this.#seen + states, this.#states.length - 1);
  }

  /** One decision, carried out. */
  pass(): DeploymentDecision {
    this.#nowMs += 1_000;
    const seen = this.#states[this.#seen] ?? new Map<string, Instance>();
    const decision = decideDeployment({
      deployment: this.deployment,
      instances: [...seen.values()],
      instanceNamed: (name) => seen.get(name),
      network: { is: "off" },
      hasQuota: true,
      isQuotaReachable: this.isQuotaReachable,
      nowMs: this.#nowMs,
    });
    const { finalizers, create, status } = decision;
    const { metadata } = this.deployment;
    if (finalizers !== undefined)
      this.deployment = { ...this.deployment, metadata: { ...metadata, finalizers } };
    if (create !== undefined) this.#create(create);
    for (const instance of decision.delete ?? []) this.#delete(instance);
    if (status !== undefined) {
      this.statusWrites += 1;
      this.deployment = { ...this.deployment, status };
    }
    return decision;
  }

  /** The provider says so. It sets the hash once the Instance runs. */
  report(at: number, ready: boolean): void {
    this.#set(at, (instance) => {
      const hash = instance.spec?.controller?.templateHash ?? "";
      const [status, reason] = ready ? (["True", "Available"] as const) : (["False", "Stopped"] as const);
      const conditions = [
        aCondition("Ready", status, reason),
        aCondition("Programmed", status, "Programmed"),
      ];
      const { status: next, ...rest } = withCondition(instance, ...conditions);
      return { ...rest, status: { ...next, controller: { observedTemplateHash: hash } } };
    });
    if (ready) this.#down.delete(at);
  }

  /** Any client deletes it. Finalizers keep it until `end`. */
  mark(at: number): void {
    this.#set(at, (instance) => ({
      ...instance,
      metadata: { ...instance.metadata, deletionTimestamp: "2026-01-01T00:00:00Z" },
    }));
  }

  /** The finalizers of an Instance that is being deleted go. */
  end(at: number): void {
    const name = this.#nameOf(at);
    if (this.#now.get(name)?.metadata?.deletionTimestamp === undefined) return;
    this.#push(new Map([...this.#now].filter(([key]) => key !== name)));
  }

  /** Everything that others do is done, until Berth has nothing to do. Ready: as the template can be. */
  settle(isGood: (instance: Instance) => boolean = () => true): void {
    for (let round = 0; round < 200; round += 1) {
      this.see();
      const { create, delete: deleted = [] } = this.pass();
      this.see();
      for (const instance of this.instances) {
        if (instance.metadata?.deletionTimestamp !== undefined) this.end(ordinal(instance));
        else if (isReady(instance) !== isGood(instance)) this.report(ordinal(instance), isGood(instance));
        else continue;
        break;
      }
      if (create === undefined && deleted.length === 0 && this.#seen === this.#states.length - 1) return;
    }
    this.violations.push("it never settles");
  }

  get #now(): Objects {
    return this.#states.at(-1) ?? new Map();
  }

  #nameOf(at: number): string {
    return instanceName(this.deployment.metadata?.name ?? "", at);
  }

  #isWanted(at: number): boolean {
    const start = ordinalStart(this.deployment) ?? 0;
    return at >= start && at < start + desiredCount(this.deployment);
  }

  #push(objects: Objects): void {
    this.#states.push(objects);
  }

  #set(at: number, change: (instance: Instance) => Instance): void {
    const instance = this.#now.get(this.#nameOf(at));
    if (instance !== undefined && instance.metadata?.deletionTimestamp === undefined)
      this.#push(new Map([...this.#now, [this.#nameOf(at), change(instance)]]));
  }

  #create(instance: Instance): void {
    const name = instance.metadata?.name ?? "";
    this.requests.push(`create ${ordinal(instance)}`);
    if (!this.#now.has(name)) {
      this.#uids += 1;
      const metadata = { ...instance.metadata, uid: `uid-${this.#uids}` };
      this.#push(new Map([...this.#now, [name, { ...instance, metadata }]]));
    }
    this.see();
  }

  #delete(instance: Instance): void {
    const at = ordinal(instance);
    const present = this.#now.get(instance.metadata?.name ?? "");
    this.requests.push(`delete ${at}`);
    if (
      present?.metadata?.uid === instance.metadata?.uid &&
      present?.metadata?.deletionTimestamp === undefined
    ) {
      this.#check(present, at);
      this.mark(at);
    }
    this.see();
  }

  #check(present: Instance | undefined, at: number): void {
    if (present === undefined) return;
    if (!this.#isWanted(at)) {
      const higher = this.instances.filter((it) => {
        const isSurplus = !this.#isWanted(ordinal(it)) && it.metadata?.deletionTimestamp === undefined;
        return isSurplus && ordinal(it) > at && Math.floor(ordinal(it) / 1000) === Math.floor(at / 1000);
      });
      if (higher.length > 0) this.violations.push(`${at} goes before ${higher.map(ordinal).join()}`);
      return;
    }
    const { template } = this.deployment.spec ?? {};
    if (template && isCurrent(present, template, templateHash(template)))
      this.violations.push(`${at} is deleted and was right`);
    if (!isReady(present)) return;
    if (!this.isQuotaReachable) this.violations.push(`${at} is replaced while there is no quota`);
    if ([...this.#down].some((one) => one !== at))
      this.violations.push(`${at} goes down while ${[...this.#down].join()} is down`);
    this.#down.add(at);
  }
}

export function ordinal({ metadata }: Instance): number {
  return ordinalOf(metadata?.name ?? "");
}

export function isReady({ metadata, status }: Instance): boolean {
  if (metadata?.deletionTimestamp !== undefined) return false;
  return status?.conditions?.some(({ type, status: is }) => type === "Ready" && is === "True") ?? false;
}
