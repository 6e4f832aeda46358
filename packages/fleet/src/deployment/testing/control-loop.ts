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
  /** Uids of Instances that Berth deleted. It knows so before its cache shows it. */
  readonly #deleted = new Set<string>();
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
  see(states: number = Number.POSITIVE_INFINITY): void {
    this.#seen = Math.min(this.#seen + states, this.#states.length - 1);
  }

  /** One decision, carried out. */
  pass(): DeploymentDecision {
    this.#nowMs += 1_000;
    const seen = this.#states[this.#seen] ?? new Map<string, Instance>();
    const decision = decideDeployment({
      deployment: this.deployment,
      instances: [...seen.values()].map((it) =>
        this.#deleted.has(it.metadata?.uid ?? "") ? ending(it) : it,
      ),
      instanceNamed: (name) => seen.get(name),
      network: { is: "off" },
      hasQuota: true,
      rollHold: () => (this.isQuotaReachable ? undefined : "503"),
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
    this.#set(at, ending);
  }

  /** The finalizers of an Instance that is being deleted go. */
  end(at: number): void {
    const name = this.#nameOf(at);
    if (this.#now.get(name)?.metadata?.deletionTimestamp === undefined) return;
    this.#push(new Map([...this.#now].filter(([key]) => key !== name)));
  }

  /** Berth takes up all changes and decides, and then others do one thing that is due. True: nothing was left to do. */
  round(isGood: (instance: Instance) => boolean = () => true): boolean {
    this.see();
    const { create, delete: deleted = [] } = this.pass();
    const due = this.instances.find((it) => isDeleting(it) || isReady(it) !== isGood(it));
    if (due !== undefined && isDeleting(due)) this.end(ordinal(due));
    else if (due !== undefined) this.report(ordinal(due), isGood(due));
    return create === undefined && deleted.length === 0 && due === undefined;
  }

  settle(isGood?: (instance: Instance) => boolean): void {
    for (let rounds = 0; rounds < 200; rounds += 1) if (this.round(isGood)) return;
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
  }

  /** The server refuses it when the Instance has changed since Berth saw it. */
  #delete(instance: Instance): void {
    const at = ordinal(instance);
    this.requests.push(`delete ${at}`);
    if (this.#now.get(instance.metadata?.name ?? "") !== instance) return;
    this.#check(instance, at);
    this.mark(at);
    this.#deleted.add(instance.metadata?.uid ?? "");
  }

  #check(present: Instance, at: number): void {
    if (!this.#isWanted(at)) {
      const seen = this.#states[this.#seen]?.values().toArray() ?? [];
      const higher = seen.filter((it) => {
        const isSurplus = !this.#isWanted(ordinal(it)) && !isDeleting(it);
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

function ending(instance: Instance): Instance {
  return { ...instance, metadata: { ...instance.metadata, deletionTimestamp: "2026-01-01T00:00:00Z" } };
}

function isDeleting({ metadata }: Instance): boolean {
  return metadata?.deletionTimestamp !== undefined;
}

export function isReady(instance: Instance): boolean {
  if (isDeleting(instance)) return false;
  return (
    instance.status?.conditions?.some(({ type, status: is }) => type === "Ready" && is === "True") ?? false
  );
}
