/** `WorkloadOperator`, the configuration file of the original, and its flags: what they mean for a Fleet. */
import path from "node:path";
import { type Fault, faultsOfDocument, readYaml } from "@berth/host";
import * as z from "zod";
import { REFERENCED_DATA } from "../instance/ready.ts";
import { type FleetSpec, takenOverSpec } from "./document.ts";
import { readFeatureGates } from "./feature-gates.ts";
import { contradiction, type FleetFlags, fieldsOf } from "./flags.ts";

/** The flags of the original that `berth run` takes, as given. */
export interface OriginalFlags extends FleetFlags {
  /** The path of a `WorkloadOperator`. */
  readonly serverConfig?: string;
  readonly enableCellControllers?: boolean;
}

/** What the original's configuration says: the fleet, and the addresses of the process. */
export interface OriginalSettings {
  readonly fleet: FleetSpec;
  /** Absent: off. */
  readonly metricsBindAddress?: string | undefined;
  /** Absent: the API server does not call this process. */
  readonly webhook?: { readonly bindAddress: string; readonly certificates?: string | undefined } | undefined;
  /** What the file asks for and Berth does not do, each as a sentence for the user. */
  readonly notes: readonly string[];
}

const text = (): z.ZodOptional<z.ZodString> => z.string().optional();

/** Berth reads `tls.crt` and `tls.key` of a folder. Secrets are mounted, not read from the API. */
const tls = z
  .strictObject({
    secretRef: z.looseObject({ name: text() }).optional(),
    certDir: text(),
    certName: z.literal("tls.crt").optional(),
    keyName: z.literal("tls.key").optional(),
  })
  .optional();

const operator = z.strictObject({
  apiVersion: z.literal("apiserver.config.datumapis.com/v1alpha1"),
  kind: z.literal("WorkloadOperator"),
  metricsServer: z
    .strictObject({
      secureServing: z.literal(false, "Berth serves metrics without TLS: set it to false").optional(),
      bindAddress: z.string().default("0"),
      tls,
    })
    .optional(),
  webhookServer: z
    .strictObject({
      host: z.string().default(""),
      port: z.int().min(0).max(65_535).default(0),
      tls,
      clientCAName: text(),
    })
    .optional(),
  discovery: z
    .strictObject({
      mode: z.enum(["single", "milo"], "must be single or milo").optional(),
      internalServiceDiscovery: z
        .literal(false, "is not supported: give discoveryKubeconfigPath, and quotaKubeconfigPath for a cell")
        .optional(),
      discoveryKubeconfigPath: text(),
      projectKubeconfigPath: text(),
      quotaKubeconfigPath: text(),
      clusterName: text(),
    })
    .optional(),
  featureFlags: z.strictObject({ enableReferencedDataGate: z.boolean().optional() }).optional(),
  referencedData: z
    .strictObject({ perObjectLimitBytes: z.int().optional(), aggregateLimitBytes: z.int().optional() })
    .optional(),
  /** Not of the original: in mode `single` it says who pays. A cell reads it from labels of the namespace. */
  project: z.strictObject({ id: z.string() }).optional(),
});

/** The port that the original listens on when the file says 0. */
const WEBHOOK_PORT = 9443;

/** Reads a `WorkloadOperator`. All faults at once, with their places. @param file as the user wrote it. */
export function readOperator(
  { file, content }: { readonly file: string; readonly content: string },
  flags: OriginalFlags,
  folder: string,
): { readonly settings: OriginalSettings } | { readonly faults: readonly Fault[] } {
  const { documents, problems } = readYaml(content);
  const [document] = documents;
  const fault = (message: string): Fault => ({ file, severity: "error", reason: "InvalidDocument", message });
  if (problems.length > 0) return { faults: problems.map((at) => Object.assign(fault(at.message), at)) };
  if (document === undefined || documents.length > 1)
    return { faults: [fault("must have one WorkloadOperator")] };
  const parsed = operator.safeParse(document.value);
  if (!parsed.success)
    return { faults: faultsOfDocument(parsed.error, document).map((one) => Object.assign({ file }, one)) };
  const gates = readFeatureGates(flags.featureGates);
  if ("problem" in gates) return { faults: [fault(gates.problem)] };
  const { metricsServer, webhookServer } = parsed.data;
  const mode = flags.enableCellControllers ? "cell" : flags.mode || "single";
  const places =
    mode === "management" ? managementOf(parsed.data, flags, folder) : placesOf(parsed.data, flags, folder);
  if (typeof places === "string") return { faults: [fault(places)] };
  const fleet = takenOverSpec.safeParse({
    mode,
    ...places,
    ...fieldsOf(gates.gates),
    // The original runs no Instances itself. Pods beside its provider's workloads would run all of them twice.
    provider: "external",
  });
  if (!fleet.success)
    return { faults: fleet.error.issues.map((one) => fault(`${one.path.join(".")}: ${one.message}`)) };
  const problem = contradiction(flags, fleet.data, file);
  if (problem !== undefined) return { faults: [fault(problem)] };
  const { host = "", port = 0, tls: certificates } = webhookServer ?? {};
  return {
    settings: {
      fleet: fleet.data,
      metricsBindAddress: metricsServer?.bindAddress,
      ...(webhookServer && {
        webhook: {
          bindAddress: `${host}:${port || WEBHOOK_PORT}`,
          ...(certificates?.certDir && { certificates: path.resolve(folder, certificates.certDir) }),
        },
      }),
      notes: notesOf(parsed.data, fleet.data),
    },
  };
}

type Given = z.infer<typeof operator>;

/** Who pays, and where claims are. A text: why Berth does not start. */
function placesOf(
  { discovery = {}, project: ofFile }: Given,
  flags: OriginalFlags,
  folder: string,
): object | string {
  const { mode, quotaKubeconfigPath, projectKubeconfigPath, clusterName } = discovery;
  if (mode === "milo") return "discovery.mode: milo needs --enable-management-controllers";
  const kubeconfig = quotaKubeconfigPath || projectKubeconfigPath;
  const { federationKubeconfig: hub, federationContext: context } = flags;
  const project = ofFile ?? (flags.project ? { id: flags.project } : undefined);
  return {
    ...((clusterName || flags.cell) && { cell: clusterName || flags.cell }),
    ...(project && { project }),
    ...(flags.enableCellControllers && hub && { hub: { kubeconfig: hub, ...(context && { context }) } }),
    ...(kubeconfig && { quota: { from: "Projects", kubeconfig: path.resolve(folder, kubeconfig) } }),
  };
}

/** The hub and the projects. A text: why Berth does not start. */
function managementOf({ discovery = {} }: Given, flags: OriginalFlags, folder: string): object | string {
  const { federationKubeconfig: hub, federationContext: context } = flags;
  if (!hub) return "--enable-management-controllers needs --federation-kubeconfig, the connection to the hub";
  const { mode, discoveryKubeconfigPath, projectKubeconfigPath } = discovery;
  const milo = discoveryKubeconfigPath || projectKubeconfigPath;
  if (mode === "milo" && !milo) return "discovery.mode: milo needs discoveryKubeconfigPath";
  if (discoveryKubeconfigPath && projectKubeconfigPath && discoveryKubeconfigPath !== projectKubeconfigPath)
    return "discovery.projectKubeconfigPath: must be discoveryKubeconfigPath, as Berth reaches projects through Milo";
  return {
    driver: "karmada",
    hub: { kubeconfig: hub, ...(context && { context }) },
    projects: mode === "milo" ? { milo: { kubeconfig: path.resolve(folder, milo ?? "") } } : "self",
  };
}

function notesOf(given: Given, { mode, cell, quota }: FleetSpec): readonly string[] {
  const { featureFlags, referencedData, metricsServer, webhookServer, discovery } = given;
  const isWaiting = featureFlags?.enableReferencedDataGate === true;
  const isLimited = Object.values(referencedData ?? {}).some(Boolean);
  const unread = webhookServer?.tls?.secretRef?.name;
  const own = mode === "cell" ? "a cell has no webhook for Workloads" : "Berth makes its own certificate";
  return [
    ...(isWaiting ? [`featureFlags.enableReferencedDataGate has no effect: ${REFERENCED_DATA}`] : []),
    ...(isLimited ? ["referencedData has no effect: Berth copies no ConfigMaps and Secrets"] : []),
    ...(unread ? [`webhookServer.tls.secretRef: Berth does not read Secret ${unread}: ${own}`] : []),
    ...(metricsServer?.tls?.secretRef
      ? ["metricsServer.tls has no effect: metrics are served without TLS"]
      : []),
    ...(quota === undefined && mode !== "management"
      ? ["discovery.quotaKubeconfigPath is not set: every Instance is granted"]
      : []),
    ...(mode === "management" && discovery?.quotaKubeconfigPath
      ? ["discovery.quotaKubeconfigPath has no effect: cells ask for quota"]
      : []),
    ...(quota !== undefined && mode === "cell" && cell === "single" ? [SHARED_NAME] : []),
  ];
}

const SHARED_NAME =
  "discovery.clusterName is not set: other clusters may use the name single too, so Berth leaves claims of Instances that are gone; set it, or delete such claims";
