import type { Installed, Product } from "@berth/host";

export const API_GROUP = "berth.dev";

/** The version in which the API server serves and stores them. */
export const API_GROUP_VERSION = "v1alpha1";

/** The program that all of this is part of. */
export const product: Product = {
  name: "berth",
  domain: API_GROUP,
  // Startup gates needed them first. The Secrets of earlier releases have this label.
  certificates: "startup-gate",
  printsCrds: "berth manifests crds",
};

export function berthAs(installation: string): Installed {
  return { product, installation };
}
