import * as fc from "fast-check";
import { describe, expect, it } from "vitest";
import { templateSize } from "../deployment/template-size.ts";
import { DEFAULT_CATALOG } from "../fleet/document.ts";
import { toCause } from "./fault.ts";
import { Field } from "./field.ts";
import { accessFaults, accessQuestion } from "./network.ts";
import {
  type Changes,
  changed,
  faultsOf,
  LIMITS,
  machineWorkload,
  named,
  sandboxWorkload,
  validate,
} from "./testing/workloads.ts";
import { MAX_FAULTS, validateWorkload } from "./workload.ts";

const templateOf = (workload: object): Field => new Field("", workload).get("spec").get("template");

const placement = (name: string, ...cityCodes: readonly string[]): object => ({
  name,
  cityCodes,
  scaleSettings: { minReplicas: 1 },
});

const interfaces = (length: number): readonly object[] =>
  Array.from({ length }, () => ({ network: { name: "a" } }));

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
    ["a city in two placements", { "spec/placements": [placement("a", "DFW"), placement("b", "DFW")] }],
    [
      "deployments of one name",
      { "spec/placements": [placement("a", "B-C"), placement("a-b", "C")] },
      "NotSupported spec.placements[0].cityCodes[0]",
      "NotSupported spec.placements[1].cityCodes[0]",
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
    ["no name yet", { "metadata/name": undefined, "P/name": "a".repeat(57) }],
    [
      "cities without a code",
      { "P/cityCodes": ["", ""] },
      ...[0, 1].flatMap((at) => [`NotSupported P.cityCodes[${at}]`, `Invalid P.cityCodes[${at}]`]),
    ],
    ["16 interfaces", { "S/networkInterfaces": interfaces(16) }],
    ["17 interfaces", { "S/networkInterfaces": interfaces(17) }, "Invalid S.networkInterfaces"],
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

it("3.2 faults are told in words that name what is allowed", () => {
  const said = (changes: Changes): readonly string[] =>
    validate(changed(sandboxWorkload, changes)).map(({ message }) => message);
  const scaled = (more: object): Changes => ({ "P/scaleSettings": { minReplicas: 2, ...more } });
  const metrics = [{ resource: { name: "cpu", target: { value: 1 } } }];
  expect([
    ...said(scaled({ maxReplicas: 1, metrics })),
    ...said(scaled({ metrics })),
    ...said({ "S/controller": {}, "S/location": {} }),
    ...said({ "T/metadata/labels": { "compute.datumapis.com/x": "0" } }),
    ...said({ "T/metadata/annotations": { "compute.datumapis.com/restartedAt": "yesterday" } }),
    ...said({ "S/networkInterfaces/0/network/namespace": "other" }),
    ...said({ "S/networkInterfaces": interfaces(17) }),
    ...said({ "spec/placements": [placement("us", "DFW"), placement("us", "ORD")] }),
    ...said({ "P/cityCodes": ["DFW", "us east"] }),
  ]).toEqual([
    "Invalid value: 1: must be greater than or equal to minReplicas",
    "Forbidden: may not be set without maxReplicas",
    "Forbidden: is set by compute",
    "Forbidden: is set by compute",
    "Forbidden: the keys of this group are set by compute",
    'Invalid value: "yesterday": must be a time of RFC 3339, such as 2026-01-31T12:00:00Z',
    'Invalid value: "other": must be empty or the namespace of the Workload, default',
    "Invalid value: 17: must have at most 16 items",
    'Duplicate value: "us"',
    'Unsupported value: "us east": supported values: "DFW", "ORD"',
    "Invalid value: \"us east\": must be 1 to 16 letters, digits and '-'",
  ]);
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

  const BROKEN = changed(old, {
    "R/resources/requests": { cpu: 1 },
    "V/name": "a!",
    "V/disk/template/spec/type": "tape",
    "S/volumes/2/secret/items": [{}],
    "C/volumeAttachments/0/name": "gone",
    "S/networkInterfaces/1": { network: { name: "no name" } },
  });
  const reversed = templateOf(BROKEN)
    .get("spec")
    .get("volumes")
    .items()
    .map(({ value }) => value)
    .toArray()
    .toReversed();

  const cases: readonly (readonly [about: string, stored: Changes, Changes, ...faults: readonly string[]])[] =
    [
      ["another number", {}, { "P/scaleSettings/minReplicas": 3 }],
      ["another image of the same container", {}, { "C/image": "registry.example/app:2" }],
      ["an item that moved", {}, { "S/volumes": reversed }],
      ["a fault that is gone", {}, { "R/resources/requests": undefined }],
      [
        "one more of the same words",
        {},
        {
          "S/networkInterfaces/1": { network: { name: "no name" } },
          "S/networkInterfaces/2": { network: {} },
        },
        "Invalid S.networkInterfaces[2].network.name",
      ],
      [
        "another wrong value in its place",
        {},
        { "R/resources/requests": { cpu: 2 } },
        "Forbidden S.runtime.resources.requests",
      ],
      [
        "the same fault in another place",
        {},
        { "V/name": "b!" },
        "NotSupported V.disk.template.spec.type",
        "Invalid V.name",
        "Required V.name",
      ],
      [
        "a fault of another type",
        {},
        { "P/scaleSettings/minReplicas": -1 },
        "Invalid P.scaleSettings.minReplicas",
      ],
      [
        "a number that was too high and still is",
        { "P/scaleSettings/minReplicas": 1001 },
        { "P/scaleSettings/minReplicas": 1002 },
        "Invalid P.scaleSettings.minReplicas",
      ],
    ];
  for (const [about, before, change, ...faults] of cases)
    it(`A5 counts no fault that the stored object has: ${about}`, () => {
      const stored = changed(BROKEN, before);
      expect(faultsOf(stored).length).toBeGreaterThan(5);
      expect(faultsOf(changed(stored, change), { old: stored })).toEqual(faults.map(named));
    });

  it("C18 keeps the networks of interfaces that deployments have bound", () => {
    const live = changed(old, { "status/deployments": 1 });
    const using = (...of: readonly object[]): object =>
      changed(live, { "S/networkInterfaces": of.map((network) => ({ network })) });
    const [own, other] = [{ name: "default" }, { name: "other" }];
    const NAME = "Invalid spec.template.spec.networkInterfaces[0].network.name";
    const inOther = { ...own, namespace: "other" };
    expect(faultsOf(using(other), { old: live })).toEqual([NAME]);
    expect(faultsOf(using(other, own), { old: live })).toEqual([NAME]);
    // Stored before the rule that networks are in the own namespace.
    expect(faultsOf(using(own), { old: using(inOther) })).toEqual([NAME]);
    expect(faultsOf(using(inOther, own), { old: using(inOther) })).toEqual([]);
    expect([using(other), using()].map((object) => validate(object, { old: live }).at(-1)?.message)).toEqual([
      'Invalid value: "other": the network of an interface may not change, it is "default": create another Workload',
      "Invalid value: 0: interface 0 may not be removed: its NetworkBinding exists",
    ]);
    expect(faultsOf(using({ ...own, namespace: "default" }, other), { old: live })).toEqual([]);
    expect(faultsOf(using(own), { old: using(own, other) })).toEqual([
      "Invalid spec.template.spec.networkInterfaces",
    ]);
    // Nothing is bound: before there are deployments, and without networks.
    expect(faultsOf(using(other), { old })).toEqual([]);
    expect(faultsOf(using(other), { old: live, networking: false })).toEqual([]);
  });

  it("A5 rule 49 asks about changed networks again, and about none while networking is off", () => {
    const two = changed(old, {
      "S/networkInterfaces": ["default", "new", "new", "A"].map((name) => ({ network: { name } })),
    });
    const asked = (input: object): unknown =>
      validateWorkload({
        object: two,
        namespace: "default",
        cities,
        catalog: {},
        limits: LIMITS,
        networking: true,
        ...input,
      }).networks;
    const added = [1, 2].map((index) => ({ index, name: "new" }));
    expect(asked({})).toEqual([{ index: 0, name: "default" }, ...added]);
    expect(asked({ old })).toEqual(added);
    expect(asked({ networking: false })).toEqual([]);
  });
});

describe("the size of a template", () => {
  const limits = { template: 2000, total: 7000 };
  const size = templateSize(templateOf(sandboxWorkload).value);
  const padded = (bytes: number, minReplicas = 1): object =>
    changed(sandboxWorkload, {
      "T/metadata/labels/app": "x".repeat(bytes - size + "web".length),
      "P/scaleSettings/minReplicas": minReplicas,
    });
  const messages = (object: object, old?: object): readonly string[] =>
    validate(object, { limits, ...(old && { old }) }).map(({ field, message }) => `${field}: ${message}`);

  it("is bounded, and so is its product with the Instances of all cities", () => {
    expect(messages(padded(2000, 3))).toEqual([]);
    expect(messages(padded(2001))).toEqual([
      "spec.template: Invalid value: {…}: the template has 2001 bytes of JSON, and may have 2000: move data to ConfigMaps",
    ]);
    expect(messages(padded(2000, 4))).toEqual([
      "spec.template: Invalid value: {…}: the template of 2000 bytes times 4 Instances is 8000 bytes, and may be 7000: use a smaller template or fewer Instances",
    ]);
    expect(messages(changed(padded(2000, 2), { "P/cityCodes": ["DFW", "ORD"] }))).toHaveLength(1);
  });

  it("does not keep a Workload that is too large from being scaled down, or up within the total", () => {
    expect(messages(padded(2000, 5), padded(2000, 6))).toEqual([]);
    expect(messages(padded(2000, 7), padded(2000, 6))).toHaveLength(1);
    expect(messages(padded(2001, 2), padded(2001, 1))).toEqual([]);
    expect(messages(padded(2001, 4), padded(2001, 1))).toHaveLength(1);
    expect(messages(padded(2002, 1), padded(2001, 1))).toHaveLength(1);
  });
});

describe("cities", () => {
  it("are at most 1000 in all placements, unless more are stored", () => {
    const many = (length: number) =>
      changed(sandboxWorkload, { "P/cityCodes": Array.from({ length }, (_, at) => `C${at}`) });
    const of = (length: number, stored?: number) =>
      faultsOf(changed(many(length), { "P/scaleSettings/minReplicas": 3 }), {
        cities: undefined,
        ...(stored !== undefined && { old: many(stored) }),
      });
    const fault = "Invalid spec.placements";
    expect([of(1000), of(1001), of(1001, 1001), of(1002, 1001)]).toEqual([[], [fault], [], [fault]]);
  });

  it("that are refused say why, after those that are registered", () => {
    const [fault] = validate(changed(sandboxWorkload, { "P/cityCodes": ["XXX"] }), {
      cityNote: (it) => `: not ${it}`,
    });
    expect(fault?.message).toBe('Unsupported value: "XXX": supported values: "DFW", "ORD": not XXX');
  });

  it("A5 rule 4 are all accepted while none is known, and refused when there are none", () => {
    expect(faultsOf(sandboxWorkload, { cities: undefined })).toEqual([]);
    expect(faultsOf(sandboxWorkload, { cities: [] })).toEqual([
      "NotSupported spec.placements[0].cityCodes[0]",
    ]);
  });
});

describe("access to networks", () => {
  it("A7 is asked with all that the API server knows of the user", () => {
    expect(Object.keys(accessQuestion(undefined, { namespace: "default", name: "blue" }))).toEqual([
      "resourceAttributes",
    ]);
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
    [{ kind: "denied" }, ["Forbidden: you may not use network blue"]],
    [{ kind: "failed" }, ["Internal error: it is not known whether you may use network blue; try again"]],
  ] as const)("A5 rule 49 A7 %j", (access, messages) => {
    expect(accessFaults({ index: 3, name: "blue" }, undefined)).toEqual([]);
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
    expect(said({ "C/ports/0/port": undefined })).toMatch(/^Invalid value: 0: /);
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
    expect(toCause({ type, field: "spec", message: "why", place: "spec", value: 1 })).toEqual({
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
      limits: LIMITS,
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
