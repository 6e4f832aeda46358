/** Valid Workloads, and changes to them. */
import { DEFAULT_CATALOG, fleetKind } from "../../fleet/document.ts";
import { fleetAdmission } from "../review.ts";
import { validateWorkload, type WorkloadInput } from "../workload.ts";

export const KEY =
  "ssh-ed25519 AAAAC3NzaC1lZDI1NTE5AAAAIFwvZMfyHv1ftePWpJmr5erLJIrm9vAIU4fJoFbRDvX9 alice@example";

const common = {
  apiVersion: "compute.datumapis.com/v1alpha",
  kind: "Workload",
  metadata: { name: "web", namespace: "default" },
};
const placements = [
  {
    name: "us",
    cityCodes: ["DFW"],
    scaleSettings: { minReplicas: 2, instanceManagementPolicy: "OrderedReady" },
  },
];
const resources = { instanceType: "datumcloud/d1-standard-2" };
const networkInterfaces = [{ network: { name: "default" } }];

/** A disk of `size`, with a populator. */
export const disk = (populator: object | undefined, size = "25Gi"): object => ({
  template: {
    spec: {
      type: "pd-standard",
      resources: { requests: { storage: size } },
      ...(populator && { populator }),
    },
  },
});
export const image = { image: { name: "datumcloud/ubuntu-2204-lts" } };
export const filesystem = { filesystem: { type: "ext4" } };

/** Two containers, and volumes of all sources: 0 `data`, 1 `config`, 2 `keys`. */
export const sandboxWorkload: object = {
  ...common,
  spec: {
    placements,
    template: {
      metadata: { labels: { app: "web" } },
      spec: {
        runtime: {
          resources,
          sandbox: {
            containers: [
              {
                name: "app",
                image: "registry.example/app:1",
                ports: [{ name: "http", port: 80, protocol: "TCP" }],
                volumeAttachments: [
                  { name: "data", mountPath: "/data" },
                  { name: "config", mountPath: "/config" },
                  { name: "keys" },
                ],
              },
              { name: "side", image: "registry.example/side:1" },
            ],
            imagePullSecrets: [{ name: "pull" }],
          },
        },
        networkInterfaces,
        volumes: [
          { name: "data", disk: disk(filesystem) },
          { name: "config", configMap: { name: "settings" } },
          { name: "keys", secret: { secretName: "keys", defaultMode: 0o400 } },
        ],
      },
    },
  },
};

/** A boot disk. */
export const machineWorkload: object = {
  ...common,
  spec: {
    placements,
    template: {
      metadata: { annotations: { "compute.datumapis.com/ssh-keys": `alice:${KEY}` } },
      spec: {
        runtime: {
          resources,
          virtualMachine: { volumeAttachments: [{ name: "boot" }], ports: [{ name: "ssh", port: 22 }] },
        },
        networkInterfaces,
        volumes: [{ name: "boot", disk: disk(image) }],
      },
    },
  },
};

export const LIMITS: WorkloadInput["limits"] = { template: 2 ** 15, total: 2 ** 24 };

/** Values by path: `P/name`. `undefined` removes the field. */
export type Changes = Readonly<Record<string, unknown>>;

/** Beginnings of paths, by their names in the table of rules. */
const BEGINNINGS: Readonly<Record<string, string>> = {
  P: "spec/placements/0",
  T: "spec/template",
  S: "spec/template/spec",
  V: "spec/template/spec/volumes/0",
  R: "spec/template/spec/runtime",
  C: "spec/template/spec/runtime/sandbox/containers/0",
  VM: "spec/template/spec/runtime/virtualMachine",
};

export function changed(workload: object, changes: Changes): object {
  const copy = structuredClone(workload);
  for (const [path, value] of Object.entries(changes)) {
    const [first = "", ...rest] = path.split("/");
    const steps = [...(BEGINNINGS[first] ?? first).split("/"), ...rest];
    const last = steps.pop() ?? "";
    const parent = steps.reduce<object>((at, step) => {
      if (Reflect.get(at, step) === undefined) Reflect.set(at, step, {});
      return Reflect.get(at, step) as object;
    }, copy);
    if (value === undefined) Reflect.deleteProperty(parent, last);
    else Reflect.set(parent, last, value);
  }
  return copy;
}

/** `Required P.name` → `Required spec.placements[0].name` */
export function named(fault: string): string {
  return fault.replace(/ (P|T|S|V|R|C|VM)(?=[.[]|$)/, (_, short: string) => {
    const path = BEGINNINGS[short] ?? short;
    return ` ${path.replaceAll(/\/(\d+)/g, "[$1]").replaceAll("/", ".")}`;
  });
}

/** `<type> <field>` of each fault. */
export function faultsOf(object: unknown, input: Partial<WorkloadInput> = {}): readonly string[] {
  return validate(object, input).map(({ type, field }) => `${type} ${field}`);
}

export function validate(
  object: unknown,
  input: Partial<WorkloadInput> = {},
): ReturnType<typeof validateWorkload>["faults"] {
  return validateWorkload({
    object,
    namespace: "default",
    cities: ["DFW", "ORD"],
    catalog: DEFAULT_CATALOG,
    limits: LIMITS,
    networking: true,
    ...input,
  }).faults;
}

const spec = fleetKind.spec.parse({ mode: "single" });
const inForce = { policy: {}, spec, self: "berth", networking: () => true, cities: () => ["DFW", "ORD"] };

/** The same, as the API server is told: the answer of the review to the CREATE, or to the UPDATE of `oldObject`. */
export async function refusalsOf(object: unknown, oldObject?: unknown): Promise<readonly string[]> {
  const review = fleetAdmission.reviews.find(({ name }) => name === "vworkload.kb.io");
  const operation = oldObject === undefined ? "CREATE" : "UPDATE";
  if (review?.rule.operations?.includes(operation) !== true) return [`${operation} is not reviewed`];
  const gvk = { group: "compute.datumapis.com", version: "v1alpha" };
  const answer = await review.answer(
    inForce,
    {
      uid: "u",
      kind: { ...gvk, kind: "Workload" },
      resource: { ...gvk, resource: "workloads" },
      operation,
      namespace: "default",
      object,
      ...(oldObject !== undefined && { oldObject }),
      userInfo: { username: "alice" },
    },
    {
      accessReview: () => Promise.resolve({ kind: "allowed" }),
      namespaceLabels: () => Promise.resolve(undefined),
    },
  );
  const { allowed, causes = [] } = answer;
  if (allowed !== (causes.length === 0)) return [`allowed ${allowed} with ${causes.length} causes`];
  return causes.map(({ reason, field }) => {
    const type = reason === "InternalError" ? "Internal" : reason.replace(/^FieldValue/, "");
    return `${type} ${field}`;
  });
}
