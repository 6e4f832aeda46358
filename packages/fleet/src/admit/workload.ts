/** Is a Workload valid? Everything is JSON of a user: any client can send what no schema has checked. */

import type { SizeLimits } from "../deployment/template-size.ts";
import type { Catalog } from "../fleet/document.ts";
import { type Fault, type Faults, newFaults } from "./fault.ts";
import { Field } from "./field.ts";
import { dnsLabel } from "./names.ts";
import { boundNetworkFaults, interfaceFaults, newNetworks, type UsedNetwork } from "./network.ts";
import { placementFaults } from "./placements.ts";
import { attachedNames, runtimeFaults } from "./runtime.ts";
import { sizeFaults } from "./size.ts";
import { ownedFaults, sshKeyFaults } from "./template.ts";
import { volumeFaults } from "./volumes.ts";

export interface WorkloadInput {
  readonly object: unknown;
  /** The stored object, for an update. */
  readonly old?: unknown;
  readonly namespace: string;
  /**
   * City codes that are registered, sorted. `undefined`: not known yet. Then every city is accepted, because an empty
   * cache must not keep Workloads out. The condition of a deployment says when no Location has its city.
   */
  readonly cities: readonly string[] | undefined;
  /** For the end of a message that refuses a city. */
  readonly cityNote?: ((city: string) => string) | undefined;
  readonly catalog: Catalog;
  readonly limits: SizeLimits;
  /** Gate `ContainerResources` of the Fleet. Default false. */
  readonly containerResources?: boolean;
  /** Is there a networking service that says which networks a user may use? */
  readonly networking: boolean;
}

export interface WorkloadResult {
  /** In the order of the rules, at most `MAX_FAULTS`. For an update without those of the stored object. */
  readonly faults: readonly Fault[];
  /** The networks about which the API server is to be asked, unless there are faults: see `accessQuestion`. */
  readonly networks: readonly UsedNetwork[];
}

/** A hostile object has as many faults as bytes. */
export const MAX_FAULTS = 200;

export function validateWorkload(input: WorkloadInput): WorkloadResult {
  const [workload, old] = [new Field("", input.object), new Field("", input.old)];
  const found = workloadFaults(workload, old, input);
  const faults = old.isSet ? newFaults(found, workloadFaults(old, old, input)) : found;
  return {
    faults: faults.take(MAX_FAULTS).toArray(),
    networks: input.networking ? newNetworks(workload, old) : [],
  };
}

function* workloadFaults(workload: Field, old: Field, input: WorkloadInput): Faults {
  const { namespace, cities, cityNote, catalog, limits, containerResources } = input;
  const name = workload.get("metadata").get("name");
  const [spec, template] = [workload.get("spec"), workload.get("spec").get("template")];
  const [runtime, volumes] = [template.get("spec").get("runtime"), template.get("spec").get("volumes")];
  yield* placementFaults(spec.get("placements"), { workload: name.text, cities, cityNote });
  yield* sshKeyFaults(template);
  yield* volumeFaults(volumes, attachedNames(runtime));
  const byName = new Map(volumes.items().map((it) => [it.get("name").text, it]));
  yield* runtimeFaults(runtime, { catalog, containerResources, volumes: byName });
  yield* interfaceFaults(template.get("spec").get("networkInterfaces"), namespace);
  if (input.networking) yield* boundNetworkFaults(workload, old, namespace);
  const problem = name.text === "" ? undefined : dnsLabel(name.text);
  if (problem !== undefined) yield name.invalid(problem);
  yield* ownedFaults(template);
  yield* sizeFaults(workload, old, limits);
}
