/** Workloads of a file: checked as the API server would check them, and what would follow from them. */
import {
  configReasons,
  documentSchema,
  type Fault,
  faultsOfDocument,
  itemsOf,
  type KindList,
  readYaml,
  type YamlDocument,
} from "@berth/host";
import { apiVersionOf, isApiError } from "@berth/kube";
import { validateWorkload } from "../admit/workload.ts";
import { type Workload, workloads } from "../api/workload.ts";
import { sizeLimits } from "../deployment/template-size.ts";
import { knownCities } from "../explain/facts.ts";
import { forecastWorkload, type WorkloadForecast } from "../explain/forecast.ts";
import { workloadKind } from "../kinds/workload.ts";
import { type FleetReading, readFleetFacts } from "./read.ts";

const kind = { ...workloadKind, kind: workloads.kind };
const list: KindList = { apiVersion: apiVersionOf(workloads), kinds: [kind] };
const schema = documentSchema(kind, list.apiVersion);

/** A Workload of a file. Its spec has the form of its CRD. */
export interface GivenWorkload {
  readonly workload: Workload;
  readonly file: string;
  readonly yaml: Pick<YamlDocument, "positionOf">;
}

/** All documents of the text must be Workloads. Total. */
export function readWorkloads(
  file: string,
  text: string,
): { readonly given: readonly GivenWorkload[]; readonly faults: readonly Fault[] } {
  const { documents, problems } = readYaml(text);
  const given: GivenWorkload[] = [];
  const faults: Fault[] = problems.map(({ line, column, message }) => ({
    file,
    line,
    column,
    severity: "error",
    reason: configReasons.NotYaml,
    message,
  }));
  for (const yaml of documents.flatMap((it) => itemsOf(it, list))) {
    const parsed = schema.safeParse(yaml.value);
    if (!parsed.success)
      for (const fault of faultsOfDocument(parsed.error, yaml)) faults.push({ ...fault, file });
    else {
      const { metadata, spec } = parsed.data;
      // The schema has checked the spec; the API server checks more of the metadata.
      given.push({ file, yaml, workload: { metadata, spec } as Workload });
    }
  }
  return { given, faults };
}

/** @returns the faults that admission would find, or what would follow. */
export async function planWorkload(
  { workload: { metadata = {}, spec }, file, yaml }: GivenWorkload,
  reading: FleetReading,
): Promise<{ readonly faults: readonly Fault[] } | { readonly forecast: WorkloadForecast }> {
  const { name = "" } = metadata;
  const { namespace, run } = reading;
  const stored = await readStored({ namespace, name }, reading);
  const facts = await readFleetFacts(reading, { withPods: false });
  const object = { metadata: { ...metadata, namespace }, ...(spec && { spec }) };
  const { faults } = validateWorkload({
    object,
    old: stored,
    namespace,
    cities: knownCities(facts),
    catalog: facts.spec.catalog,
    limits: sizeLimits(facts.spec.template),
    containerResources: facts.spec.featureGates.ContainerResources,
    networking: typeof facts.networks === "object",
  });
  if (faults.length > 0)
    return {
      faults: faults.map(({ field, message, type }): Fault => {
        const { line, column } = yaml.positionOf(pathOf(field));
        const reason = `FieldValue${type}`;
        return { file, line, column, severity: "error", reason, message: `${field}: ${message}` };
      }),
    };
  const { uid = "new", ...ofServer } = stored?.metadata ?? {};
  const merged = { ...object, metadata: { ...ofServer, ...object.metadata, uid } };
  run.signal.throwIfAborted();
  return { forecast: forecastWorkload(merged, facts) };
}

async function readStored(
  of: { readonly namespace: string; readonly name: string },
  { run: { client, signal } }: FleetReading,
): Promise<Workload | undefined> {
  try {
    return await client.get(workloads, of, { signal });
  } catch (error) {
    if (!isApiError(error, "notFound")) throw error;
    return undefined;
  }
}

/** `spec.placements[0].name`, `annotations[example.com/key]` */
function pathOf(field: string): readonly PropertyKey[] {
  return Array.from(field.matchAll(/\[([^\]]*)\]|([^.[\]]+)/g), ([, key, name = ""]) =>
    key !== undefined && /^\d+$/.test(key) ? Number(key) : (key ?? name),
  );
}
