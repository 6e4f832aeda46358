import { describe, expect, it } from "vitest";
import {
  type Changes,
  changed,
  disk,
  faultsOf,
  filesystem,
  image,
  KEY,
  machineWorkload,
  named,
  refusalsOf,
  sandboxWorkload,
  validate,
} from "./testing/workloads.ts";

/** Rule, what is wrong, changes to the valid Workload, and all faults: `<type> <field>`. */
type Case = readonly [rule: number, about: string, changes: Changes, ...faults: readonly string[]];

const long = "a".repeat(64);
const keys = (lines: string): Changes => ({
  "T/metadata/annotations": { "compute.datumapis.com/ssh-keys": lines },
});
const KEYS = "T.annotations[compute.datumapis.com/ssh-keys]";
const scale = (settings: object): Changes => ({ "P/scaleSettings": { minReplicas: 2, ...settings } });
const METRIC = "P.scaleSettings.metrics[0].resource";
const metric = (resource: unknown): Changes => scale({ maxReplicas: 3, metrics: [{ resource }] });
const target = (values: object): Changes => metric({ name: "cpu", target: values });
const STORAGE = "V.disk.template.spec.resources.requests[storage]";

const sandboxCases: readonly Case[] = [
  [1, "no placements", { "spec/placements": [] }, "Required spec.placements"],
  [2, "no name", { "P/name": "" }, "Required P.name"],
  [2, "a name with a dot", { "P/name": "us.east" }, "Invalid P.name"],
  [2, "a name of 64 characters", { "P/name": long }, "Invalid P.name", "Invalid P.cityCodes[0]"],
  [3, "no cities", { "P/cityCodes": [] }, "Required P.cityCodes"],
  [4, "an unknown city", { "P/cityCodes": ["ORD", "XXX"] }, "NotSupported P.cityCodes[1]"],
  [4, "A6 a city XXX", { "P/cityCodes": ["XXX"] }, "NotSupported P.cityCodes[0]"],
  [5, "A6 H1 no replicas", scale({ minReplicas: 0 }), "Invalid P.scaleSettings.minReplicas"],
  [5, "H1 replicas of -1", scale({ minReplicas: -1 }), "Invalid P.scaleSettings.minReplicas"],
  [5, "A6 1001 replicas", scale({ minReplicas: 1001 }), "Invalid P.scaleSettings.minReplicas"],
  [5, "2^31 replicas", scale({ minReplicas: 2 ** 31 }), "Invalid P.scaleSettings.minReplicas"],
  [5, "A6 1000 replicas", scale({ minReplicas: 1000 })],
  [6, "A6 a maximum without metrics", scale({ maxReplicas: 3 }), "Required P.scaleSettings.metrics"],
  [7, "a metric without a resource", metric(undefined), `Required ${METRIC}`],
  [
    8,
    "another resource",
    metric({ name: "memory", target: { averageUtilization: 50 } }),
    `NotSupported ${METRIC}.name`,
  ],
  [9, "no target", target({}), `Required ${METRIC}.target`],
  [10, "two targets", target({ value: "1", averageValue: "0" }), `Forbidden ${METRIC}.target.averageValue`],
  [
    10,
    "three targets",
    target({ value: "1", averageValue: "1", averageUtilization: 0 }),
    `Forbidden ${METRIC}.target.averageValue`,
    `Forbidden ${METRIC}.target.averageUtilization`,
  ],
  [11, "a value of 0", target({ value: "0" }), `Invalid ${METRIC}.target.value`],
  [11, "a negative average", target({ averageValue: "-1" }), `Invalid ${METRIC}.target.averageValue`],
  [
    11,
    "a utilization of 0",
    target({ averageUtilization: 0 }),
    `Invalid ${METRIC}.target.averageUtilization`,
  ],
  [11, "a utilization of 1", target({ averageUtilization: 1 })],
  [
    11,
    "half a utilization",
    target({ averageUtilization: 0.5 }),
    `Invalid ${METRIC}.target.averageUtilization`,
  ],
  [11, "a list as value", target({ value: ["1"] }), `Invalid ${METRIC}.target.value`],
  [
    11,
    "a maximum that is the minimum",
    scale({
      maxReplicas: 2,
      metrics: [{ resource: { name: "cpu", target: { value: 1 } } }],
    }),
  ],
  [
    16,
    "the device name that is the default of another volume",
    { "V/disk/deviceName": "persistent-disk-1" },
    "Duplicate S.volumes[1].disk.deviceName",
  ],
  [17, "no source", { "S/volumes/1": { name: "config" } }, "Required S.volumes[1]"],
  [18, "a second source", { "V/configMap": { name: "" } }, "Forbidden V.configMap"],
  [
    18,
    "three sources",
    { "V/configMap": { name: "a" }, "V/secret": { secretName: "a" } },
    "Forbidden V.configMap",
    "Forbidden V.secret",
  ],
  [
    19,
    "no name of a volume",
    { "S/volumes/2/name": "", "C/volumeAttachments/2": { name: "config" } },
    "Required S.volumes[2].name",
  ],
  [
    19,
    "an invalid name of a volume",
    { "S/volumes/2/name": "A", "C/volumeAttachments/2": { name: "A" } },
    "Invalid S.volumes[2].name",
  ],
  [
    20,
    "a name twice",
    { "S/volumes/2/name": "config", "C/volumeAttachments/2": { name: "config" } },
    "Duplicate S.volumes[2].name",
  ],
  [
    21,
    "a volume that is not attached",
    { "C/volumeAttachments/2": { name: "config" } },
    "Required S.volumes[2].name",
  ],
  [
    22,
    "no template",
    { "V/disk/template": undefined, "C/volumeAttachments/0": { name: "data" } },
    "Required V.disk.template",
  ],
  [23, "another type", { "V/disk/template/spec/type": "pd-ssd" }, "NotSupported V.disk.template.spec.type"],
  [23, "no type, which the CRD sets", { "V/disk/template/spec/type": undefined }],
  [
    24,
    "another image",
    { "V/disk": disk({ image: { name: "debian" } }) },
    "NotSupported V.disk.template.spec.populator.image.name",
  ],
  [
    25,
    "another filesystem",
    { "V/disk": disk({ filesystem: { type: "xfs" } }) },
    "NotSupported V.disk.template.spec.populator.filesystem.type",
  ],
  [
    25,
    "two populators",
    { "V/disk": disk({ ...image, ...filesystem }) },
    "Forbidden V.disk.template.spec.populator.filesystem",
  ],
  [
    26,
    "no resources",
    { "V/disk/template/spec/resources": undefined },
    "Required V.disk.template.spec.resources",
  ],
  [
    27,
    "no requests",
    { "V/disk/template/spec/resources": {} },
    "Required V.disk.template.spec.resources.requests",
  ],
  [28, "no storage", { "V/disk/template/spec/resources": { requests: {} } }, `Required ${STORAGE}`],
  [28, "no bytes", { "V/disk": disk(filesystem, "0") }, `Invalid ${STORAGE}`],
  [28, "9Gi", { "V/disk": disk(filesystem, "9Gi") }, `Invalid ${STORAGE}`],
  [28, "101Gi", { "V/disk": disk(filesystem, "101Gi") }, `Invalid ${STORAGE}`],
  [28, "1Gi and a half", { "V/disk": disk(filesystem, "1.5Gi") }, `Invalid ${STORAGE}`, `Invalid ${STORAGE}`],
  [
    28,
    "10G, no multiple of 1Gi and less than 10Gi",
    { "V/disk": disk(filesystem, "10G") },
    `Invalid ${STORAGE}`,
    `Invalid ${STORAGE}`,
  ],
  [28, "10Gi", { "V/disk": disk(filesystem, "10Gi") }],
  [28, "100Gi in bytes", { "V/disk": disk(filesystem, String(100 * 1024 ** 3)) }],
  [29, "an image on 9Gi", { "V/disk": disk(image, "9Gi") }, `Invalid ${STORAGE}`],
  [29, "an image on 24Gi", { "V/disk": disk(image, "24Gi") }, `Invalid ${STORAGE}`],
  [
    30,
    "no name of a config map",
    { "S/volumes/1/configMap": { name: "" } },
    "Required S.volumes[1].configMap.name",
  ],
  [30, "no name of a secret", { "S/volumes/2/secret": {} }, "Required S.volumes[2].secret.secretName"],
  [
    30,
    "a mode above 0777",
    { "S/volumes/1/configMap/defaultMode": 0o1000 },
    "Invalid S.volumes[1].configMap.defaultMode",
  ],
  [30, "the mode 0777", { "S/volumes/1/configMap/defaultMode": 0o777 }],
  [30, "the mode 0", { "S/volumes/1/configMap/defaultMode": 0 }],
  [
    30,
    "a negative mode",
    { "S/volumes/2/secret/defaultMode": -1 },
    "Invalid S.volumes[2].secret.defaultMode",
  ],
  [
    30,
    "items",
    { "S/volumes/1/configMap/items": [{ key: "a", path: "a" }] },
    "Forbidden S.volumes[1].configMap.items",
  ],
  [31, "another type", { "R/resources/instanceType": "huge" }, "NotSupported R.resources.instanceType"],
  [
    31,
    "a type of Object",
    { "R/resources/instanceType": "toString" },
    "NotSupported R.resources.instanceType",
  ],
  [31, "no resources", { "R/resources": undefined }, "NotSupported R.resources"],
  [32, "requests", { "R/resources/requests": {} }, "Forbidden R.resources.requests"],
  [33, "no runtime", { "R/sandbox": undefined, "S/volumes": [] }, "Required R"],
  [34, "both runtimes", { VM: { volumeAttachments: [] }, ...keys(`a:${KEY}`) }, "Forbidden VM"],
  [35, "no containers", { "R/sandbox/containers": [], "S/volumes": [] }, "Required R.sandbox.containers"],
  [36, "a name of 63 characters", { "C/name": long.slice(1) }],
  [36, "no name of a container", { "C/name": "" }, "Required C.name"],
  [36, "an invalid name of a container", { "C/name": "-a" }, "Invalid C.name"],
  [36, "the name of another container", { "C/name": "side" }, "Duplicate R.sandbox.containers[1].name"],
  [37, "no image", { "C/image": "" }, "Required C.image"],
  [38, "resources of a container", { "C/resources": {} }, "Forbidden C.resources"],
  [
    39,
    "a pull secret without a name",
    { "R/sandbox/imagePullSecrets": [{ name: "a" }, { name: "" }] },
    "Required R.sandbox.imagePullSecrets[1].name",
  ],
  [
    40,
    "an attachment of nothing",
    { "C/volumeAttachments/3": { name: "gone" } },
    "NotFound C.volumeAttachments[3].name",
  ],
  [41, "a mount of a raw disk", { "V/disk": disk(undefined) }, "NotFound C.volumeAttachments[0].mountPath"],
  [
    41,
    "a mount of a disk without a template",
    { "V/disk": {} },
    "Required V.disk.template",
    "Internal C.volumeAttachments[0].mountPath",
  ],
  [
    42,
    "two mounts at one path",
    { "C/volumeAttachments/2": { name: "keys", mountPath: "/data" } },
    "Duplicate C.volumeAttachments[2].mountPath",
  ],
  [45, "no name of a port", { "C/ports/0/name": "" }, "Required C.ports[0].name"],
  ...["a--b", "-a", "a-", "80", "A", "a".repeat(16)].map(
    (name): Case => [45, `a port ${name}`, { "C/ports/0/name": name }, "Invalid C.ports[0].name"],
  ),
  [45, "a port of 15 characters", { "C/ports/0/name": "8".repeat(14).concat("a") }],
  [45, "a port of one letter", { "C/ports/0/name": "a" }],
  [45, "a port with two dashes", { "C/ports/0/name": "abc--d" }, "Invalid C.ports[0].name"],
  [45, "two ports of one name", { "C/ports/1": { name: "http", port: 81 } }, "Duplicate C.ports[1].name"],
  [46, "port 0", { "C/ports/0/port": 0 }, "Invalid C.ports[0].port"],
  [46, "no port", { "C/ports/0/port": undefined }, "Invalid C.ports[0].port"],
  [46, "port 1", { "C/ports/0/port": 1 }],
  [46, "port 65535", { "C/ports/0/port": 65_535 }],
  [46, "port 65536", { "C/ports/0/port": 65_536 }, "Invalid C.ports[0].port"],
  [47, "no interfaces", { "S/networkInterfaces": [] }, "Required S.networkInterfaces"],
  [
    48,
    "no name of a network",
    { "S/networkInterfaces/0/network": {} },
    "Invalid S.networkInterfaces[0].network.name",
  ],
  [
    48,
    "an invalid name of a network",
    { "S/networkInterfaces/0/network/name": "A" },
    "Invalid S.networkInterfaces[0].network.name",
  ],
];

const machineCases: readonly Case[] = [
  [12, "no keys", { "T/metadata": undefined }, `Required ${KEYS}`],
  [12, "two keys, and space around them", keys(` alice:${KEY}\r\n\tbob:${KEY}\n`)],
  [13, "no colon", keys("alice"), `Invalid ${KEYS}[0]`],
  [13, "nothing", keys(""), `Invalid ${KEYS}[0]`],
  [14, "no username", keys(`:${KEY}`), `Required ${KEYS}[0]`],
  [14, "a space for a username", keys(`a:${KEY}\n :${KEY}`), `Required ${KEYS}[1]`],
  [14, "no username and no key", keys(":"), `Required ${KEYS}[0]`, `Invalid ${KEYS}[0]`],
  [15, "no key", keys(`a:${KEY}\nbob:ssh-ed25519`), `Invalid ${KEYS}[1]`],
  [
    15,
    "a key of another type than it says",
    keys(`a:${KEY.replace("ssh-ed25519", "ssh-rsa")}`),
    `Invalid ${KEYS}[0]`,
  ],
  [15, "a key that is cut", keys(`a:${KEY.slice(0, 60)}`), `Invalid ${KEYS}[0]`],
  [15, "only the type in the key", keys("a:ssh-ed25519 AAAAC3NzaC1lZDI1NTE5"), `Invalid ${KEYS}[0]`],
  [26, "no resources, which an image does not need", { "V/disk/template/spec/resources": undefined }],
  [
    40,
    "an attachment of nothing",
    { "VM/volumeAttachments/1": { name: "gone" } },
    "NotFound VM.volumeAttachments[1].name",
  ],
  [
    42,
    "two mounts at one path",
    {
      "VM/volumeAttachments": [
        { name: "boot", mountPath: "/a" },
        { name: "boot", mountPath: "/a" },
      ],
    },
    "Duplicate VM.volumeAttachments[1].mountPath",
  ],
  [43, "no attachments", { "VM/volumeAttachments": [] }, "Required V.name", "Required VM.volumeAttachments"],
  [
    44,
    "a boot disk without an image",
    { "V/disk": disk(filesystem) },
    "Required VM.volumeAttachments[0].name",
  ],
  [
    44,
    "a config map to boot from",
    { "V/disk": undefined, "V/configMap": { name: "a" } },
    "Required VM.volumeAttachments[0].name",
  ],
  [45, "two ports of one name", { "VM/ports/1": { name: "ssh", port: 23 } }, "Duplicate VM.ports[1].name"],
  [46, "port 0", { "VM/ports/0/port": 0 }, "Invalid VM.ports[0].port"],
];

describe.each([
  ["a sandbox", sandboxWorkload, sandboxCases],
  ["a virtual machine", machineWorkload, machineCases],
] as const)("a Workload with %s", (_, valid, cases) => {
  it("is valid", () => {
    expect(faultsOf(valid)).toEqual([]);
  });

  for (const [rule, about, changes, ...faults] of cases) {
    it(`A5 rule ${rule} on CREATE and UPDATE: ${about}`, async () => {
      const object = changed(valid, changes);
      expect(await refusalsOf(object)).toEqual(faults.map(named));
      expect(await refusalsOf(object, valid)).toEqual(faults.map(named));
    });
  }
});

describe("an empty Workload", () => {
  it.each([{}, undefined, null, [], "text", { spec: {} }, { spec: { template: [], placements: {} } }])(
    "A4 has exactly four faults, on CREATE and UPDATE: %j",
    async (object) => {
      const four = [
        "NotSupported spec.template.spec.runtime.resources",
        "Required spec.placements",
        "Required spec.template.spec.networkInterfaces",
        "Required spec.template.spec.runtime",
      ];
      expect((await refusalsOf(object)).toSorted()).toEqual(four);
      expect((await refusalsOf(object, sandboxWorkload)).toSorted()).toEqual(four);
    },
  );
});

describe("all rules together", () => {
  it("A5 tell every fault at once, in the order of the rules", () => {
    const object = changed(sandboxWorkload, {
      "P/name": "",
      "P/cityCodes": ["XXX"],
      "P/scaleSettings/minReplicas": 0,
      "V/name": "",
      "C/image": "",
      "S/networkInterfaces": [],
    });
    expect(faultsOf(object)).toEqual(
      [
        "Required P.name",
        "NotSupported P.cityCodes[0]",
        "Invalid P.scaleSettings.minReplicas",
        "Required V.name",
        "Required C.image",
        "NotFound C.volumeAttachments[0].name",
        "Required S.networkInterfaces",
      ].map(named),
    );
  });
});

it.each<[string, ...string[]]>([
  ["-1Gi", "greater than 0"],
  ["0", "greater than 0"],
  ["1", "greater than or equal to 10Gi", "a multiple of 1Gi"],
  ["9Gi", "greater than or equal to 10Gi"],
  ["101Gi", "less than or equal to 100Gi"],
  ["100.5Gi", "less than or equal to 100Gi", "a multiple of 1Gi"],
])("A5 rule 28 says of %s which bound it misses", (size, ...bounds) => {
  const object = changed(sandboxWorkload, { "V/disk": disk(filesystem, size) });
  const said = validate(object).map(({ message }) => message.replace(/^.*: must be /, ""));
  expect(said).toEqual(bounds);
});

it("A5 tells what is wrong in words that name the limit, the supported values, or the rule", () => {
  const all = [
    ...sandboxCases.map(([, , changes]) => changed(sandboxWorkload, changes)),
    ...machineCases.map(([, , changes]) => changed(machineWorkload, changes)),
  ].flatMap((object) => validate(object).map(({ message }) => message));
  // The value in question is shown first, and is another one in each case.
  const words = all.map((it) => it.replace(/: ("[^"]*"|\[…\]|-?[\d.]+)(?=:|$)/, ""));
  expect([...new Set(words)].toSorted()).toEqual(WORDS);
});

const WORDS = [
  "Duplicate value",
  "Forbidden: may not specify more than 1 populator",
  "Forbidden: may not specify more than 1 runtime",
  "Forbidden: may not specify more than 1 target value",
  "Forbidden: may not specify more than 1 volume source",
  "Forbidden: not implemented",
  "Internal error: the disk has no template",
  "Invalid value: must be a lowercase RFC 1123 label: at most 63 lower case letters, digits and '-', with a letter or digit at both ends",
  "Invalid value: must be a multiple of 1Gi",
  "Invalid value: must be a number between 0 and 0777 (octal), both inclusive",
  "Invalid value: must be a service name: at most 15 lower case letters, digits and single '-', with a letter, and no '-' at an end",
  "Invalid value: must be between 1 and 65535, inclusive",
  "Invalid value: must be greater than 0",
  "Invalid value: must be greater than or equal to 10Gi",
  "Invalid value: must be greater than or equal to 25Gi",
  "Invalid value: must be in the format 'username:key'",
  "Invalid value: must be less than or equal to 1000",
  "Invalid value: must be less than or equal to 100Gi",
  "Invalid value: must be positive",
  "Invalid value: the key must be one of authorized_keys: type, base64 and a comment",
  "Invalid value: the name <workload>-<placement>-<city> would have 72 characters; use shorter names, it must have at most 58",
  "Not found",
  "Required value",
  "Required value: must provide scaling metrics when maxReplicas is provided",
  "Required value: must specify a runtime",
  "Required value: must specify a target value",
  "Required value: must specify a username",
  "Required value: must specify a volume source",
  "Required value: the first volume must be a disk with an image populator: the machine boots from it",
  "Required value: volume must be attached at least 1 time",
  'Unsupported value: supported values: "DFW", "ORD"',
  'Unsupported value: supported values: "cpu"',
  'Unsupported value: supported values: "datumcloud/d1-standard-2"',
  'Unsupported value: supported values: "datumcloud/ubuntu-2204-lts"',
  'Unsupported value: supported values: "ext4"',
  'Unsupported value: supported values: "pd-standard"',
];

describe("rule 38 behind the gate ContainerResources", () => {
  const limits = { cpu: "500m", memory: "1Gi" };
  it.each<[string, object, ...string[]]>([
    ["limits for both", { limits }],
    ["limits, and requests of the same", { limits, requests: { cpu: "0.5" } }],
    ["nothing", { limits: {} }],
    ["numbers, up to 1P", { limits: { cpu: 1, memory: "1P" } }],
    ["more than 1P", { limits: { cpu: 1, memory: "1001T" } }, "Invalid C.resources.limits[memory]"],
    [
      "one without the other, twice",
      { limits: { cpu: "1" }, requests: { cpu: "1" } },
      "Required C.resources.limits[memory]",
    ],
    ["a truth", { limits: { ...limits, cpu: true } }, "Invalid C.resources.limits[cpu]"],
    ["a limit of 0", { limits: { ...limits, cpu: "0" } }, "Invalid C.resources.limits[cpu]"],
    ["a limit below 0", { limits: { ...limits, memory: -1 } }, "Invalid C.resources.limits[memory]"],
    ["one without the other", { limits: { memory: "1Gi" } }, "Required C.resources.limits[cpu]"],
    ["requests that are less", { limits, requests: { cpu: "1m" } }, "Invalid C.resources.requests[cpu]"],
    ["GPUs", { limits: { ...limits, "nvidia.com/gpu": 1 } }, "Forbidden C.resources.limits[nvidia.com/gpu]"],
    ["texts", { limits: "1", requests: [] }],
  ])("A5 %s", (_, resources, ...faults) => {
    const object = changed(sandboxWorkload, { "C/resources": resources });
    expect(faultsOf(object, { containerResources: true })).toEqual(faults.map(named));
    expect(faultsOf(object)).toEqual([named("Forbidden C.resources")]);
  });

  it("A5 says what may be limited, and to how much", () => {
    const resources = { limits: { cpu: "0", "nvidia.com/gpu": 1 }, requests: { cpu: "1" } };
    const object = changed(sandboxWorkload, { "C/resources": resources });
    const said = validate(object, { containerResources: true }).map(({ message }) => message);
    expect(said).toEqual([
      'Invalid value: "0": must be a quantity above 0, and at most 1P',
      "Required value: a container has limits for cpu and memory, or none",
      "Forbidden: only cpu and memory can be limited",
      'Invalid value: "1": must be equal to the limit, or absent',
    ]);
  });
});
