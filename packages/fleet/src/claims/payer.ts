/** Which project pays for a namespace, and which API server has its claims. */
import type { View } from "@berth/host";
import type { KubeClient, Namespace } from "@berth/kube";
import { labels, projectOfNamespace } from "../api/keys.ts";
import { controlPlaneOf } from "../api/milo.ts";
import type { FleetSpec, QuotaSpec } from "../fleet/document.ts";
import type { CurrentFleet } from "../fleet/follow.ts";
import type { QuotaSeen } from "../instance/view.ts";
import { by } from "../wiring/reads.ts";
import type { ClaimRef } from "./plane.ts";

/** The API servers with the claims. */
export interface QuotaClients<C = KubeClient> {
  /** That of a project: a cluster of its own for what is read. */
  readonly clientOf: (project: string) => C;
  /** All projects share one. */
  readonly isShared: boolean;
}

/** @param client of this cluster, or of `quota.kubeconfig` where there is one. */
export function quotaClients(from: QuotaSpec["from"] | undefined, client: KubeClient): QuotaClients {
  if (from === "Projects")
    return { clientOf: (project) => client.under(controlPlaneOf(project)), isShared: false };
  return { clientOf: () => client, isShared: from !== undefined };
}

/** The project and the namespace there. In mode `single` the Fleet names the project, in a cell the labels do. */
export function payerOf(
  { mode, project }: FleetSpec,
  namespace: string,
  found: Namespace | undefined,
): Omit<ClaimRef, "name"> | QuotaSeen {
  if (mode === "single") return { project: project?.id ?? "", namespace };
  if (found === undefined)
    return {
      is: "read",
      project: "",
      claim: { is: "unknown", because: `Berth has not read namespace ${namespace}` },
    };
  const { [labels.upstreamNamespace]: upstream = "" } = found.metadata?.labels ?? {};
  const id = projectOfNamespace(found);
  if (id !== undefined && upstream !== "") return { project: id, namespace: upstream };
  const missing = id === undefined ? labels.upstreamCluster : labels.upstreamNamespace;
  return {
    is: "unresolvable",
    message: `namespace ${namespace} does not say which project pays: its label ${missing} is missing or cannot be read`,
  };
}

/** Do claims of this project still come? In a cell, of those whose namespaces are there. */
export function isPaying(
  project: string,
  {
    fleet,
    namespaces,
  }: { readonly fleet: CurrentFleet; readonly namespaces: Pick<View<Namespace>, "byIndex"> },
): boolean {
  const { mode, project: payer } = fleet.spec;
  return mode === "single" ? payer?.id === project : namespaces.byIndex(by.project, project).length > 0;
}
