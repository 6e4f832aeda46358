/** Is a Workload valid? Everything is JSON of a user: any client can send what no schema has checked. */
import type { Catalog } from "../fleet/document.ts";
import type { Fault, Faults } from "./fault.ts";
import { Field } from "./field.ts";
import { dnsLabel } from "./names.ts";
import { interfaceFaults, newNetworks, type UsedNetwork } from "./network.ts";
import { placementFaults } from "./placements.ts";
import { attachedNames, runtimeFaults } from "./runtime.ts";
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
  readonly catalog: Catalog;
  /** Is there a networking service that says which networks a user may use? */
  readonly networking: boolean;
}

export interface WorkloadResult {
  /** In the order of the rules, at most `MAX_FAULTS`. */
  readonly faults: readonly Fault[];
  /** The networks about which the API server is to be asked: see `accessQuestion`. */
  readonly networks: readonly UsedNetwork[];
}

/** A hostile object has as many faults as bytes. */
export const MAX_FAULTS = 200;

export function validateWorkload(input: WorkloadInput): WorkloadResult {
  const [workload, old] = [new Field("", input.object), new Field("", input.old)];
  return {
    faults: workloadFaults(workload, old, input).take(MAX_FAULTS).toArray(),
    networks: input.networking ? newNetworks(workload, old) : [],
  };
}

function* workloadFaults(workload: Field, old: Field, { namespace, cities, catalog }: WorkloadInput): Faults {
  const name = workload.get("metadata").get("name");
  const [spec, template] = [workload.get("spec"), workload.get("spec").get("template")];
  const [runtime, volumes] = [template.get("spec").get("runtime"), template.get("spec").get("volumes")];
  yield* placementFaults(spec.get("placements"), { workload: name.text, cities, old });
  yield* sshKeyFaults(template);
  yield* volumeFaults(volumes, attachedNames(runtime));
  const byName = new Map(volumes.items().map((it) => [it.get("name").text, it]));
  yield* runtimeFaults(runtime, { catalog, volumes: byName });
  yield* interfaceFaults(template.get("spec").get("networkInterfaces"), namespace);
  const problem = name.text === "" ? undefined : dnsLabel(name.text);
  if (problem !== undefined) yield name.invalid(problem);
  yield* ownedFaults(template);
}
