/** The patch that `berth manifests --patch` merges into the pod template of the Deployment. */

import { configReasons, type Fault, faultsOfDocument, readYaml } from "@berth/host";
import type { PodTemplateSpec } from "@berth/kube";
import * as z from "zod";

/** The Deployment and its Services select pods by these labels. */
const SELECTED_BY: readonly string[] = ["app.kubernetes.io/name", "app.kubernetes.io/instance"];

const texts = z.record(z.string(), z.string());
const quantities = z.record(z.string(), z.union([z.string(), z.number()]));
const named = z.looseObject({ name: z.string().min(1) });
const podLabels = texts.superRefine((given, context) => {
  for (const key of SELECTED_BY.filter((it) => Object.hasOwn(given, it)))
    context.addIssue({
      code: "custom",
      path: [key],
      message: "the Deployment selects its pods by this label",
    });
});

export type PodSpec = NonNullable<PodTemplateSpec["spec"]>;

/** Fields that often differ between installations. For other fields, users can use kustomize. */
export interface PodPatch {
  readonly metadata?: Pick<NonNullable<PodTemplateSpec["metadata"]>, "labels" | "annotations">;
  readonly spec?: Pick<
    PodSpec,
    | "serviceAccountName"
    | "imagePullSecrets"
    | "nodeSelector"
    | "affinity"
    | "tolerations"
    | "priorityClassName"
    | "volumes"
  > & {
    readonly containers?: readonly Pick<
      PodSpec["containers"][number],
      "name" | "resources" | "env" | "volumeMounts"
    >[];
  };
}

const schema = z.strictObject({
  metadata: z.strictObject({ labels: podLabels.optional(), annotations: texts.optional() }).optional(),
  spec: z
    .strictObject({
      serviceAccountName: z.string().min(1).optional(),
      imagePullSecrets: z.array(named).optional(),
      nodeSelector: texts.optional(),
      affinity: z.looseObject({}).optional(),
      tolerations: z.array(z.looseObject({})).optional(),
      priorityClassName: z.string().min(1).optional(),
      volumes: z.array(named).optional(),
      containers: z
        .array(
          z.strictObject({
            name: z.literal("berth"),
            resources: z
              .strictObject({ requests: quantities.optional(), limits: quantities.optional() })
              .optional(),
            env: z.array(named).optional(),
            volumeMounts: z.array(named.extend({ mountPath: z.string().min(1) })).optional(),
          }),
        )
        .length(1)
        .optional(),
    })
    .optional(),
});

/** Total. @returns the patch, or all faults with their places. */
export function readPodPatch(
  file: string,
  text: string,
): { readonly patch: PodPatch } | { readonly faults: readonly Fault[] } {
  const { documents, problems } = readYaml(text);
  const [document, second] = documents;
  const fault = { file, severity: "error" } as const;
  if (problems.length > 0)
    return { faults: problems.map((it) => Object.assign({ reason: configReasons.NotYaml }, fault, it)) };
  if (document === undefined || second !== undefined) {
    const message = "expected one document with metadata and spec, as in a pod template";
    return {
      faults: [{ ...fault, ...second?.positionOf([]), reason: configReasons.InvalidDocument, message }],
    };
  }
  const parsed = schema.safeParse(document.value);
  // Only the API server checks the contents of affinity, tolerations and volumes.
  if (parsed.success) return { patch: parsed.data as PodPatch };
  return { faults: faultsOfDocument(parsed.error, document).map((it) => Object.assign({ file }, it)) };
}

/** Merges like a strategic merge patch: maps by key, lists of named items by name, other lists as a whole. */
export function patchPod(
  labels: Readonly<Record<string, string>>,
  spec: PodSpec,
  patch: PodPatch,
): PodTemplateSpec {
  const { containers: [patched] = [], volumes, nodeSelector, ...rest } = patch.spec ?? {};
  const { requests, limits } = patched?.resources ?? {};
  return {
    metadata: { ...patch.metadata, labels: { ...labels, ...patch.metadata?.labels } },
    spec: {
      ...spec,
      ...rest,
      nodeSelector: { ...spec.nodeSelector, ...nodeSelector },
      volumes: mergeBy("name", spec.volumes, volumes),
      containers: spec.containers.map((own) => ({
        ...own,
        resources: {
          requests: { ...own.resources?.requests, ...requests },
          limits: { ...own.resources?.limits, ...limits },
        },
        env: mergeBy("name", own.env, patched?.env),
        volumeMounts: mergeBy("mountPath", own.volumeMounts, patched?.volumeMounts),
      })),
    },
  };
}

function mergeBy<K extends string, T extends { readonly [P in K]?: unknown }>(
  key: K,
  base: readonly T[] = [],
  patch: readonly T[] = [],
): readonly T[] {
  const given = new Set(patch.map((it) => it[key]));
  return [...base.filter((it) => !given.has(it[key])), ...patch];
}
