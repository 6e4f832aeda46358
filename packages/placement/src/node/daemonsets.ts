/** The DaemonSets of the cluster, as capabilities read them: placement fields and images. */
import { isDeepStrictEqual } from "node:util";
import { pick, type Read, type View } from "@berth/host";
import { type DaemonSet, type DaemonSetStatus, daemonSets, type PodSpec } from "@berth/kube";
import type { Change } from "@berth/runtime";
import { slimPodMetadata, slimPodSpec } from "./pod-fields.ts";

/** @param name of the capability. @param isNeeded whether documents in force need DaemonSets. */
export function daemonSetsRead<C>(name: string, isNeeded: (inForce: C) => boolean): Read<DaemonSet, C> {
  return {
    name: `daemonsets-of-${name}`,
    resource: daemonSets,
    isFirst: true,
    consequence: "what depends on them is unknown",
    wanted: (inForce) => (isNeeded(inForce) ? [{ project: slimDaemonSet }] : []),
  };
}

/** Does the change decide which nodes get pods of DaemonSets? A new image or a change of status does not. */
export function movesPods(change: Change<DaemonSet>): boolean {
  return change.type !== "updated" || !isDeepStrictEqual(whatDecides(change.old), whatDecides(change.object));
}

export interface DaemonSetObservations {
  /** `undefined` while the DaemonSets have not been read; `null` when there is none of this name. */
  daemonSet(namespace: string, name: string): DaemonSet | null | undefined;
}

export function daemonSetsIn(view: Pick<View<DaemonSet>, "find">): DaemonSetObservations {
  return { daemonSet: (namespace, name) => view.find(name, namespace) };
}

/**
 * Keeps identity, placement fields, images and the number of ready pods. The type promises more fields, but callers
 * must not read them.
 */
function slimDaemonSet({ metadata, spec, status }: DaemonSet): DaemonSet {
  return {
    ...(metadata && { metadata: { ...slimPodMetadata(metadata), ...pick(metadata, ["generation"]) } }),
    ...(status && { status: pick(status, ["numberReady"]) as DaemonSetStatus }),
    ...(spec && {
      spec: {
        selector: spec.selector,
        template: {
          ...(spec.template.metadata && { metadata: slimPodMetadata(spec.template.metadata) }),
          ...(spec.template.spec && { spec: slimPodSpec(spec.template.spec) }),
        },
      },
    }),
  };
}

/** The kept fields that decide which nodes get a pod of the DaemonSet. */
function whatDecides({ metadata, spec }: DaemonSet): unknown {
  const template: Partial<PodSpec> = spec?.template.spec ?? {};
  const { nodeName, nodeSelector, tolerations, hostNetwork, affinity, priorityClassName } = template;
  return [
    metadata && pick(metadata, ["uid", "deletionTimestamp"]),
    spec?.selector,
    { nodeName, nodeSelector, tolerations, hostNetwork, affinity, priorityClassName },
  ];
}
