/** API groups of the fleet and of the systems that it talks to. */
export const COMPUTE_GROUP = "compute.datumapis.com";
export const COMPUTE_VERSION = "v1alpha";
export const NETWORKING_GROUP = "networking.datumapis.com";
export const NETWORKING_VERSION = "v1alpha";
export const QUOTA_GROUP = "quota.miloapis.com";
export const QUOTA_VERSION = "v1alpha1";
/** Of Berth's own kinds. */
export const BERTH_GROUP = "berth.dev";
export const BERTH_VERSION = "v1alpha1";
