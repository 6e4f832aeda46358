/**
 * The dashboard for Grafana, `monitoring/dashboard.json`: a table of rows and panels. `vitest -u` writes the file, and
 * a test compares it ever after. Every metric of Berth is in one of the panels.
 */

/** An expression, and the legend of its series. */
type Query = readonly [expr: string, legend: string];
type Panel = readonly [title: string, unit: string, ...queries: readonly Query[]];

const FROM = '{job=~"$job"}';
const legendOf = (labels: readonly string[], name: string): string =>
  labels.length === 0 ? name : labels.map((label) => `{{${label}}}`).join(" ");
const by = (labels: readonly string[]): string => (labels.length === 0 ? "" : ` by (${labels.join(", ")})`);

/** A gauge. Replicas that stand by see less than the leader, so the highest value counts. */
const now = (metric: string, ...labels: readonly string[]): Query => [
  `max${by(labels)} (${metric}${FROM})`,
  legendOf(labels, metric),
];
/** A counter, for each second. */
const rate = (metric: string, ...labels: readonly string[]): Query => [
  `sum${by(labels)} (rate(${metric}${FROM}[$__rate_interval]))`,
  legendOf(labels, metric),
];
/** The 99th percentile of a histogram. */
const p99 = (metric: string, ...labels: readonly string[]): Query => [
  `histogram_quantile(0.99, sum${by(["le", ...labels])} (rate(${metric}_bucket${FROM}[$__rate_interval])))`,
  legendOf(labels, metric),
];

const rows: readonly (readonly [title: string, ...panels: readonly Panel[]])[] = [
  [
    "Health",
    ["Components with a problem", "short", now("berth_component_problem", "component")],
    ["Leader", "short", now("berth_leader", "lease", "pod")],
    ["Requests to the API server", "reqps", rate("berth_api_requests_total", "verb", "resource", "outcome")],
    ["Answer of the API server, 99 %", "s", p99("berth_api_request_duration_seconds", "verb")],
    ["Events", "ops", rate("berth_events_total", "result")],
    ["Memory", "bytes", now("process_resident_memory_bytes", "pod")],
    ["Processors", "short", rate("process_cpu_seconds_total", "pod")],
    [
      "Event loop lag, 99 %, with 100 ms between samples",
      "s",
      now("nodejs_eventloop_lag_p99_seconds", "pod"),
    ],
    ["Values missing here", "ops", rate("berth_metrics_collect_failures_total", "metric")],
  ],
  [
    "Admission",
    ["Requests", "reqps", rate("berth_admission_requests_total", "path", "code")],
    ["Answer, 99 %", "s", p99("berth_admission_request_duration_seconds", "path")],
    ["Decisions", "ops", rate("berth_admission_decisions_total", "path", "decision")],
    ["In flight", "short", [`sum by (pod) (berth_admission_in_flight_requests${FROM})`, "{{pod}}"]],
    ["Failed TLS handshakes", "ops", rate("berth_admission_tls_handshake_failures_total")],
    ["Objects came without admission", "short", now("berth_admission_missed", "rules")],
    [
      "Certificate lasts",
      "s",
      [`min(berth_admission_certificate_expiration_timestamp_seconds${FROM} > 0) - time()`, "certificate"],
    ],
  ],
  [
    "Nodes",
    ["Patches", "ops", rate("berth_node_writes_total", "result")],
    ["Marks changed", "ops", rate("berth_mark_changes_total", "capability", "action", "reason")],
    ["Warnings", "ops", rate("berth_node_findings_total", "reason")],
    ["Label rules", "short", now("berth_label_rules"), now("berth_label_frozen_rules")],
    ["Nodes with rules in conflict", "short", now("berth_label_conflict_nodes")],
    [
      "Faults in documents",
      "short",
      now("berth_label_rule_problems", "reason"),
      now("berth_startup_gate_problems", "reason"),
      now("berth_architecture_policy_problems"),
      now("berth_footprint_problems"),
      now("berth_deschedule_policy_problems"),
    ],
  ],
  [
    "Startup gates",
    [
      "Gates and nodes",
      "short",
      now("berth_startup_gates"),
      now("berth_gate_held_nodes"),
      now("berth_gate_timed_out_nodes"),
    ],
    ["Longest hold of now", "s", now("berth_gate_longest_hold_seconds")],
    ["Releases", "ops", rate("berth_gate_releases_total", "reason")],
    ["Held until the release, 99 %", "s", p99("berth_gate_held_seconds")],
  ],
  [
    "Architectures",
    [
      "Policies, pods and nodes",
      "short",
      now("berth_architecture_policies"),
      now("berth_architecture_waiting_pods"),
      now("berth_architecture_impossible_pods"),
      now("berth_architecture_uncovered_workloads"),
      now("berth_architecture_tainted_nodes"),
    ],
    ["New pods", "ops", rate("berth_architecture_admissions_total", "result")],
    ["Pods changed later", "ops", rate("berth_architecture_pod_changes_total", "reason")],
    ["Wait of a pod, 99 %", "s", p99("berth_architecture_hold_seconds")],
    ["Known images", "short", now("berth_image_facts", "by")],
    ["Lookups in memory", "ops", rate("berth_image_looks_total", "state")],
    ["Lookups in registries", "ops", rate("berth_image_questions_total", "outcome")],
    ["Requests to registries", "reqps", rate("berth_registry_requests_total", "kind", "code")],
  ],
  [
    "Footprints",
    ["Footprints", "short", now("berth_footprints"), now("berth_footprints_hindered")],
    [
      "Nodes",
      "short",
      now("berth_footprint_needed_nodes"),
      now("berth_footprint_labelled_nodes"),
      now("berth_footprint_pending_nodes"),
      now("berth_footprint_unknown_nodes"),
      now("berth_footprint_foreign_nodes"),
    ],
    ["Claims", "short", now("berth_footprint_claims")],
  ],
  [
    "Descheduling",
    [
      "Pods and policies",
      "short",
      now("berth_deschedule_policies"),
      now("berth_lost_pods"),
      now("berth_evictions_in_progress"),
      now("berth_frozen_deschedule_policies"),
    ],
    ["Evictions", "ops", rate("berth_evictions_total", "policy")],
    ["Evictions refused", "ops", rate("berth_evictions_refused_total", "reason")],
    ["Notifications", "ops", rate("berth_notifications_total", "notifier", "result")],
    ["Notifications that wait", "short", now("berth_notifications_pending", "notifier")],
  ],
  [
    "Fleet",
    ["Looks at objects", "ops", rate("compute_reconcile_total", "controller", "result")],
    ["A look, 99 %", "s", p99("compute_reconcile_seconds", "controller")],
    [
      "Quota services",
      "short",
      now("compute_quota_enforcement_enabled"),
      now("compute_quota_silent_services"),
    ],
    ["Questions of quota that failed", "ops", rate("compute_quota_eval_failures_total", "reason")],
    ["Wait for quota, 99 %", "s", p99("compute_quota_gate_wait_seconds")],
    ["Further looks for quota", "ops", rate("compute_quota_requeues_total", "tier", "cause")],
    ["Claims left over", "ops", rate("compute_quota_claims_orphaned_total")],
  ],
  [
    "Hub",
    ["Cells that are heard", "short", now("berth_fleet_cell_heard", "cell")],
    [
      "Until the credentials of cells end",
      "s",
      [
        `min by (cell) (berth_fleet_cell_credential_expiration_timestamp_seconds${FROM}) - time()`,
        "{{cell}}",
      ],
    ],
    ["Clusters that answer", "short", now("berth_cluster_reached", "cluster")],
    ["Keys of clusters that have not joined", "ops", rate("berth_unknown_cluster_keys_total", "controller")],
    ["Status on its way to the project, 99 %", "s", p99("compute_federation_sync_lag_seconds")],
    ["Copies that no project can show", "short", now("compute_federation_quarantined_objects", "reason")],
    ["Deployments that are left alone", "short", now("compute_federation_stray_deployments", "reason")],
    ["Karmada cannot read a status", "short", now("compute_federation_interpreter_missing")],
  ],
  [
    "Queues",
    ["Due and waiting", "short", now("berth_workqueue_depth", "controller", "priority")],
    ["The oldest waits", "s", now("berth_workqueue_oldest_age_seconds", "controller")],
    ["Wait, 99 %", "s", p99("berth_workqueue_queue_duration_seconds", "controller")],
    ["Added", "ops", rate("berth_workqueue_adds_total", "controller")],
    ["Put back", "ops", rate("berth_workqueue_retries_total", "controller")],
    ["Refused: the work is lost", "ops", rate("berth_workqueue_refused_total", "controller")],
    ["Reconciles", "ops", rate("berth_reconcile_total", "controller", "result")],
    ["A reconcile, 99 %", "s", p99("berth_reconcile_duration_seconds", "controller")],
    ["The oldest runs", "s", now("berth_workqueue_longest_running_processor_seconds", "controller")],
    [
      "Workers in use",
      "percentunit",
      [
        `max by (controller) (berth_reconcile_active_workers${FROM} / berth_reconcile_max_concurrent${FROM})`,
        "{{controller}}",
      ],
    ],
    ["Stuck workers", "short", now("berth_reconcile_stuck_workers", "controller")],
  ],
  [
    "Caches",
    ["Objects", "short", now("berth_informer_objects", "resource")],
    [
      "Read",
      "short",
      [`min by (resource, informer) (berth_informer_synced${FROM})`, "{{resource}} {{informer}}"],
    ],
    ["Silence of the watch", "s", now("berth_informer_watch_age_seconds", "resource")],
    ["Snapshots", "ops", rate("berth_informer_snapshots_total", "resource", "how")],
    ["Failures", "ops", rate("berth_informer_failures_total", "resource", "failure")],
    ["Handlers that threw", "ops", rate("berth_informer_handler_failures_total", "resource")],
    ["Kinds whose CRD is away", "short", now("berth_kind_away", "kind")],
  ],
];

const [WIDTH, HEIGHT, COLUMNS] = [8, 7, 24];
const datasource = { type: "prometheus", uid: "${datasource}" };

/** Rows one below the other, three panels beside each other. */
function layOut(): readonly object[] {
  const panels: object[] = [];
  let [id, y] = [1, 0];
  for (const [title, ...ofRow] of rows) {
    panels.push({
      id: id++,
      type: "row",
      title,
      collapsed: false,
      gridPos: { x: 0, y, w: COLUMNS, h: 1 },
      panels: [],
    });
    y += 1;
    for (const [at, [title, unit, ...queries]] of ofRow.entries()) {
      const [x, line] = [(at * WIDTH) % COLUMNS, Math.floor((at * WIDTH) / COLUMNS)];
      panels.push({
        id: id++,
        type: "timeseries",
        title,
        datasource,
        gridPos: { x, y: y + line * HEIGHT, w: WIDTH, h: HEIGHT },
        fieldConfig: { defaults: { unit, min: 0 }, overrides: [] },
        options: {
          tooltip: { mode: "multi", sort: "desc" },
          legend: { displayMode: "list", placement: "bottom", showLegend: true, calcs: [] },
        },
        targets: queries.map(([expr, legendFormat], nth) => ({
          refId: String.fromCodePoint(65 + nth),
          datasource,
          expr,
          legendFormat,
        })),
      });
    }
    y += Math.ceil((ofRow.length * WIDTH) / COLUMNS) * HEIGHT;
  }
  return panels;
}

/** The text of `monitoring/dashboard.json`. */
export function dashboard(): string {
  const variables = [
    { name: "datasource", type: "datasource", query: "prometheus", label: "Data source" },
    {
      name: "job",
      type: "query",
      label: "Job",
      datasource,
      query: "label_values(berth_component_problem, job)",
      refresh: 2,
      includeAll: true,
      multi: true,
      current: { text: "All", value: "$__all" },
    },
  ];
  const dashboard = {
    uid: "berth",
    title: "Berth",
    tags: ["berth", "kubernetes"],
    schemaVersion: 39,
    editable: true,
    refresh: "30s",
    time: { from: "now-3h", to: "now" },
    timezone: "",
    templating: { list: variables },
    annotations: { list: [] },
    panels: [],
  };
  const panels = layOut().map((panel) => `    ${JSON.stringify(panel)}`);
  const text = JSON.stringify(dashboard, null, 2);
  return `${text.replace('"panels": []', `"panels": [\n${panels.join(",\n")}\n  ]`)}\n`;
}
