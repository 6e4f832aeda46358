/** A `NodeFootprint` with all that its preset says, to be read, edited and applied. */
import {
  compileFootprints,
  completeSpec,
  type FootprintPreset,
  type FootprintWorkload,
  footprintPresets,
  type NodeFootprint,
  type NodeFootprintSpec,
  nodeFootprintSpec,
  presets,
} from "@berth/placement";
import { API_VERSION, documentSchema } from "../config/kinds.ts";
import { CommandError, exitCodes } from "../exit-codes.ts";

export interface FootprintDocumentOptions {
  readonly preset?: FootprintPreset;
  /** Default: the last part of the preset; for those of agent-substrate the name of its agent. */
  readonly name?: string;
  /** `app=web,tier=front`. */
  readonly podLabels?: string;
  readonly csiDriver?: readonly string[];
  /** Of the container by which pods wait, best with its digest. Default `busybox:1.36`. */
  readonly waitImage?: string;
}

/** @throws CommandError when something is missing that the preset cannot know, or what is given is wrong. */
export function footprintDocument(
  options: FootprintDocumentOptions,
): NodeFootprint & { readonly spec: NodeFootprintSpec } {
  const { preset, waitImage } = options;
  if (preset === undefined) throw usage(`--preset is required: one of ${footprintPresets.join(", ")}`);
  const name = options.name ?? nameOf(preset);
  const workloads = workloadsOf(preset, options);
  const parsed = nodeFootprintSpec.safeParse({
    preset,
    ...(workloads && { workloads }),
    ...(waitImage !== undefined && { wait: { container: { image: waitImage } } }),
  });
  if (!parsed.success) throw usage(parsed.error.issues[0]?.message ?? "the footprint is not valid");
  const document = { name, spec: parsed.data };
  const [fault] = compileFootprints({ sources: [{ source: "config", documents: [document] }] }).faults;
  if (fault !== undefined) throw usage(`spec.${fault.path.join(".")}: ${fault.message}`);
  const spec = nodeFootprintSpec.parse(withoutGaps({ preset, ...completeSpec(document) }));
  const whole = { apiVersion: API_VERSION, kind: "NodeFootprint", metadata: { name }, spec };
  const [issue] = documentSchema("NodeFootprint").safeParse(whole).error?.issues ?? [];
  if (issue !== undefined) throw usage(`${issue.path.join(".")}: ${issue.message}`);
  return whole;
}

function nameOf(preset: FootprintPreset): string {
  return presets[preset].spec.agent?.daemonSet?.name ?? preset;
}

function workloadsOf(
  preset: FootprintPreset,
  { podLabels, csiDriver }: FootprintDocumentOptions,
): readonly FootprintWorkload[] | undefined {
  const { needs, spec } = presets[preset];
  if (needs === "podSelector" && podLabels === undefined)
    throw usage(`--pod-labels is required with ${preset}: which pods need the agent, as in app=web`);
  if (needs === "csiDrivers" && csiDriver === undefined)
    throw usage(
      `--csi-driver is required with ${preset}: whose volumes need the agent, as in efs.csi.aws.com`,
    );
  if (podLabels === undefined && csiDriver === undefined) return undefined;
  const given: FootprintWorkload = {
    ...(podLabels !== undefined && { podSelector: { matchLabels: labelsOf(podLabels) } }),
    ...(csiDriver && { csiDrivers: csiDriver }),
  };
  const [first] = spec.workloads ?? [];
  return [{ ...first, ...given }];
}

function labelsOf(text: string): Readonly<Record<string, string>> {
  return Object.fromEntries(
    text.split(",").map((part): [string, string] => {
      const at = part.indexOf("=");
      if (at < 1) throw usage(`--pod-labels ${text}: expected labels as in app=web,tier=front`);
      return [part.slice(0, at), part.slice(at + 1)];
    }),
  );
}

/** Without fields that nobody gave. */
function withoutGaps(spec: NodeFootprintSpec): unknown {
  return JSON.parse(JSON.stringify(spec));
}

function usage(message: string): CommandError {
  return new CommandError(message, exitCodes.usage);
}
