/** API group of all kinds of Berth. */
export const API_GROUP = "berth.dev";

/** The version in which they are served and stored. */
export const API_GROUP_VERSION = "v1alpha1";
