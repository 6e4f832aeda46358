/** `WorkloadOperator`, the configuration file of the original, and its flags: what they mean for a Fleet. */
import path from "node:path";
import { type Fault, faultsOfDocument, readYaml } from "@berth/host";
import * as z from "zod";
import { type FleetSpec, fleetKind } from "./document.ts";

/** The flags of the original that `berth run` takes, as given. */
export interface OriginalFlags {
  /** The path of a `WorkloadOperator`. */
  readonly serverConfig?: string;
  readonly enableCellControllers?: boolean;
  /** `NetworkingIntegration=false` switches networks off. Berth has no other gate. */
  readonly featureGates?: string;
}

/** What the original's configuration says: the fleet, and the addresses of the process. */
export interface OriginalSettings {
  readonly fleet: FleetSpec;
  /** Absent: off. */
  readonly metricsBindAddress?: string | undefined;
  /** Absent: the API server does not call this process. */
  readonly webhook?: { readonly bindAddress: string; readonly certificates?: string | undefined } | undefined;
}

const text = (): z.ZodOptional<z.ZodString> => z.string().optional();

/** Berth reads `tls.crt` and `tls.key` of a folder. Secrets are mounted, not read from the API. */
const tls = z
  .strictObject({
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
      mode: z
        .literal("single", "only single is supported: milo discovers the projects of a management process")
        .optional(),
      internalServiceDiscovery: z.literal(false, "is not supported: give quotaKubeconfigPath").optional(),
      discoveryKubeconfigPath: text(),
      projectKubeconfigPath: text(),
      quotaKubeconfigPath: text(),
      clusterName: text(),
    })
    .optional(),
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
  const { discovery = {}, metricsServer, webhookServer } = parsed.data;
  const { quotaKubeconfigPath, projectKubeconfigPath, clusterName } = discovery;
  const kubeconfig = quotaKubeconfigPath || projectKubeconfigPath;
  const fleet = fleetKind.spec.safeParse({
    mode: flags.enableCellControllers ? "cell" : "single",
    ...(clusterName && { cell: clusterName }),
    networking: networkingOf(flags.featureGates),
    // The original runs no Instances itself. Pods beside its provider's workloads would run all of them twice.
    provider: "external",
    ...(kubeconfig && { quota: { from: "Projects", kubeconfig: path.resolve(folder, kubeconfig) } }),
  });
  if (!fleet.success)
    return { faults: fleet.error.issues.map((one) => fault(`${one.path.join(".")}: ${one.message}`)) };
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
    },
  };
}

/** The gate of the original is on by default, so `Auto` says the same where networks are served. */
function networkingOf(gates = ""): FleetSpec["networking"] {
  return /(?:^|,)NetworkingIntegration=false(?:,|$)/.test(gates) ? "Off" : "Auto";
}
