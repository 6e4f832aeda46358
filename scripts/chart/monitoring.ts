/** Alerts, monitors and the dashboard of `monitoring/` as optional objects of the chart. */
import { readFileSync } from "node:fs";
import { join } from "node:path";
import { readYaml } from "@berth/host";
import { toYaml } from "../../packages/cli/src/output/data.ts";
import { root } from "../run-tool.ts";

export const dashboard = (): string => readFileSync(join(root, "monitoring/dashboard.json"), "utf8");

const objectOf = (file: string): object =>
  Object(readYaml(readFileSync(join(root, "monitoring", file), "utf8")).documents[0]?.value);

const HEAD = (kind: string, apiVersion: string): string => `apiVersion: ${apiVersion}
kind: ${kind}
metadata:
  name: {{ toJson $b.name }}
  namespace: {{ toJson $.Release.Namespace }}
  labels: {{ toJson (merge (dict "app.kubernetes.io/name" "berth" "app.kubernetes.io/instance" $.Values.installation) $.Values.monitoring.labels $b.labels) }}
`;
/** The pods of this installation alone. */
const SELECTOR =
  "{matchLabels: {app.kubernetes.io/name: berth, app.kubernetes.io/instance: {{ toJson $.Values.installation }}}}";

/** Prometheus has templates of its own in texts. */
const escaped = (text: string): string => text.replaceAll("{{", "{{ `{{` }}");

export function monitoringTemplate(): string {
  const operator = "monitoring.coreos.com/v1";
  const monitors = ["PodMonitor", "ServiceMonitor"].map((kind) => {
    const file = kind.replace("Monitor", "-monitor.yaml").toLowerCase();
    const { selector: _, ...spec } = (objectOf(file) as { readonly spec: { readonly selector: object } })
      .spec;
    const value = `${kind.charAt(0).toLowerCase()}${kind.slice(1)}`;
    return [value, `${HEAD(kind, operator)}spec:\n  selector: ${SELECTOR}\n${indented(toYaml(spec))}`];
  });
  const parts = [
    [
      "rules",
      `${HEAD("PrometheusRule", operator)}spec:\n${escaped(indented(toYaml(objectOf("rules.yaml"))))}`,
    ],
    ...monitors,
    [
      "dashboard",
      `${HEAD("ConfigMap", "v1")
        .replace("$b.name", '(printf "%s-dashboard" $b.name)')
        .replace(
          "$b.labels",
          '$b.labels (dict "grafana_dashboard" "1")',
        )}data:\n  berth.json: {{ toJson ($.Files.Get "files/dashboard.json") }}\n`,
    ],
  ];
  return parts
    .map(([value, text]) => `{{- if $.Values.monitoring.${value} }}\n---\n${text}{{- end }}\n`)
    .join("");
}

const indented = (text: string): string => text.replaceAll(/^(?=.)/gm, "  ");
