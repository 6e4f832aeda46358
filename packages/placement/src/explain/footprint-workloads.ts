/** What footprints would do to objects beside nodes, for `plan`. Pure. */
import type { DaemonSet, KubeObject } from "@berth/kube";
import { addFinalizer } from "@berth/runtime";
import { type AgentTarget, staysAway } from "../node/footprint/agent/selector.ts";
import type { OwnerHold } from "../node/footprint/footprint.ts";
import { isFree, type KnownFootprints } from "../node/footprint/wait/claimants.ts";
import { decideWait, type WaitView } from "../node/footprint/wait/decide.ts";

/** A Deployment that would be rolled out, for its init containers change. */
export interface WaitForecast {
  /** `namespace/name`. */
  readonly deployment: string;
  /** Names of init containers that are put in or changed. */
  readonly put: readonly string[];
  readonly taken: readonly string[];
}

export interface WaitForecastView extends Omit<WaitView, "footprints" | "isFree"> {
  readonly footprints: KnownFootprints;
}

/**
 * As the reconciler of waits decides it. `undefined`: the Deployment is left as it is. `unknown`: what its pods are
 * selected by has not been read.
 */
export function forecastWait({
  deployment,
  installation,
  footprints,
  sight,
}: WaitForecastView): WaitForecast | "unknown" | undefined {
  let isOpen = false;
  const noting = <T>(answer: T): T => {
    isOpen ||= answer === undefined;
    return answer;
  };
  const { bodies, put, taken } = decideWait({
    deployment,
    installation,
    footprints: footprints.footprints,
    isFree: (container) => isFree(container, footprints),
    sight: {
      namespaceLabels: (name) => noting(sight.namespaceLabels(name)),
      driverOfClaim: (namespace, claim) => noting(sight.driverOfClaim(namespace, claim)),
    },
  });
  if (bodies.length === 0) return isOpen ? "unknown" : undefined;
  if (put.length + taken.length === 0) return undefined;
  const { namespace = "", name = "" } = deployment.metadata ?? {};
  return { deployment: `${namespace}/${name}`, put: put.map((it) => it.name), taken };
}

/** Would the hold put its finalizer on this owner? */
export function wouldHold({ finalizer }: Pick<OwnerHold, "finalizer">, owner: KubeObject): boolean {
  return addFinalizer(owner, finalizer) !== undefined;
}

/** Does the DaemonSet go by the label of its footprint? */
export function asksFor({ spec }: DaemonSet, footprint: AgentTarget): boolean {
  return staysAway(spec?.template.spec, footprint);
}
