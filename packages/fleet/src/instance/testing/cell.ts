/** One Instance with its claim and its pod, and the effect of each decision on them. */
import type { Pod } from "@berth/kube";
import { fromTime, toTime } from "@berth/runtime";
import { claimName } from "../../api/keys.ts";
import type { ResourceClaim } from "../../api/quota.ts";
import type { Instance } from "../../api/workload.ts";
import { decideInstance } from "../decide.ts";
import type { InstanceDecision, InstanceView, NetworkSeen, News, QuotaSeen } from "../view.ts";
import { aView, BORN, claimed, condition, noClaim } from "./views.ts";

export class Cell {
  /** `undefined`: its last finalizer is gone. */
  instance: Instance | undefined;
  /** By name: the API server has one claim of each. */
  readonly claims: Map<string, ResourceClaim> = new Map();
  pod: Pod | undefined;
  nowMs: number = BORN;
  /** Replaces what the claims show. */
  quota: QuotaSeen | undefined;
  network: NetworkSeen = { is: "off" };
  readonly requests: string[] = [];
  readonly news: News[] = [];
  readonly #provider: "pods" | "external";

  constructor(instance: Instance, provider: "pods" | "external" = "pods") {
    this.instance = instance;
    this.#provider = provider;
  }

  get claim(): ResourceClaim | undefined {
    return this.claims.get(claimName(this.instance?.metadata?.name ?? ""));
  }

  view(): InstanceView {
    if (this.instance === undefined) throw new Error("the Instance is gone");
    const { pod, claim, nowMs, network } = this;
    return aView({
      instance: this.instance,
      nowMs,
      network,
      quota:
        this.quota ??
        (claim ? claimed(claim, nowMs - (fromTime(claim.metadata?.creationTimestamp) ?? nowMs)) : noClaim),
      provider:
        this.#provider === "external"
          ? { is: "external" }
          : { is: "pods", pod: pod ? { is: "there", value: pod } : { is: "none" } },
    });
  }

  /** Decides once, and carries the decision out. */
  step(check: (decision: InstanceDecision, view: InstanceView) => void = () => undefined): boolean {
    if (this.instance === undefined) return false;
    const first = decideInstance(this.view());
    check(first, this.view());
    if (first.claim !== undefined) this.#send(first.claim);
    const decision = first.claim === undefined ? first : decideInstance(this.view());
    check(decision, this.view());
    this.#store(decision);
    return first.claim !== undefined || isChange(decision);
  }

  /** Decides until nothing is left. @returns the requests that it took. */
  settle(check?: (decision: InstanceDecision, view: InstanceView) => void): readonly string[] {
    const before = this.requests.length;
    for (let steps = 0; this.step(check); steps++)
      if (steps > 10) throw new Error(`it does not settle: ${this.requests.slice(-10).join(", ")}`);
    return this.requests.slice(before);
  }

  /** What the quota service writes: `True/QuotaAvailable`. */
  answer(granted: string): void {
    const { claim } = this;
    if (claim !== undefined)
      this.#put({ ...claim, status: { conditions: [condition(`Granted=${granted}`)] } });
  }

  ready(): string {
    const ready = this.instance?.status?.conditions?.find(({ type }) => type === "Ready");
    return `${ready?.status}/${ready?.reason}`;
  }

  delete(): void {
    const { instance } = this;
    if (instance === undefined || instance.metadata?.deletionTimestamp !== undefined) return;
    this.instance = {
      ...instance,
      metadata: { ...instance.metadata, deletionTimestamp: toTime(this.nowMs) },
    };
  }

  #put(claim: ResourceClaim): void {
    this.claims.set(claim.metadata?.name ?? "", claim);
  }

  #send({ do: what, claim }: NonNullable<InstanceDecision["claim"]>): void {
    this.requests.push(`${what} claim`);
    const { name = "" } = claim.metadata ?? {};
    if (what === "delete") this.claims.delete(name);
    else if (!this.claims.has(name))
      this.#put({ ...claim, metadata: { ...claim.metadata, creationTimestamp: toTime(this.nowMs) } });
  }

  #store({ status, gates, finalizers, pod, news = [] }: InstanceDecision): void {
    this.news.push(...news);
    if (status !== undefined) {
      this.requests.push("status");
      this.instance = { ...this.instance, status };
    }
    if (gates !== undefined || finalizers !== undefined) this.#patch(gates, finalizers);
    if (pod?.do === "create") {
      this.requests.push("create pod");
      this.pod = { ...pod.pod, metadata: { ...pod.pod.metadata, creationTimestamp: toTime(this.nowMs) } };
    } else if (pod?.do === "delete") {
      this.requests.push("delete pod");
      this.pod = { ...pod.pod, metadata: { ...pod.pod.metadata, deletionTimestamp: toTime(this.nowMs) } };
    }
  }

  #patch(gates: InstanceDecision["gates"], finalizers: InstanceDecision["finalizers"]): void {
    const { metadata, spec } = this.instance ?? {};
    this.requests.push(gates === undefined ? "finalizers" : "gates");
    if (finalizers?.length === 0) {
      this.instance = undefined;
      return;
    }
    this.instance = {
      ...this.instance,
      metadata: {
        ...metadata,
        ...(finalizers && { finalizers }),
        ...(gates && { generation: (metadata?.generation ?? 0) + 1 }),
      },
      ...(gates &&
        spec && {
          spec: { ...spec, controller: { templateHash: "", ...spec.controller, schedulingGates: gates } },
        }),
    };
  }
}

function isChange({ status, gates, finalizers, pod }: InstanceDecision): boolean {
  return [status, gates, finalizers, pod].some((part) => part !== undefined);
}
