/** What to do about an Instance of the hub that cannot be shown in its project now. */
import type { KubeObject } from "@berth/kube";
import { annotations as keys, labels, projectOfNamespace } from "../../api/keys.ts";
import type { HubReason } from "../../api/reasons.ts";
import { isDeleting } from "../source.ts";

export interface ClassifyView {
  /** Labels of the copy. Its namespace has the annotations. */
  readonly copy: KubeObject;
  readonly namespace: KubeObject | undefined;
  /** Is its project connected, and read? `failed`: it answered with an error. */
  readonly project: "synced" | "unknown" | "failed";
  readonly hasDeployment: boolean;
  /** Since this process saw it first without the deployment, monotonic ms. */
  readonly unseenForMs: number;
}

export type Class =
  | { readonly is: "fine" | "nothing" | "retry" }
  /** Reported once, and looked at again when its identity changes. It is never deleted. */
  | { readonly is: "terminal"; readonly reason: HubReason; readonly fingerprint: string };

/** How long a project may not have the deployment of an Instance, ms. */
const GRACE_MS = 60_000;

export function classify(view: ClassifyView): Class {
  const { copy, project, hasDeployment, unseenForMs } = view;
  if (isDeleting(copy)) return { is: "nothing" };
  const terminal = (reason: HubReason): Class => ({
    is: "terminal",
    reason,
    fingerprint: fingerprintOf(view),
  });
  const found = copy.metadata?.labels ?? {};
  const identity = [labels.upstreamCluster, labels.upstreamNamespace, labels.deploymentName];
  if (identity.some((key) => !found[key])) return terminal("IdentityMissing");
  if (projectOf(view) === undefined) return terminal("IdentityUndecodable");
  if (project !== "synced") return { is: "retry" };
  if (hasDeployment) return { is: "fine" };
  return unseenForMs < GRACE_MS ? { is: "retry" } : terminal("ProjectDeploymentMissing");
}

/** The project of a copy: by its labels, and the annotation that its namespace has for a long path. */
export function projectOf({ copy, namespace }: Pick<ClassifyView, "copy" | "namespace">): string | undefined {
  const { labels: own } = copy.metadata ?? {};
  const { annotations } = namespace?.metadata ?? {};
  return projectOfNamespace({
    metadata: { ...(own && { labels: own }), ...(annotations && { annotations }) },
  });
}

function fingerprintOf({ copy, namespace, hasDeployment }: ClassifyView): string {
  const found = copy.metadata?.labels ?? {};
  const identity = [labels.upstreamCluster, labels.upstreamNamespace, labels.deploymentName];
  const path = namespace?.metadata?.annotations?.[keys.upstreamCluster];
  return JSON.stringify([...identity.map((key) => found[key] ?? null), path ?? null, hasDeployment]);
}
