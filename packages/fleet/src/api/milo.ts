/** The parts of Milo that the fleet reads: which projects there are, and where the control plane of each is. */
import { type Condition, defineResource, type KubeObject, type Resource } from "@berth/kube";
import { type ClusterName, clusterName, isConditionTrue } from "@berth/runtime";
import { PROJECT_PATH } from "./keys.ts";

const group = "resourcemanager.miloapis.com";
const version = "v1alpha1";

export interface Project extends KubeObject {
  readonly spec?: { readonly ownerRef?: { readonly kind: string; readonly name: string } };
  readonly status?: { readonly conditions?: readonly Condition[] };
}

export const projects: Resource<Project> = defineResource({
  group,
  version,
  plural: "projects",
  kind: "Project",
  namespaced: false,
});

/** The API server that lists them. */
export const MILO: ClusterName = clusterName("milo");

/** A control plane of Milo has this namespace, and not always `kube-system`. Its uid is the identity of a project. */
export const PROJECT_IDENTITY = "default";

/** The path of a control plane, below the address of Milo. */
export function controlPlaneOf(project: string): string {
  return `/apis/${group}/${version}/projects/${project}/control-plane`;
}

/** `acme/web`: the organisation and the name. `undefined`: its control plane was never ready, or its name is none of a project. */
export function pathOfProject({ metadata, spec, status }: Project): string | undefined {
  const { kind, name: organisation } = spec?.ownerRef ?? {};
  const { name = "" } = metadata ?? {};
  const path = kind === "Organization" && organisation ? `${organisation}/${name}` : name;
  return isConditionTrue(status?.conditions, "Ready") && PROJECT_PATH.test(path) ? path : undefined;
}
