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
  /** The stored object. */
  readonly old: Field;
}

/** A label of Instances has the name of the deployment, and `-` and up to four digits follow in their own names. */
const MAX_DEPLOYMENT_NAME = 58;

export function* placementFaults(placements: Field, context: PlacementContext): Faults {
  if (placements.size === 0) yield placements.required();
  const [names, cities] = [new Set<string>(), new Set<string>()];
  const registered = context.cities && new Set(context.cities);
  const stored = storedCities(context.old);
  for (const placement of placements.items()) {
    const name = placement.get("name");
    yield* nameFaults(name, names);
    const codes = placement.get("cityCodes");
    if (codes.size === 0) yield codes.required();
    for (const city of codes.items()) {
      // While the cities are not known, a refusal would keep every Workload out. The deployment says it later.
      const isServed = registered?.has(city.text) ?? true;
      if (!isServed && !stored.get(name.text)?.has(city.text)) yield city.notSupported(context.cities ?? []);
      yield* codeFaults(city, name.text, context.workload);
      // Deployments have the code in lower case in their names.
      if (city.text !== "") yield* city.unique(cities, city.text.toLowerCase());
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

/** Codes by placement. A city that is no longer registered stays valid where it is. */
function storedCities(old: Field): ReadonlyMap<string, ReadonlySet<string>> {
  return new Map(
    old
      .get("spec")
      .get("placements")
      .items()
      .map((placement) => [
        placement.get("name").text,
        new Set(
          placement
            .get("cityCodes")
            .items()
            .map(({ text }) => text),
        ),
      ]),
  );
}
