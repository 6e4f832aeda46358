/** Rules about `spec.placements`. */
import { deploymentName } from "../api/keys.ts";
import { CITY } from "../fleet/document.ts";
import type { Faults } from "./fault.ts";
import type { Field } from "./field.ts";
import { nameFaults } from "./names.ts";
import { scaleFaults } from "./scale.ts";

export interface PlacementContext {
  /** `""`: the API server did not say it, and then the names of deployments are not checked. */
  readonly workload: string;
  /** Codes that are registered, sorted. `undefined`: not known. */
  readonly cities: readonly string[] | undefined;
  /** For the end of a message that refuses a city. */
  readonly cityNote?: ((city: string) => string) | undefined;
}

/** A label of Instances has the name of the deployment, and `-` and up to four digits follow in their own names. */
const MAX_DEPLOYMENT_NAME = 58;

export function* placementFaults(placements: Field, context: PlacementContext): Faults {
  if (placements.size === 0) yield placements.required();
  const [names, deployments] = [new Set<string>(), new Set<string>()];
  const registered = context.cities && new Set(context.cities);
  for (const placement of placements.items()) {
    const name = placement.get("name");
    yield* nameFaults(name, names);
    const codes = placement.get("cityCodes");
    if (codes.size === 0) yield codes.required();
    for (const city of codes.items()) {
      // While the cities are not known, a refusal would keep every Workload out. The deployment says it later.
      if (registered?.has(city.text) === false)
        yield city.notSupported(context.cities ?? [], context.cityNote?.(city.text));
      yield* codeFaults(city, name.text, context.workload);
      // One city may be in several placements, as long as each deployment has a name of its own.
      if (city.text !== "")
        yield* city.unique(deployments, deploymentName(context.workload, name.text, city.text));
    }
    yield* scaleFaults(placement.get("scaleSettings"));
  }
}

function* codeFaults(city: Field, placement: string, workload: string): Faults {
  if (!CITY.test(city.text)) {
    yield city.invalid("must be 1 to 16 letters, digits and '-'");
    return;
  }
  const { length } = deploymentName(workload, placement, city.text);
  if (workload !== "" && length > MAX_DEPLOYMENT_NAME)
    yield city.invalid(
      `the name <workload>-<placement>-<city> would have ${length} characters; use shorter names, it must have at most ${MAX_DEPLOYMENT_NAME}`,
    );
}
