/** Owner references of objects. They are untrusted: a user who creates a pod can write any reference. */
import { createHash } from "node:crypto";
import {
  cronJobs,
  daemonSets,
  deployments,
  jobs,
  type ObjectMeta,
  type OwnerReference,
  type Resource,
  replicaSets,
  replicationControllers,
  statefulSets,
} from "@berth/kube";

/** The kinds with which Kubernetes itself creates pods, by `kindText`. They need no discovery. */
export const WORKLOADS: ReadonlyMap<string, Resource> = new Map(
  [replicaSets, deployments, statefulSets, daemonSets, jobs, cronJobs, replicationControllers].map(
    (resource) => [kindText(resource), resource],
  ),
);

/** The longest name of an object (apimachinery `DNS1123SubdomainMaxLength`). */
const MAX_NAME = 253;
/** The longest key of an owner, in UTF-16 units. */
export const MAX_KEY = 256;

/** The owner that a reference names. Its namespace is that of the owned object. */
export interface NamedOwner {
  /** Made from all fields, so that a forged reference never has the key of a real owner. At most `MAX_KEY` long. */
  readonly key: string;
  readonly namespace: string;
  readonly group: string;
  readonly version: string;
  readonly ref: OwnerReference;
}

export function toNamedOwner(ref: OwnerReference, namespace: string): NamedOwner {
  const { apiVersion, kind, name, uid } = ref;
  const text = JSON.stringify([namespace, apiVersion, kind, name, uid]);
  // Berth keeps hundreds of thousands of keys, and a user who creates pods chooses their length.
  const key = text.length <= MAX_KEY ? text : createHash("sha256").update(text).digest("base64");
  const version = apiVersion.slice(apiVersion.indexOf("/") + 1);
  return { key, namespace, group: groupOf(apiVersion), version, ref };
}

export function controllerOf({ ownerReferences }: ObjectMeta): OwnerReference | undefined {
  return ownerReferences?.find(({ controller }) => controller === true);
}

/**
 * True for a reference that can name no object, so Berth sends no request for it. The API server does not check
 * references. A name has at most 253 ASCII characters.
 */
export function isNoName({ apiVersion, kind, name, uid }: OwnerReference): boolean {
  return [apiVersion, kind, name, uid].some((text) => text.length > 2 * MAX_NAME || !/^[!-~]*$/.test(text));
}

/** An estimate of the memory for a reference, in bytes. */
export function bytesOf({ apiVersion, kind, name, uid }: OwnerReference): number {
  return 160 + apiVersion.length + kind.length + name.length + uid.length;
}

/** True for a kind with which Kubernetes itself creates pods. */
export function isWorkload({ apiVersion, kind }: Pick<OwnerReference, "apiVersion" | "kind">): boolean {
  return WORKLOADS.has(kindText({ group: groupOf(apiVersion), kind }));
}

export function kindText({ group, kind }: { readonly group: string; readonly kind: string }): string {
  return `${group}/${kind}`;
}

export function kindOf({ group, ref: { kind } }: NamedOwner): string {
  return kindText({ group, kind });
}

/** `""` for the core group. */
export function groupOf(apiVersion: string): string {
  return apiVersion.slice(0, Math.max(0, apiVersion.indexOf("/")));
}
