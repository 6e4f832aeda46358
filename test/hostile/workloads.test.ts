/** What a review of a Workload may cost, whatever it holds: the port takes reviews that no API server has checked. */
import { expect, it } from "vitest";
import { validateWorkload, type WorkloadInput } from "../../packages/fleet/src/admit/workload.ts";
import { DEFAULT_CATALOG } from "../../packages/fleet/src/fleet/document.ts";

const validate = (object: object, old?: object): ReturnType<typeof validateWorkload> => {
  const limits = { template: 32 * 1024, total: 16 * 1024 ** 2 };
  const input: WorkloadInput = {
    object,
    old,
    namespace: "evil",
    cities: undefined,
    catalog: DEFAULT_CATALOG,
    limits,
    networking: false,
  };
  return validateWorkload(input);
};

it("repeats no long name for each fault below it", () => {
  const NAME = 100_000;
  const ports = Array.from({ length: 1000 }, () => ({ name: "!", port: 0 }));
  const named = (name: string): object => ({
    spec: { template: { spec: { runtime: { sandbox: { containers: [{ name, image: "i", ports }] } } } } },
  });
  const { faults } = validate(named("a".repeat(NAME)), named("b".repeat(NAME)));
  expect(faults).toHaveLength(200);
  expect(Math.max(...faults.map(({ place }) => place.length))).toBeLessThan(1000);
});

it("takes no Workload with so many cities that one look at it holds Berth for seconds", () => {
  const placements = (count: number, minReplicas = 1): object => ({
    spec: {
      placements: Array.from({ length: count }, (_, at) => ({
        name: `p${at}`,
        cityCodes: Array.from({ length: 100 }, (_city, city) => `C${city}`),
        scaleSettings: { minReplicas },
      })),
    },
  });
  const tooMany = (object: object, old?: object): readonly string[] =>
    validate(object, old).faults.flatMap(({ field, message }) =>
      field === "spec.placements" ? message : [],
    );
  expect(tooMany(placements(11))).toEqual([
    "Invalid value: 1100: must have at most 1000 cities over all placements",
  ]);
  expect(tooMany(placements(10))).toEqual([]);
  expect(tooMany(placements(11, 2), placements(11))).toEqual([]);
  expect(tooMany(placements(12), placements(11))).toHaveLength(1);
});
