/** Rules that wait for a person: what `berth plan` says of them, and how they are let go. */
import { isApiError } from "@berth/kube";
import {
  CONFIRMED_ANNOTATION,
  confirmation,
  confirmedAt,
  digestOf,
  isFreshlyConfirmed,
  type LabelRuleDocument,
  labelRuleSpec,
  labelRules,
  type RuleForecast,
  ruleName,
} from "@berth/placement";
import { CommandError } from "./exit-codes.ts";
import type { ClusterRules } from "./label-rules.ts";
import type { RuleFiles, Session } from "./session.ts";
import type { Surroundings } from "./surroundings.ts";

/** Documents of files and of the cluster by rule name, `config/x` and `cluster/x`. */
export function rulesByName(
  { settings }: RuleFiles,
  cluster: ClusterRules | undefined,
): ReadonlyMap<string, LabelRuleDocument> {
  return new Map([
    ...settings.labelRules.map((rule) => [ruleName("config", rule.name), rule] as const),
    ...(cluster?.documents ?? []).map((rule) => [ruleName("cluster", rule.name), rule] as const),
  ]);
}

/** One sentence for each rule that `run` would not carry out at once, of so many nodes. */
export function ruleNotes(
  forecasts: readonly RuleForecast[],
  rules: ReadonlyMap<string, LabelRuleDocument>,
  { nodes, now }: { readonly nodes: number; readonly now: number },
): readonly string[] {
  return forecasts.flatMap(({ rule, touched, losing, carrying, delayMs, frozen }): readonly string[] => {
    const document = rules.get(rule);
    if (document === undefined) return [];
    const { spec, name } = document;
    const at = confirmedAt(document);
    const { confirmAbovePercent: percent } = spec;
    if (percent !== undefined && at === undefined && touched * 100 > percent * nodes) {
      return [
        `${rule} changes ${touched} of ${nodes} nodes, more than ${percent} %: if it is new or edited it waits for \`berth plan --confirm ${name}\`.`,
      ];
    }
    if (frozen && !isFreshlyConfirmed(at, now)) {
      return [
        `${rule}: ${losing} of ${carrying} nodes would lose its labels at once, too many: none is removed until \`berth plan --confirm ${name}\`.`,
      ];
    }
    return losing > 0 && delayMs > 0
      ? [`${rule}: its labels are removed from ${losing} of ${carrying} nodes after ${delayMs / 1000} s.`]
      : [];
  });
}

interface Work {
  readonly session: Session;
  readonly files: RuleFiles;
  /** The rules of the cluster as they were planned with. */
  readonly cluster: ClusterRules | undefined;
  readonly surroundings: Surroundings;
}

/**
 * Lets a rule act as it stands: of the cluster by an annotation, bound to the version that was planned; for one of a
 * file it says what to write there.
 *
 * @throws CommandError when there is no such rule, or it has just been edited.
 */
export async function confirmRule(
  name: string,
  { session, files, cluster, surroundings }: Work,
): Promise<void> {
  const { stderr, clock, signal } = surroundings;
  const now = clock.now();
  const inFile = files.settings.labelRules.find((rule) => rule.name === name);
  try {
    const live = await session.client.get(labelRules, { name }, { signal });
    const spec = labelRuleSpec.safeParse(live.spec);
    if (!spec.success) throw new CommandError(`the LabelRule ${name} has a fault and cannot be confirmed`);
    if (!isAsPlanned({ name, spec: spec.data }, cluster)) throw edited(name);
    const { uid, resourceVersion } = live.metadata ?? {};
    const annotations = { [CONFIRMED_ANNOTATION]: confirmation(spec.data, now) };
    const body = { metadata: { uid, resourceVersion, annotations } };
    await session.client.patch(labelRules, { name }, { type: "merge", body }, { signal });
    stderr.write(`${name} is confirmed as it stands. Its removals do not freeze for the next 10 minutes.\n`);
  } catch (error) {
    if (isApiError(error, "conflict")) throw edited(name, error);
    if (!isApiError(error, "notFound")) throw error;
    if (inFile === undefined) throw new CommandError(`there is no LabelRule ${name}`);
    stderr.write(
      `${name} is in ${inFile.file}:${inFile.line}. To confirm it as it stands, write there under metadata:\n` +
        `  annotations:\n    ${CONFIRMED_ANNOTATION}: ${confirmation(inFile.spec, now)}\n`,
    );
  }
}

/** Is the rule what it was when the plan was made? Reading the nodes takes a while, and only what was shown may go. */
export function isAsPlanned({ name, spec }: LabelRuleDocument, planned: ClusterRules | undefined): boolean {
  const before = planned?.documents.find((rule) => rule.name === name);
  return before !== undefined && digestOf(before.spec) === digestOf(spec);
}

function edited(name: string, cause?: unknown): CommandError {
  return new CommandError(`the LabelRule ${name} was edited meanwhile; plan again`, undefined, { cause });
}
