/** What Berth's pods need for the fleet that they run: its file, its flags, and the Secrets that it names. */
import { posix as path } from "node:path";
import { type FleetSpec, fleetKind, listedProjects } from "@berth/fleet";
import { admissionServerKind, type Documents, documentOfFlag, type LocatedDocument } from "@berth/host";
import { parseBindAddress } from "@berth/runtime";
import type { CommandDeps } from "./command-deps.ts";
import { type FleetOptions, readFleet } from "./fleet-settings.ts";
import { type MountedSecret, OPERATOR_PATH, type PodOptions } from "./manifests-pod.ts";

export interface FleetOfPodsOptions extends FleetOptions {
  /** The Secret with the kubeconfig of the quota service. */
  readonly quotaSecret: string;
  /** The Secret with the kubeconfigs of the hub, of projects and of Milo. */
  readonly federationSecret: string;
}

export interface FleetOfPods {
  readonly pod: Pick<PodOptions, "operator" | "flags" | "secrets" | "ports">;
  /** The Fleet, unless it is one of the documents. */
  readonly ofFlags: readonly LocatedDocument[];
}

/** The Secret from which the original serves its webhook. */
const CERTIFICATES = {
  name: "certificates",
  secret: "compute-webhook-cert",
  keys: ["tls.crt", "tls.key", "ca.crt"],
};

/** @throws CommandError where `berth run` would not start with the same. */
export async function readFleetOfPods(
  options: FleetOfPodsOptions,
  documents: Documents,
  { folder, stderr }: Pick<CommandDeps, "folder" | "stderr">,
): Promise<FleetOfPods> {
  const fleet = await readFleet(options, documents, { folder, place: OPERATOR_PATH });
  const { spec, file, notes = [], webhook, metricsBindAddress } = fleet ?? {};
  for (const note of notes) stderr.write(`berth: ${options.serverConfig}: ${note}\n`);
  const { enableCellControllers, mode, cell, featureGates, project } = options;
  const { quotaSecret: secret, federationSecret } = options;
  const hub = options.federationKubeconfig && hubOf(spec);
  const { bindAddress } = documents.specOf(admissionServerKind) ?? webhook ?? {};
  const { kubeconfig } = spec?.quota ?? {};
  const { certificates } = webhook ?? {};
  return {
    pod: {
      ...(file && { operator: new Map([[file.name, file.text]]) }),
      flags: [
        ...(enableCellControllers ? ["--enable-cell-controllers"] : []),
        ...(mode ? [`--mode=${mode}`] : []),
        ...(cell ? [`--cell=${cell}`] : []),
        ...(hub ? [`--federation-kubeconfig=${hub}`] : []),
        ...(featureGates ? [`--feature-gates=${featureGates}`] : []),
        ...(project ? [`--project=${project}`] : []),
      ],
      secrets: [
        ...(kubeconfig
          ? [{ name: "quota", secret, folder: path.dirname(kubeconfig), keys: [path.basename(kubeconfig)] }]
          : []),
        ...federation(spec, federationSecret),
        ...(certificates ? [{ ...CERTIFICATES, folder: certificates }] : []),
      ],
      ports: { metrics: portOf(metricsBindAddress), webhook: portOf(bindAddress) },
    },
    ofFlags: spec === undefined || documents.specOf(fleetKind) ? [] : [documentOfFlag(fleetKind, spec)],
  };
}

/** As in the pod. */
function hubOf({ hub }: Pick<FleetSpec, "hub"> = {}): string | undefined {
  return hub === "self" ? hub : hub?.kubeconfig;
}

/** One mount for each folder that the Fleet names. */
function federation(
  { hub, projects }: Pick<FleetSpec, "hub" | "projects"> = {},
  secret: string,
): readonly MountedSecret[] {
  const milo = typeof projects === "object" && "milo" in projects ? [projects.milo] : [];
  const given = [hub, ...milo, ...(listedProjects(projects) ?? [])];
  const files = given.flatMap((it) => (it === undefined || it === "self" ? [] : it.kubeconfig));
  return [...Map.groupBy(new Set(files), (it) => path.dirname(it))].map(([folder, of], at) => ({
    name: at === 0 ? "federation" : `federation-${at}`,
    secret,
    folder,
    keys: of.map((it) => path.basename(it)),
  }));
}

function portOf(address: string | undefined): number | undefined {
  return address === undefined ? undefined : parseBindAddress(address)?.port;
}
