/** A fleet from the flags of `berth run`. */
import { type FleetSpec, fleetKind } from "./document.ts";
import { type FeatureGates, readFeatureGates } from "./feature-gates.ts";

export interface FleetFlags {
  readonly mode?: string;
  readonly cell?: string;
  /** The id of the project that pays, in mode `single`. */
  readonly project?: string;
  /** The file of the connection to the hub, or `self`, in mode `management`: then this cluster is the only project. */
  readonly federationKubeconfig?: string;
  /** Its context. Default: the current one. */
  readonly federationContext?: string;
  /** `NAME=BOOLEAN`, separated by commas. */
  readonly featureGates?: string;
}

/** `undefined`: neither the flags nor the document ask for a fleet. `problem`: a sentence for the user. */
export function fleetOfFlags(
  flags: FleetFlags,
  document: FleetSpec | undefined,
): { readonly spec: FleetSpec } | { readonly problem: string } | undefined {
  const read = readFeatureGates(flags.featureGates);
  if ("problem" in read) return read;
  if (document !== undefined) {
    const problem = contradiction(flags, document, "the document Fleet");
    return problem === undefined ? { spec: document } : { problem };
  }
  const { mode, cell, project, federationKubeconfig: kubeconfig, federationContext: context } = flags;
  if (mode === undefined) return needsMode(flags);
  if (context && !kubeconfig)
    return { problem: `--federation-context ${context} needs --federation-kubeconfig` };
  const parsed = fleetKind.spec.safeParse({
    mode,
    ...(cell && { cell }),
    ...(project && { project: { id: project } }),
    ...(kubeconfig && {
      hub: kubeconfig === "self" ? "self" : { kubeconfig, ...(context && { context }) },
      ...(mode === "management" && { projects: "self" }),
    }),
    ...fieldsOf(read.gates),
  });
  if (parsed.success) return { spec: parsed.data };
  if (mode === "management" && !kubeconfig)
    return { problem: "--mode management needs --federation-kubeconfig: a file, or self" };
  const [issue] = parsed.error.issues;
  return { problem: `--mode ${mode}: ${issue?.path.join(".")} ${issue?.message}` };
}

/** Where a flag asks for something else than the spec. @param source who wrote the spec. */
export function contradiction(flags: FleetFlags, spec: FleetSpec, source: string): string | undefined {
  const { mode, cell, project, hub, networking, featureGates } = spec;
  const read = readFeatureGates(flags.featureGates);
  const { NetworkingIntegration, ContainerResources } = "gates" in read ? read.gates : {};
  const says: readonly (readonly [string, string | undefined, string | undefined])[] = [
    ["mode", flags.mode, mode],
    ["cell", flags.cell, cell],
    ["project", flags.project, project?.id],
    ["federation-kubeconfig", flags.federationKubeconfig, hub === "self" ? hub : hub?.kubeconfig],
    ["federation-context", flags.federationContext, hub === "self" ? hub : hub?.context],
    [
      "feature-gates",
      textOf({ NetworkingIntegration }),
      textOf({ NetworkingIntegration: networking !== "Off" }),
    ],
    ["feature-gates", textOf({ ContainerResources }), textOf(featureGates)],
  ];
  const [flag, asked, is = "nothing"] = says.find(([, asked, is]) => asked && asked !== is) ?? [];
  return flag && `--${flag} ${asked}: ${source} says ${is}`;
}

/** `undefined`: its value is not given. */
function textOf(gate: Readonly<Record<string, boolean | undefined>>): string | undefined {
  const [[name, value] = []] = Object.entries(gate);
  return value === undefined ? undefined : `${name}=${value}`;
}

/** What the gates mean for a Fleet. The first is on by default, so `Auto` says the same where networks are served. */
export function fieldsOf({ NetworkingIntegration, ContainerResources }: FeatureGates): object {
  return {
    ...(NetworkingIntegration === false && { networking: "Off" }),
    ...(ContainerResources !== undefined && { featureGates: { ContainerResources } }),
  };
}

function needsMode({
  cell,
  project,
  federationKubeconfig,
  federationContext,
  featureGates,
}: FleetFlags): { readonly problem: string } | undefined {
  if (cell) return { problem: `--cell ${cell} needs --mode cell` };
  const [flag, value] =
    Object.entries({
      project,
      "federation-kubeconfig": federationKubeconfig,
      "federation-context": federationContext,
      "feature-gates": featureGates,
    }).find(([, it]) => it) ?? [];
  return flag
    ? { problem: `--${flag} ${value} needs --mode, --server-config or a document Fleet` }
    : undefined;
}
