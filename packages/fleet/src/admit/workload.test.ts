import * as fc from "fast-check";
import { describe, expect, it } from "vitest";
import { DEFAULT_CATALOG } from "../fleet/document.ts";
import { toCause } from "./fault.ts";
import { accessFaults, accessQuestion } from "./network.ts";
import {
  type Changes,
  changed,
  faultsOf,
  machineWorkload,
  named,
  sandboxWorkload,
  validate,
} from "./testing/workloads.ts";
import { MAX_FAULTS, validateWorkload } from "./workload.ts";

const placement = (name: string, ...cityCodes: readonly string[]): object => ({
  name,
  cityCodes,
  scaleSettings: { minReplicas: 1 },
});

describe("3.2 rules beyond those of the original", () => {
  const cases: readonly (readonly [about: string, Changes, ...faults: readonly string[]])[] = [
    [
      "placements of one name",
      { "spec/placements": [placement("us", "DFW"), placement("us", "ORD")] },
      "Duplicate spec.placements[1].name",
    ],
    [
      "a city twice, in other case",
      { "P/cityCodes": ["DFW", "dfw"] },
      "NotSupported P.cityCodes[1]",
      "Duplicate P.cityCodes[1]",
    ],
    [
      "a city in two placements",
      { "spec/placements": [placement("a", "DFW"), placement("b", "DFW")] },
      "Duplicate spec.placements[1].cityCodes[0]",
    ],
    [
      "a code that is no name",
      { "P/cityCodes": ["us east"] },
      "NotSupported P.cityCodes[0]",
      "Invalid P.cityCodes[0]",
    ],
    [
      "a deployment whose name has 59 characters",
      { "metadata/name": "a".repeat(52) },
      "Invalid P.cityCodes[0]",
    ],
    ["a deployment whose name has 58 characters", { "metadata/name": "a".repeat(51) }],
    ["a name with a dot", { "metadata/name": "a.b" }, "Invalid metadata.name"],
    ["no name yet", { "metadata/name": undefined }],
    [
      "a maximum below the minimum",
      {
        "P/scaleSettings": {
          minReplicas: 2,
          maxReplicas: 1,
          metrics: [{ resource: { name: "cpu", target: { value: 1 } } }],
        },
      },
      "Invalid P.scaleSettings.maxReplicas",
    ],
    ["metrics without a maximum", { "P/scaleSettings/metrics": [{}] }, "Forbidden P.scaleSettings.metrics"],
    ["a controller", { "S/controller": { templateHash: "x" } }, "Forbidden S.controller"],
    ["a location", { "S/location": { name: "a", namespace: "b" } }, "Forbidden S.location"],
    [
      "labels and annotations of compute",
      {
        "T/metadata/labels": {
          "compute.datumapis.com/instance-index": "0",
          "compute.datumapis.com.example/a": "",
        },
        "T/metadata/annotations": { "compute.datumapis.com/other": "" },
      },
      "Forbidden T.metadata.labels[compute.datumapis.com/instance-index]",
      "Forbidden T.metadata.annotations[compute.datumapis.com/other]",
    ],
    [
      "a time of a restart",
      { "T/metadata/annotations": { "compute.datumapis.com/restartedAt": "2026-01-31T12:00:00Z" } },
    ],
    [
      "another time of a restart",
      { "T/metadata/annotations": { "compute.datumapis.com/restartedAt": "yesterday" } },
      "Invalid T.metadata.annotations[compute.datumapis.com/restartedAt]",
    ],
    ["a network of the own namespace", { "S/networkInterfaces/0/network/namespace": "default" }],
    ["a network of no namespace", { "S/networkInterfaces/0/network/namespace": "" }],
    [
      "a network of another namespace",
      { "S/networkInterfaces/0/network/namespace": "other" },
      "Invalid S.networkInterfaces[0].network.namespace",
    ],
  ];
  for (const [about, changes, ...faults] of cases) {
    it(`3.2 ${about}`, () => {
      const object = changed(sandboxWorkload, changes);
      expect(faultsOf(object)).toEqual(faults.map(named));
      expect(faultsOf(object, { old: sandboxWorkload })).toEqual(faults.map(named));
    });
  }
});

describe("an update", () => {
  const cities = ["ORD"];
  const old = sandboxWorkload;

  it("A5 rule 4 keeps a city that is no longer registered, in its placement", () => {
    const object = changed(old, { "P/scaleSettings/minReplicas": 3 });
    expect(faultsOf(object, { cities })).toEqual(["NotSupported spec.placements[0].cityCodes[0]"]);
    expect(faultsOf(object, { cities, old })).toEqual([]);
    const renamed = changed(old, { "P/name": "eu" });
    expect(faultsOf(renamed, { cities, old })).toEqual(["NotSupported spec.placements[0].cityCodes[0]"]);
  });

  it("A5 rule 49 asks about changed networks again, and about none while networking is off", () => {
    const two = changed(old, {
      "S/networkInterfaces": ["default", "new", "new", "A"].map((name) => ({ network: { name } })),
    });
    const asked = (input: object): unknown =>
      validateWorkload({ object: two, namespace: "default", cities, catalog: {}, networking: true, ...input })
        .networks;
    const added = [1, 2].map((index) => ({ index, name: "new" }));
    expect(asked({})).toEqual([{ index: 0, name: "default" }, ...added]);
    expect(asked({ old })).toEqual(added);
    expect(asked({ networking: false })).toEqual([]);
  });
});

describe("cities", () => {
  it("A5 rule 4 are all accepted while none is known, and refused when there are none", () => {
    expect(faultsOf(sandboxWorkload, { cities: undefined })).toEqual([]);
    expect(faultsOf(sandboxWorkload, { cities: [] })).toEqual([
      "NotSupported spec.placements[0].cityCodes[0]",
    ]);
  });
});

describe("access to networks", () => {
  it("A7 is asked with all that the API server knows of the user", () => {
    const user = {
      username: "alice",
      uid: "u1",
      groups: ["dev"],
      extra: { "example.com/parent-name": ["web"] },
    };
    expect(accessQuestion(user, { namespace: "default", name: "blue" })).toEqual({
      user: "alice",
      uid: "u1",
      groups: ["dev"],
      extra: { "example.com/parent-name": ["web"] },
      resourceAttributes: {
        verb: "use",
        group: "networking.datumapis.com",
        version: "v1alpha",
        resource: "networks",
        namespace: "default",
        name: "blue",
      },
    });
  });

  it.each([
    [{ kind: "allowed" }, []],
    [{ kind: "denied", message: "" }, ["Forbidden: you may not use network blue"]],
    [{ kind: "denied", message: "no quota" }, ["Forbidden: you may not use network blue: no quota"]],
    [
      { kind: "failed", message: "503" },
      ["Internal error: it is not known whether you may use network blue; try again: 503"],
    ],
  ] as const)("A5 rule 49 A7 %j", (access, messages) => {
    const faults = accessFaults({ index: 3, name: "blue" }, access);
    expect(faults.map(({ message }) => message)).toEqual(messages);
    for (const { field } of faults) expect(field).toBe("spec.template.spec.networkInterfaces[3].network");
  });
});

describe("a fault", () => {
  it("has the words of apimachinery", () => {
    const said = (changes: Changes, workload = sandboxWorkload): string | undefined =>
      validate(changed(workload, changes))[0]?.message;
    expect(said({ "P/name": "" })).toBe("Required value");
    expect(said({ "P/scaleSettings/minReplicas": 0 })).toBe("Invalid value: 0: must be greater than 0");
    expect(said({ "P/scaleSettings": {} })).toBe("Invalid value: 0: must be greater than 0");
    expect(said({ "P/cityCodes": ["XXX"] })).toBe('Unsupported value: "XXX": supported values: "DFW", "ORD"');
    expect(said({ "C/name": "side" })).toBe('Duplicate value: "side"');
    expect(said({ "C/image": {} })).toBe("Required value");
    expect(said({ "C/volumeAttachments/3": { name: "gone" } })).toBe('Not found: "gone"');
    expect(said({ "C/resources": {} })).toBe("Forbidden: not implemented");
    expect(said({ "S/networkInterfaces": [{}] })).toBe(
      `Invalid value: "": must be a lowercase RFC 1123 label: at most 63 lower case letters, digits and '-', with a letter or digit at both ends`,
    );
    expect(said({ "T/metadata": undefined }, machineWorkload)).toBe("Required value");
  });

  it.each([
    ["Required", "FieldValueRequired"],
    ["NotSupported", "FieldValueNotSupported"],
    ["Internal", "InternalError"],
  ] as const)("of type %s has the cause %s", (type, reason) => {
    expect(toCause({ type, field: "spec", message: "why" })).toEqual({
      reason,
      field: "spec",
      message: "why",
    });
  });
});

describe("hostile input", () => {
  const megabyte = 2 ** 20;
  const huge = Array.from({ length: 1000 }, (_, at) => placement(`p${at}`, `C${at}`));
  const many = (length: number, item: unknown): unknown[] => Array.from({ length }, () => item);

  it.each<readonly [string, object]>([
    ["1,000 placements", changed(sandboxWorkload, { "spec/placements": huge })],
    [
      "annotations of 256 KB",
      changed(machineWorkload, {
        "T/metadata/annotations": {
          "compute.datumapis.com/ssh-keys": "a:\n".repeat(90_000),
          "compute.datumapis.com/restartedAt": "9".repeat(megabyte / 4),
        },
      }),
    ],
    [
      "one long key",
      changed(machineWorkload, {
        "T/metadata/annotations": { "compute.datumapis.com/ssh-keys": `a:ssh-rsa ${"A".repeat(megabyte)}` },
      }),
    ],
    ["a million wrong cities", changed(sandboxWorkload, { "P/cityCodes": many(megabyte, "x!") })],
    [
      "a long name",
      changed(sandboxWorkload, { "P/name": "-".repeat(megabyte), "C/ports/0/name": "a-".repeat(megabyte) }),
    ],
    [
      "many networks",
      changed(sandboxWorkload, {
        "S/networkInterfaces": huge.map((_, at) => ({ network: { name: `n${at}` } })),
      }),
    ],
    [
      "many volumes",
      changed(sandboxWorkload, { "S/volumes": many(100_000, { name: "a", disk: { deviceName: "b" } }) }),
    ],
    [
      "a long quantity",
      changed(sandboxWorkload, { "V/disk/template/spec/resources/requests/storage": "9".repeat(megabyte) }),
    ],
    [
      "names of Object",
      JSON.parse('{"__proto__":{"spec":1},"constructor":[],"spec":{"__proto__":null}}') as object,
    ],
  ])("is bounded in faults, text and questions: %s", (_, object) => {
    const cities = Array.from({ length: 1000 }, (_city, at) => `X${at}`);
    const { faults, networks } = validateWorkload({
      object,
      namespace: "default",
      cities,
      catalog: DEFAULT_CATALOG,
      networking: true,
    });
    expect(faults.length).toBeGreaterThan(0);
    expect(faults.length).toBeLessThanOrEqual(MAX_FAULTS);
    expect(networks.length).toBeLessThanOrEqual(16);
    for (const { message } of faults) expect(message.length).toBeLessThan(2000);
  });

  it("never throws, whatever is in the place of a value", () => {
    const paths = pathsOf(sandboxWorkload).concat(pathsOf(machineWorkload));
    const odd = fc.oneof(
      fc.jsonValue(),
      fc.constantFrom(null, [], [null], {}, [{}], [[]], -1, 1e300, 0.5, true, ""),
    );
    const changes = fc.dictionary(fc.constantFrom(...paths), odd, { maxKeys: 4 });
    fc.assert(
      fc.property(fc.constantFrom(sandboxWorkload, machineWorkload), changes, (valid, values) => {
        const object = replaced(valid, values);
        expect(faultsOf(object, { old: object }).length).toBeLessThanOrEqual(MAX_FAULTS);
      }),
      { numRuns: 2000 },
    );
  });
});

/** All paths to values, with `/`. */
function pathsOf(value: unknown, path = ""): readonly string[] {
  if (typeof value !== "object" || value === null) return [path];
  const below = Object.entries(value).flatMap(([name, item]) => pathsOf(item, `${path}/${name}`));
  return [path, ...below];
}

function replaced(value: unknown, by: Readonly<Record<string, unknown>>, path = ""): unknown {
  if (Object.hasOwn(by, path)) return by[path];
  if (typeof value !== "object" || value === null) return value;
  const entries = Object.entries(value).map(
    ([name, item]) => [name, replaced(item, by, `${path}/${name}`)] as const,
  );
  return Array.isArray(value) ? entries.map(([, item]) => item) : Object.fromEntries(entries);
}
