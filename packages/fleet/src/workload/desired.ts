/** Which deployments a Workload asks for, and what stands in their way. */
import { deploymentName } from "../api/keys.ts";
import type { Placement, Workload, WorkloadDeployment } from "../api/workload.ts";

export interface TargetView {
  readonly workload: Workload;
  /** Any deployment of its namespace, by name. */
  readonly deploymentNamed: (name: string) => WorkloadDeployment | undefined;
  /** City codes: `citiesOf` the Locations or, with networking off, those of the Fleet document. */
  readonly cities: ReadonlySet<string>;
  /** Why the cities are not known. Then no deployment is created. */
  readonly citiesUnread?: string | undefined;
  /** For the end of a message about a city that is not served: why a Location that has it does not count. */
  readonly cityNote?: ((city: string) => string) | undefined;
}

/** One placement in one city. */
export interface Target {
  readonly name: string;
  readonly placement: Placement;
  readonly city: string;
  /** Absent: it does not exist. */
  readonly existing?: WorkloadDeployment | undefined;
  /** `unserved`: no Location has the city, `unread`: that is not known. `taken`: the name is another deployment's. */
  readonly is: "create" | "keep" | "deleting" | "unserved" | "unread" | "taken";
}

/** All targets in the order of the spec. A deployment that exists is kept without a Location as well. */
export function targetsOf(view: TargetView): readonly Target[] {
  const { workload, cities, deploymentNamed } = view;
  const { name: workloadName = "", uid } = workload.metadata ?? {};
  const names = new Set<string>();
  return (workload.spec?.placements ?? []).flatMap((placement) =>
    placement.cityCodes.map((city): Target => {
      const name = deploymentName(workloadName, placement.name, city);
      const existing = deploymentNamed(name);
      const target = { name, placement, city, existing };
      const isFirst = !names.has(name);
      names.add(name);
      if (existing?.metadata?.deletionTimestamp !== undefined) return { ...target, is: "deleting" };
      if (!isFirst || (existing !== undefined && !isOf(existing, uid, placement.name, city)))
        return { ...target, is: "taken" };
      if (existing !== undefined) return { ...target, is: "keep" };
      if (view.citiesUnread !== undefined) return { ...target, is: "unread" };
      return { ...target, is: cities.has(city) ? "create" : "unserved" };
    }),
  );
}

function isOf(
  { spec }: WorkloadDeployment,
  uid: string | undefined,
  placement: string,
  city: string,
): boolean {
  return spec?.workloadRef.uid === uid && spec?.placementName === placement && spec.cityCode === city;
}

/** Why the name of a target is taken, as a sentence. */
export function describeTaken({ name, existing }: Target): string {
  const { workloadRef, placementName, cityCode } = existing?.spec ?? {};
  return existing === undefined
    ? `two placements and cities of the Workload make the name "${name}": rename a placement`
    : `deployment "${name}" is of Workload "${workloadRef?.name ?? ""}", placement "${placementName ?? ""}", city "${cityCode ?? ""}": rename this Workload or its placement`;
}
