import { writeFile } from "node:fs/promises";
import path from "node:path";
import {
  fleetKind,
  formatForecast,
  planWorkload,
  readWorkloads,
  type WorkloadForecast,
  workloads,
} from "@berth/fleet";
import {
  counted,
  type Fault,
  formatFault,
  hasErrors,
  inOrder,
  isOf,
  type LocatedDocument,
  readConfigFiles,
  styleFor,
  toDocuments,
} from "@berth/host";
import type { KubeObject } from "@berth/kube";
import { parseAllDocuments, Scalar } from "yaml";
import type { CommandDeps } from "../command-deps.ts";
import { CommandError, type ExitCode, exitCodes } from "../exit-codes.ts";
import { type DataFormat, printData } from "../output/data.ts";
import { toJunit } from "../output/junit.ts";
import { textDiff } from "../output/text-diff.ts";
import { openSample, type RuleFiles, readRuleFiles, type Session } from "../session.ts";
import { type SampleObject, type TestSpec, testKind, testKinds } from "../test-file.ts";
import { planAll, planText } from "./plan.ts";

export interface TestOptions {
  readonly files: readonly string[];
  readonly update?: boolean;
  readonly output?: DataFormat | "junit";
}

interface Result {
  readonly file: string;
  readonly test: string;
  readonly name: string;
  readonly passed: boolean;
  /** What the plan prints now. */
  readonly actual: string;
  /** Line by line, as a patch from what is expected; empty when it passed. */
  readonly difference: readonly string[];
}

/** Plans each case on its sample objects alone, by the code of `berth plan`, and compares the text. */
export async function test(options: TestOptions, deps: CommandDeps): Promise<ExitCode> {
  const { stdout } = deps;
  const snapshots = await readConfigFiles(options.files, deps.folder);
  const { documents, faults } = toDocuments(snapshots, testKinds);
  if (hasErrors(faults)) return refuse(faults, deps);
  const results: Result[] = [];
  for (const document of documents.documentsOf(testKind)) results.push(...(await runTest(document, deps)));
  if (results.length === 0) throw new CommandError("there is no test in these files", exitCodes.usage);
  const failed = results.filter(({ passed }) => !passed);
  if (options.update) await update(snapshots, failed);
  if (options.output === "junit") stdout.write(toJunit(results.map(toJunitCase)));
  else if (options.output) printData(stdout, { cases: results }, options.output);
  else stdout.write(formatResults(results, options.update === true));
  if (failed.length === 0 || options.update) return exitCodes.done;
  throw new CommandError(`${failed.length} of ${counted(results.length, "case")} failed`);
}

function refuse(faults: readonly Fault[], { stderr }: CommandDeps): ExitCode {
  for (const fault of [...faults].sort(inOrder)) stderr.write(`${formatFault(fault)}\n`);
  return exitCodes.faults;
}

async function runTest(
  { name: test, spec, file }: LocatedDocument<TestSpec>,
  deps: CommandDeps,
): Promise<readonly Result[]> {
  const folder = path.resolve(deps.folder, path.dirname(file));
  const files = await readRuleFiles({ config: spec.documents }, { ...deps, folder });
  const now = Date.parse(spec.now);
  const results: Result[] = [];
  for (const { name, objects, expect = "" } of spec.cases) {
    const samples = sampleObjects([...spec.objects, ...objects], now);
    const actual = await planCase(samples, files, now, deps);
    const difference = textDiff(expect.trimEnd(), actual.trimEnd());
    results.push({ file, test, name, passed: difference.length === 0, actual, difference });
  }
  return results;
}

async function planCase(
  objects: readonly KubeObject[],
  files: RuleFiles,
  now: number,
  deps: CommandDeps,
): Promise<string> {
  const given = objects.filter((it) => isOf(workloads, it));
  await using session = openSample(
    objects.filter((it) => !given.includes(it)),
    now,
    deps,
  );
  await using owned = new AsyncDisposableStack();
  const planning = await planAll({ installation: "berth", nodes: [] }, { session, owned, deps, files });
  const faults = planning.read.flatMap((it) => it.faults).map((fault) => `${formatFault(fault)}\n`);
  const style = styleFor({ ...deps.stdout, isTerminal: false });
  const forecasts = await planGiven(given, files, session);
  const blocks = forecasts.map((it) => `\n${typeof it === "string" ? it : formatForecast(it, style)}`);
  return faults.join("") + planText(planning, style, false) + blocks.join("");
}

/** What `berth plan -f` says of each Workload, or its faults. Quota is not asked for. */
async function planGiven(
  given: readonly KubeObject[],
  { settings }: RuleFiles,
  run: Session,
): Promise<readonly (WorkloadForecast | string)[]> {
  const spec = settings.specOf(fleetKind);
  const fleet = spec && { spec: { ...spec, quota: undefined } };
  const found: (WorkloadForecast | string)[] = [];
  for (const object of given) {
    const { name = "", namespace = "default" } = object.metadata ?? {};
    const read = readWorkloads(`Workload ${namespace}/${name}`, JSON.stringify(object));
    const faults = [...read.faults];
    for (const one of read.given) {
      const planned = await planWorkload(one, { run, namespace, fleet });
      if ("faults" in planned) faults.push(...planned.faults);
      else found.push(planned.forecast);
    }
    // Their lines would be those of another text.
    found.push(...faults.map(({ file, reason, message }) => `${file}: ${message} (${reason})\n`));
  }
  return found;
}

/** How old objects are that do not say it, ms: older than a backfill. */
const AGE_MS = 3_600_000;
const NAMESPACED: ReadonlySet<string> = new Set([
  "Pod",
  "DaemonSet",
  "Deployment",
  "ReplicaSet",
  "StatefulSet",
  "Job",
  "PodDisruptionBudget",
  "Workload",
  "WorkloadDeployment",
  "Instance",
]);

/** With what the API server sets, and the namespaces of all. Later ones replace those of the same kind and name. */
function sampleObjects(given: readonly SampleObject[], now: number): readonly KubeObject[] {
  const names = new Set(given.flatMap((it) => namespaceOf(it) ?? []));
  const namespaces = [...names].map(
    (name): SampleObject => ({ apiVersion: "v1", kind: "Namespace", metadata: { name } }),
  );
  const found = new Map<string, KubeObject>();
  for (const object of [...namespaces, ...given]) {
    const { name } = object.metadata;
    const namespace = namespaceOf(object);
    const uid = [object.kind, ...(namespace === undefined ? [] : [namespace]), name].join("-");
    const metadata = {
      uid,
      resourceVersion: "1",
      creationTimestamp: new Date(now - AGE_MS).toISOString(),
      ...object.metadata,
      ...(namespace !== undefined && { namespace }),
      ...(object.kind === "Namespace" && {
        labels: { ...Object(object.metadata["labels"]), "kubernetes.io/metadata.name": name },
      }),
    };
    found.set(uid, { ...object, metadata });
  }
  return [...found.values()];
}

function namespaceOf({ kind, metadata }: SampleObject): string | undefined {
  return metadata.namespace ?? (NAMESPACED.has(kind) ? "default" : undefined);
}

/** Writes what is into the files, and leaves all else there as it is. */
async function update(
  snapshots: Awaited<ReturnType<typeof readConfigFiles>>,
  failed: readonly Result[],
): Promise<void> {
  for (const { path: root, shown, snapshot } of snapshots)
    for (const { path: relative, text } of snapshot.files.values()) {
      const isAlone = relative === "" || relative === path.basename(root);
      const file = isAlone ? shown : path.join(shown, relative);
      const those = failed.filter((it) => it.file === file);
      if (text === undefined || those.length === 0) continue;
      await writeFile(isAlone ? root : path.join(root, relative), updated(text, those));
    }
}

function updated(text: string, failed: readonly Result[]): string {
  const documents = parseAllDocuments(text, { version: "1.1" });
  if (!Array.isArray(documents)) return text;
  const flowCollectionPadding = text.includes("{ ");
  for (const document of documents) {
    const read = document.toJS() as { metadata?: { name?: string }; spec?: TestSpec } | null;
    for (const [at, { name }] of (read?.spec?.cases ?? []).entries()) {
      const result = failed.find((it) => it.test === read?.metadata?.name && it.name === name);
      if (result === undefined) continue;
      const written = new Scalar(`${result.actual.trimEnd()}\n`);
      written.type = Scalar.BLOCK_LITERAL;
      document.setIn(["spec", "cases", at, "expect"], written);
    }
  }
  return documents.map((document) => document.toString({ lineWidth: 0, flowCollectionPadding })).join("");
}

function toJunitCase({ file, test, name, passed, difference }: Result) {
  return { file: `${file}: ${test}`, name, ...(!passed && { failure: difference.join("\n") }) };
}

function formatResults(results: readonly Result[], isUpdated: boolean): string {
  const failed = results.filter(({ passed }) => !passed);
  const blocks = failed.map(({ file, name, difference }) =>
    [`--- ${file}: ${name}: expected`, `+++ ${isUpdated ? "written" : "is"}`, ...difference, "", ""].join(
      "\n",
    ),
  );
  const counts = `${results.length - failed.length} passed, ${failed.length} ${isUpdated ? "updated" : "failed"}\n`;
  return `${blocks.join("")}${counts}`;
}
