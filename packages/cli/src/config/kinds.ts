import { type AdmissionServerSpec, admissionServerSpec } from "@berth/host";
import {
  API_GROUP,
  API_GROUP_VERSION,
  type ArchitecturePolicySpec,
  architecturePolicySpec,
  type LabelOptions,
  type LabelRuleSpec,
  labelOptionsSchema,
  labelRuleSpec,
  type NodeFootprintSpec,
  nodeFootprintSpec,
  type StartupGateSpec,
  startupGateSpec,
} from "@berth/placement";
import * as z from "zod";
import { type ImageRegistriesSpec, imageRegistriesSpec } from "./image-registries.ts";
import { type WorkerPoolsSpec, workerPoolsSpec } from "./worker-pools.ts";

/** `apiVersion` of every configuration document. */
export const API_VERSION: string = `${API_GROUP}/${API_GROUP_VERSION}`;

/** Where label rules come from: a folder as `--label-dir` takes it. */
export interface LabelFolderSpec extends LabelOptions {
  /** Relative paths start at the folder of the document's own file. */
  readonly path: string;
}

/** One of the options of a label folder, checked as where they are all together. */
function labelOption<F extends keyof LabelOptions>(field: F): z.ZodType<LabelOptions[F]> {
  return z
    .unknown()
    .optional()
    .transform((value, context) => {
      const parsed = labelOptionsSchema.safeParse(value === undefined ? {} : { [field]: value });
      if (parsed.success) return parsed.data[field];
      for (const { message, path } of parsed.error.issues) {
        context.addIssue({ code: "custom", message, path: path.slice(1) });
      }
      return z.NEVER;
    });
}

const labelFolder: z.ZodType<LabelFolderSpec> = z.strictObject({
  path: z.string().min(1, "must not be empty"),
  allowReserved: labelOption("allowReserved"),
  format: labelOption("format"),
});

/** The `spec` of each kind. A new kind is a line here and its schema in `kinds`. */
export interface Specs {
  readonly LabelFolder: LabelFolderSpec;
  readonly LabelRule: LabelRuleSpec;
  readonly StartupGate: StartupGateSpec;
  readonly ArchitecturePolicy: ArchitecturePolicySpec;
  readonly NodeFootprint: NodeFootprintSpec;
  readonly AdmissionServer: AdmissionServerSpec;
  readonly ImageRegistries: ImageRegistriesSpec;
  readonly WorkerPools: WorkerPoolsSpec;
}

export type Kind = keyof Specs;

export const kinds: { readonly [K in Kind]: z.ZodType<Specs[K]> } = {
  LabelFolder: labelFolder,
  LabelRule: labelRuleSpec,
  StartupGate: startupGateSpec,
  ArchitecturePolicy: architecturePolicySpec,
  NodeFootprint: nodeFootprintSpec,
  AdmissionServer: admissionServerSpec,
  ImageRegistries: imageRegistriesSpec,
  WorkerPools: workerPoolsSpec,
};

const SUBDOMAIN = /^[a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*$/;

/** What Berth reads of `metadata`. The rest, such as what the API server adds, is allowed and left alone. */
export interface Metadata {
  readonly name: string;
  readonly annotations?: Readonly<Record<string, string>> | undefined;
}

const localMetadata: z.ZodType<Metadata> = z.looseObject({ name: z.string().min(1) });

/** As the API server has it for cluster-scoped objects (`NameIsDNSSubdomain`). */
const servedMetadata: z.ZodType<Metadata> = z.looseObject({
  name: z.string().max(253).regex(SUBDOMAIN, "must be a DNS subdomain: lower-case letters, digits, - and ."),
  annotations: z.record(z.string(), z.string()).optional(),
});

/** Kinds that the API server has as well, so that a document may come from `kubectl get -o yaml`. */
const SERVED: ReadonlySet<Kind> = new Set([
  "LabelRule",
  "StartupGate",
  "ArchitecturePolicy",
  "NodeFootprint",
]);

/** The whole document of a kind. */
export function documentSchema<K extends Kind>(
  kind: K,
): z.ZodType<{ readonly metadata: Metadata; readonly spec: Specs[K] }> {
  const isServed = SERVED.has(kind);
  const spec: z.ZodType<Specs[K]> = kinds[kind];
  return z.strictObject({
    apiVersion: z.literal(API_VERSION),
    kind: z.literal(kind),
    metadata: isServed ? servedMetadata : localMetadata,
    spec,
    ...(isServed && { status: z.unknown().optional() }),
  });
}

/** A document that was read and found right. */
export type ConfigDocument = {
  readonly [K in Kind]: {
    readonly kind: K;
    readonly name: string;
    readonly annotations: Readonly<Record<string, string>>;
    readonly spec: Specs[K];
  };
}[Kind];

export function isKind(name: unknown): name is Kind {
  return typeof name === "string" && Object.hasOwn(kinds, name);
}
