/** The namespaces on the hub and in cells. Their marks are written at their creation only, and never corrected. */
import type { KubeObject, ObjectMeta } from "@berth/kube";
import { annotations as keys, labels, projectMarks, projectOfNamespace } from "../../api/keys.ts";
import type { HubReason } from "../../api/reasons.ts";
import { isDeleting, type ProjectSeen } from "../source.ts";

type Marks = Required<Pick<ObjectMeta, "labels" | "annotations">>;

/** @param upstream the namespace in the project. */
export function hubNamespace(name: string, { path, uid }: ProjectSeen, upstream: string): KubeObject {
  const { labels: project, annotations } = projectMarks(path);
  return {
    apiVersion: "v1",
    kind: "Namespace",
    metadata: {
      name,
      labels: { ...project, [labels.upstreamNamespace]: upstream },
      annotations: { ...annotations, [keys.projectUid]: uid },
    },
  };
}

/** Which project, and which namespace of it, a namespace is for. */
export function upstreamMarks({ metadata }: KubeObject): Marks {
  const { labels: found = {}, annotations = {} } = metadata ?? {};
  const { [labels.upstreamCluster]: cluster, [labels.upstreamNamespace]: namespace } = found;
  const path = annotations[keys.upstreamCluster];
  return {
    labels: {
      ...(cluster !== undefined && { [labels.upstreamCluster]: cluster }),
      ...(namespace !== undefined && { [labels.upstreamNamespace]: namespace }),
    },
    annotations: path === undefined ? {} : { [keys.upstreamCluster]: path },
  };
}

/** Why nothing may be written there. `undefined`: it is the namespace of this one's project. */
export function namespaceFault(
  present: KubeObject,
  wanted: KubeObject,
): { readonly reason: HubReason; readonly message: string } | undefined {
  const { name = "" } = present.metadata ?? {};
  if (isDeleting(present))
    return { reason: "NamespaceEnding", message: `namespace ${name} is being deleted` };
  const [found, should] = [describe(present), describe(wanted)];
  if (found !== should)
    return { reason: "NamespaceConflict", message: `namespace ${name} is of ${found}, and not of ${should}` };
  const uid = wanted.metadata?.annotations?.[keys.projectUid];
  const other = present.metadata?.annotations?.[keys.projectUid];
  // Another program made it: its name says which namespace it is for, and no other project has one with that uid.
  if (uid === undefined || other === undefined || other === uid) return undefined;
  return {
    reason: "ProjectReplaced",
    message: `namespace ${name} is of a project ${other}, and not of ${uid}`,
  };
}

/** Other writers of the label name the organisation, or do not. The project counts. */
function describe(namespace: KubeObject): string {
  const project = projectOfNamespace(namespace) ?? "no project";
  return `${project}/${namespace.metadata?.labels?.[labels.upstreamNamespace] ?? "no namespace"}`;
}
