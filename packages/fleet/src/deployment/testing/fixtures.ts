/** Deployments and Instances as the API server returns them. */
import type { Condition } from "@berth/kube";
import type { Instance, InstanceTemplate, WorkloadDeployment } from "../../api/workload.ts";
import { buildInstance } from "../build.ts";
import { templateHash } from "../template-hash.ts";

export const NOW_MS: number = Date.parse("2026-01-01T00:00:00Z");

export function aTemplate(image = "app:1", metadata: InstanceTemplate["metadata"] = {}): InstanceTemplate {
  return {
    metadata,
    spec: {
      runtime: {
        resources: { instanceType: "datumcloud/d1-standard-2" },
        sandbox: { containers: [{ name: "app", image }] },
      },
      networkInterfaces: [{ network: { name: "default" } }],
    },
  };
}

export interface DeploymentFields {
  readonly name?: string;
  readonly min?: number;
  readonly template?: InstanceTemplate;
  readonly city?: string;
  readonly placement?: string;
  readonly workload?: { readonly name: string; readonly uid: string };
  readonly metadata?: WorkloadDeployment["metadata"];
  readonly status?: WorkloadDeployment["status"];
}

/** `w-us-dfw`, uid `uid-w-us-dfw`, as Berth makes it. */
export function aDeployment(fields: DeploymentFields = {}): WorkloadDeployment {
  const { name = "w-us-dfw", min = 2, template = aTemplate(), city = "DFW", placement = "us" } = fields;
  const { workload = { name: "w", uid: "uid-w" }, metadata, status } = fields;
  return {
    metadata: {
      name,
      namespace: "default",
      uid: `uid-${name}`,
      generation: 1,
      labels: { "compute.datumapis.com/workload-uid": workload.uid },
      finalizers: ["compute.datumapis.com/workload-controller"],
      ...metadata,
    },
    spec: {
      workloadRef: workload,
      placementName: placement,
      cityCode: city,
      template,
      scaleSettings: { minReplicas: min, instanceManagementPolicy: "OrderedReady" },
    },
    ...(status && { status }),
  };
}

export function aCondition(
  type: string,
  status: Condition["status"],
  reason: string = type,
  message = "",
): Condition {
  return { type, status, reason, message, lastTransitionTime: "2026-01-01T00:00:00Z" };
}

/** `R` Ready, `N` not Ready, `D` being deleted; `o` of another template. */
export type State = "R" | "N" | "D" | "Ro" | "No" | "Do";

export function anInstance(deployment: WorkloadDeployment, ordinal: number, state: State = "R"): Instance {
  const { template } = deployment.spec ?? {};
  const hash = state.endsWith("o") || template === undefined ? "v1-0000000000000000" : templateHash(template);
  const built = buildInstance(deployment, {
    ordinal,
    templateHash: hash,
    location: undefined,
    hasNetwork: false,
    hasQuota: true,
  });
  const isReady = state.startsWith("R");
  return {
    ...built,
    metadata: {
      ...built.metadata,
      uid: `uid-${ordinal}`,
      ...(state.startsWith("D") && { deletionTimestamp: "2026-01-01T00:00:00Z" }),
    },
    ...(built.spec && { spec: { ...built.spec, controller: { templateHash: hash } } }),
    status: {
      conditions: [
        aCondition("Programmed", isReady ? "True" : "Unknown", isReady ? "Programmed" : "Pending"),
        aCondition("Ready", isReady ? "True" : "False", isReady ? "Available" : "PendingProgramming"),
      ],
      ...(isReady && { controller: { observedTemplateHash: hash } }),
    },
  };
}

/** Replaces conditions of the Instance, by type. */
export function withCondition(instance: Instance, ...conditions: readonly Condition[]): Instance {
  const types = new Set(conditions.map(({ type }) => type));
  const others = (instance.status?.conditions ?? []).filter(({ type }) => !types.has(type));
  return { ...instance, status: { ...instance.status, conditions: [...others, ...conditions] } };
}

/** With the scheduling gates that it was created with. */
export function gated(instance: Instance, ...names: readonly string[]): Instance {
  const { spec } = instance;
  if (spec?.controller === undefined) return instance;
  const schedulingGates = names.map((name) => ({ name }));
  return { ...instance, spec: { ...spec, controller: { ...spec.controller, schedulingGates } } };
}
