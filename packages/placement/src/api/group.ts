/** API group of all kinds of Berth. */
export const API_GROUP = "berth.dev";

/** The version in which the API server serves and stores them. */
export const API_GROUP_VERSION = "v1alpha1";
