/** References to owners, as they stand on objects: whoever makes a pod can write any. */
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

/** What Kubernetes itself makes pods with, by `kindText`: these need no discovery. */
export const WORKLOADS: ReadonlyMap<string, Resource> = new Map(
  [replicaSets, deployments, statefulSets, daemonSets, jobs, cronJobs, replicationControllers].map(
    (resource) => [kindText(resource), resource],
  ),
);

/** Of the name of an object (apimachinery `DNS1123SubdomainMaxLength`). */
const MAX_NAME = 253;
/** Of the key of an owner, in characters of ASCII. */
export const MAX_KEY = 256;

/** An owner as a reference names it, in the namespace of what it owns. */
export interface NamedOwner {
  /** Of all that the reference says: a forged one must not answer for the owner whose uid it names. At most `MAX_KEY`. */
  readonly key: string;
  readonly namespace: string;
  readonly group: string;
  readonly version: string;
  readonly ref: OwnerReference;
}

export function toNamedOwner(ref: OwnerReference, namespace: string): NamedOwner {
  const { apiVersion, kind, name, uid } = ref;
  const text = JSON.stringify([namespace, apiVersion, kind, name, uid]);
  // Hundreds of thousands are remembered, and whoever makes pods chooses how long they are.
  const key = text.length <= MAX_KEY ? text : createHash("sha256").update(text).digest("base64");
  const version = apiVersion.slice(apiVersion.indexOf("/") + 1);
  return { key, namespace, group: groupOf(apiVersion), version, ref };
}

export function controllerOf({ ownerReferences }: ObjectMeta): OwnerReference | undefined {
  return ownerReferences?.find(({ controller }) => controller === true);
}

/**
 * Names of objects have at most 253 characters of ASCII, and references are not checked: what is longer or has others is not
 * even asked for.
 */
export function isNoName({ apiVersion, kind, name, uid }: OwnerReference): boolean {
  return [apiVersion, kind, name, uid].some((text) => text.length > 2 * MAX_NAME || !/^[!-~]*$/.test(text));
}

/** What a reference takes in memory. */
export function bytesOf({ apiVersion, kind, name, uid }: OwnerReference): number {
  return 160 + apiVersion.length + kind.length + name.length + uid.length;
}

/** Does Kubernetes itself make pods with it? */
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
