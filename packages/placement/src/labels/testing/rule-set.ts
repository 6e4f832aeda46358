/** Rules of all sources, as a test writes them down. */

import type { DocumentFault } from "@berth/host";
import type { BoundCapability } from "../../node/capability.ts";
import { bindLabels, folderOf } from "../../node/testing/labels.ts";
import { type LabelRuleDocument, parseLabelRules } from "../compile.ts";
import type { LabelFormat } from "../config.ts";
import { type LabelRuleSpec, labelRuleSpec } from "../document.ts";
import { parseLabelFolder } from "../folder.ts";
import { compileRules, type LabelRules } from "../rules.ts";

/** The fields of a `spec` that matter to a test; the schema fills in the others. */
export type SpecInit = Partial<LabelRuleSpec> & Pick<LabelRuleSpec, "labels">;

export interface RulesInit {
  readonly files?: Readonly<Record<string, string | undefined>>;
  readonly format?: LabelFormat;
  /** Documents by name. `null`: there, and its `spec` cannot be read. */
  readonly config?: Readonly<Record<string, SpecInit | null>>;
  readonly cluster?: Readonly<Record<string, SpecInit | null>>;
  /** Sources that have not been read whole. Default none. */
  readonly unread?: readonly string[];
  /** Names of documents of the cluster that wait for a confirmation. */
  readonly unconfirmed?: readonly string[];
}

export interface RulesUnderTest {
  readonly rules: LabelRules;
  readonly faults: readonly DocumentFault[];
  readonly labels: readonly BoundCapability[];
}

export function specOf(init: SpecInit): LabelRuleSpec {
  return labelRuleSpec.parse({ match: {}, ...init });
}

export function rulesOf(init: RulesInit): RulesUnderTest {
  const { files = {}, format = "Plain", unread = [], unconfirmed = [] } = init;
  const options = { allowReserved: [], format };
  const folder = parseLabelFolder(folderOf(files, !unread.includes("folder")), options);
  const parsed = (["config", "cluster"] as const).map((source) => {
    const all = Object.entries(init[source] ?? {});
    return parseLabelRules({
      source,
      complete: !unread.includes(source),
      documents: all.flatMap(([name, spec]): LabelRuleDocument[] =>
        spec === null ? [] : [{ name, spec: specOf(spec) }],
      ),
      unreadable: all.flatMap(([name, spec]) => (spec === null ? [{ name, message: "cannot be read" }] : [])),
      options,
      unconfirmed: new Set(source === "cluster" ? unconfirmed : []),
    });
  });
  const rules = compileRules([folder.set, ...parsed.map(({ set }) => set)]);
  return { rules, faults: parsed.flatMap(({ faults }) => faults), labels: [bindLabels(() => rules)] };
}
