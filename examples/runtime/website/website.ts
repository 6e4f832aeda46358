import { type Condition, defineResource, type KubeObject, type Resource } from "@berth/kube";

/** A page that is published under a host name. Its schema is in crd.yaml. */
export interface Website extends KubeObject {
  readonly spec: { readonly host: string; readonly html: string };
  readonly status?: WebsiteStatus;
}

export interface WebsiteStatus {
  /** Where it can be seen; absent while it cannot. */
  readonly url?: string;
  readonly conditions?: readonly Condition[];
}

export const websites: Resource<Website> = defineResource<Website>({
  group: "example.com",
  version: "v1",
  plural: "websites",
  kind: "Website",
  namespaced: true,
});
