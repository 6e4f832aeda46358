/** `monitoring/`: the alerts and the dashboard, and what their expressions read. */
import { parser } from "@prometheus-io/lezer-promql";
import { parse } from "yaml";
import { read } from "./pages.ts";

/** A rule of `monitoring/rules.yaml`. */
export interface AlertRule {
  readonly alert: string;
  readonly expr: string;
  readonly for: string;
  readonly labels: Readonly<Record<string, string>>;
  readonly annotations: Readonly<Record<string, string>>;
}

interface RuleFile {
  readonly groups: readonly { readonly name: string; readonly rules: readonly AlertRule[] }[];
}

export const ruleFile: RuleFile = parse(read("monitoring/rules.yaml")) as RuleFile;
export const alertRules: readonly AlertRule[] = ruleFile.groups.flatMap(({ rules }) => rules);

interface Dashboard {
  readonly panels: readonly {
    readonly title: string;
    readonly targets?: readonly { readonly expr: string }[];
  }[];
}

/** An expression of an alert or of a panel. */
export interface Query {
  readonly of: string;
  readonly expr: string;
}

/** Those of the dashboard, as Grafana sends them. */
export const dashboardQueries: readonly Query[] = (
  JSON.parse(read("monitoring/dashboard.json")) as Dashboard
).panels.flatMap(({ title, targets = [] }) =>
  targets.map(({ expr }) => ({ of: title, expr: expr.replaceAll("$__rate_interval", "5m") })),
);

/** A metric that an expression reads, and the labels that it must match. */
export interface Reading {
  readonly metric: string;
  readonly matched: readonly string[];
}

/** By the grammar of Prometheus. @throws SyntaxError with the expression up to its first fault. */
export function readingsOf(expr: string): readonly Reading[] {
  const found: { metric: string; matched: string[] }[] = [];
  const text = ({ from, to }: { readonly from: number; readonly to: number }): string => expr.slice(from, to);
  parser.parse(expr).iterate({
    enter(at) {
      if (at.type.isError) throw new SyntaxError(`not PromQL after: ${expr.slice(0, at.from)}`);
      const isSelected = at.name === "Identifier" && at.node.parent?.name === "VectorSelector";
      if (isSelected) found.push({ metric: text(at), matched: [] });
      if (at.name === "LabelName" && at.node.parent?.name !== "GroupingLabels")
        found.at(-1)?.matched.push(text(at));
    },
  });
  return found;
}

/** Names of Berth's metrics in a text; those of a histogram without their suffix. */
export function metricNamesIn(text: string): readonly string[] {
  const names = text.matchAll(/\b(?:berth|compute)_[a-z0-9_]*[a-z0-9]\b/g);
  return [...new Set([...names].map(([name]) => name))];
}

const runbooks = read("docs/runbooks.md");

/** The sections of the runbooks, by the name of their alert. */
export const runbookOf: ReadonlyMap<string, string> = new Map(
  [...runbooks.matchAll(/^## (\w+)\n([\s\S]*?)(?=^## |(?![\s\S]))/gm)].map(([, name = "", text = ""]) => [
    name,
    text,
  ]),
);

/** The commands of a text, with which a reader looks at a cluster. */
export function commandsIn(text: string): readonly string[] {
  const blocks = text.matchAll(/^```sh\n([\s\S]*?)^```$/gm);
  return [...blocks].flatMap(([, block = ""]) => block.trimEnd().split("\n"));
}
