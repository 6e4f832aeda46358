/** The version of this release. `make release` sets it, and a test compares it with package.json. */
export const VERSION = "0.1.0";

/** `make build` puts the commit into the bundle. */
declare const BERTH_REVISION: string | undefined;

/** The commit that this program was built from, with `-modified` if other files were there; else `unknown`. */
export const REVISION: string = typeof BERTH_REVISION === "string" ? BERTH_REVISION : "unknown";

/** The versions of Kubernetes that `make compat` runs every capability on. A test compares it with the test cluster. */
export const TESTED_KUBERNETES: readonly string[] = ["1.35.4", "1.36.3", "1.37.2"];
