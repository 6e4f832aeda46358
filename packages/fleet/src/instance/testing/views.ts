/** Builders for views of one Instance. */
import type { Condition, Pod } from "@berth/kube";
import { type DesiredCondition, toTime } from "@berth/runtime";
import { claimName, finalizers, gates, labels } from "../../api/keys.ts";
import type { ResourceClaim } from "../../api/quota.ts";
import type { Instance, InstanceSpec } from "../../api/workload.ts";
import { RULES } from "../../fleet/testing/rules.ts";
import { claimFor } from "../claim.ts";
import type { InstanceView, QuotaSeen } from "../view.ts";

/** The creation time of Instances, ms. */
export const BORN: number = Date.parse("2026-03-01T12:00:00Z");

export const runtime: InstanceSpec["runtime"] = {
  resources: { instanceType: "datumcloud/d1-standard-2" },
  sandbox: { containers: [{ name: "app", image: "app:1" }] },
};

export interface InstanceParts {
  readonly gates?: readonly string[];
  readonly conditions?: readonly Condition[];
  readonly finalizers?: readonly string[];
  readonly deleted?: boolean;
  readonly runtime?: InstanceSpec["runtime"];
}

/** `ns-u/w-us-dfw-0`, with gate Quota and both finalizers of Berth. */
export function anInstance(parts: InstanceParts = {}): Instance {
  return {
    metadata: {
      name: "w-us-dfw-0",
      namespace: "ns-u",
      uid: "uid-1",
      resourceVersion: "1",
      generation: 1,
      creationTimestamp: toTime(BORN),
      finalizers: parts.finalizers ?? [finalizers.instance, finalizers.claim],
      ...(parts.deleted && { deletionTimestamp: toTime(BORN) }),
    },
    spec: {
      runtime: parts.runtime ?? runtime,
      networkInterfaces: [{ network: { name: "default" } }],
      controller: {
        templateHash: "v1-a",
        schedulingGates: (parts.gates ?? [gates.quota]).map((name) => ({ name })),
      },
    },
    status: { conditions: parts.conditions ?? [] },
  };
}

/** `Ready=False/Pending: text`, as printed by `sayings`. */
export function condition(text: string, more: Partial<Condition> = {}): Condition {
  const [, type = "", status = "", reason = "", message = ""] =
    /^(\w+)=(\w+)\/(\w+)(?:: (.*))?$/.exec(text) ?? [];
  return { type, status, reason, message, lastTransitionTime: "1970-01-01T00:00:00Z", ...more };
}

export function aPod(conditions: readonly Condition[] = [], bornMs: number = BORN): Pod {
  const owner = { apiVersion: "compute.datumapis.com/v1alpha", kind: "Instance", name: "w-us-dfw-0" };
  return {
    metadata: {
      name: "w-us-dfw-0",
      namespace: "ns-u",
      uid: "pod-1",
      creationTimestamp: toTime(bornMs),
      ownerReferences: [{ ...owner, uid: "uid-1", controller: true }],
    },
    spec: { containers: [], nodeName: "n1" },
    status: { phase: "Running", conditions, podIP: "10.0.0.7" },
  };
}

export const readyPod: Pod = aPod([condition("Ready=True/Ready")]);

export interface ClaimParts {
  /** `False/QuotaExceeded: text` */
  readonly granted?: string;
  readonly ageMs?: number;
  readonly uid?: string | undefined;
  readonly source?: string;
  readonly terminating?: boolean;
  /** Default `web`, which pays for the Instance. */
  readonly project?: string;
}

/** The claim of `anInstance`, as seen at `nowMs`. */
export function aClaim(parts: ClaimParts = {}, nowMs: number = BORN): ResourceClaim {
  const uid = "uid" in parts ? parts.uid : "uid-1";
  const asked = claimFor({ instance: anInstance(), source: "dfw-01", rules: RULES }, parts.project ?? "web");
  const { spec } = asked;
  return {
    metadata: {
      name: claimName("w-us-dfw-0"),
      namespace: "default",
      uid: "claim-1",
      creationTimestamp: toTime(nowMs - (parts.ageMs ?? 0)),
      labels: {
        [labels.sourceCluster]: parts.source ?? "dfw-01",
        [labels.instanceNamespace]: "ns-u",
        ...(uid !== undefined && { [labels.instanceUid]: uid }),
      },
      ...(parts.terminating && { deletionTimestamp: toTime(nowMs) }),
    },
    ...(spec && { spec }),
    ...(parts.granted && { status: { conditions: [condition(`Granted=${parts.granted}`)] } }),
  };
}

export const noClaim: QuotaSeen = { is: "read", project: "web", claim: { is: "none" } };

/** @param knownMs how long this process has known it. */
export function claimed(claim: ResourceClaim, knownMs = 0): QuotaSeen {
  return { is: "read", project: "web", claim: { is: "there", value: claim }, knownMs };
}

/** A view of a cell `dfw-01` with quota and no networks. Its age is 0 unless `nowMs` says otherwise. */
export function aView(parts: Partial<InstanceView> = {}): InstanceView {
  return {
    instance: anInstance(),
    nowMs: BORN,
    knownMs: (parts.nowMs ?? BORN) - BORN,
    rules: RULES,
    source: "dfw-01",
    quota: noClaim,
    network: { is: "off" },
    provider: { is: "external" },
    ...parts,
  };
}

/** `Ready=False/Pending: text` */
export function saying({ type, status, reason, message }: DesiredCondition | Condition): string {
  return `${type}=${status}/${reason}${message && `: ${message}`}`;
}
