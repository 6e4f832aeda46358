/** A made-up capability, whole in this file: it taints nodes that have long had no pods but those with one label. */
import * as host from "@berth/host";
import { type Pod, pods } from "@berth/kube";
import * as berth from "@berth/placement";
import * as z from "zod";

const NAME = "power-saver";

interface Spec {
  readonly podLabel: { readonly key: string; readonly value: string };
  readonly quietFor: string;
}
const label = {
  key: host.labelKey.describe("Of the label."),
  value: host.labelValue.describe("Of the label."),
};
const spec: z.ZodType<Spec> = z.strictObject({
  podLabel: z.strictObject(label).describe("A node is quiet while each of its pods has this label."),
  quietFor: host.duration.default("10m").describe("How long a node must be quiet before it is tainted."),
});
const quiet = berth.count("Quiet nodes without the taint.");
const saving = berth.count("Nodes with the taint.");
const { conditions, observedGeneration } = host;
export const kind: host.ServedKind<Spec> = {
  kind: "PowerSaver",
  whenAway: "keep",
  resource: berth.servedResource("powersavers", "PowerSaver"),
  singular: "powersaver",
  shortNames: ["psv"],
  description: "A PowerSaver taints nodes that have long had no pods but those with one label.",
  spec,
  status: z.strictObject({ observedGeneration, quiet, saving, conditions }).describe("Only Berth writes it."),
  columns: [berth.column("Saving", "integer", ".status.saving", "Nodes with the taint."), berth.age],
};

interface Saver extends Pick<Spec, "podLabel"> {
  readonly rule: string;
  readonly quietMs: number;
  /** Its record on the node says since when the node is quiet, so a restart does not begin the time again. */
  readonly note: berth.MarkId;
  readonly taint: berth.MarkId;
}
export interface Savers {
  readonly savers: readonly Saver[];
  readonly faults: readonly host.DocumentFault[];
  readonly policy: berth.Policy;
}

export const documents: host.DocumentRules<Spec, Savers> = {
  kind,
  compile({ sources, unsettled }) {
    const { inForce: savers, faults } = host.compileByName(sources, {
      reason: "PowerSaverInvalid",
      check: ({ name }) => (name.length > 63 ? [{ path: [], message: "its name is longer than 63" }] : []),
      make: ({ name, spec: { podLabel, quietFor } }, rule): Saver => ({
        rule,
        podLabel,
        quietMs: host.durationMs(quietFor),
        note: berth.annotationId(`quiet.saver.test/${name}`),
        taint: berth.taintId(`saver.test/${name}`, "NoSchedule"),
      }),
    });
    const sourced = berth.policySources(sources, unsettled, new Set(savers.map(({ rule }) => rule)));
    const places = new Set(savers.map(({ taint }) => taint));
    const refused = berth.refusedRules(savers, faults);
    return { savers, faults, policy: { ...berth.unreadPolicy, ...sourced, places, refused } };
  },
  faultsOf: ({ faults }) => faults,
  resultOf: () => ({ ready: true, reason: "PowerSaverInForce", message: "in force" }),
};

/** `running`: the pods on the node that have not ended; `undefined` until they have been read. */
export interface SaverView extends berth.NodeView {
  readonly running: readonly Pod[] | undefined;
}

export const rules: berth.NodeRules<Savers, SaverView> = {
  name: NAME,
  policy: ({ policy }) => policy,
  inputs: ({ running = [] }) => running.map(({ metadata }) => `pod ${metadata?.namespace}/${metadata?.name}`),
  decide({ owned, running }, { savers }, now) {
    if (running === undefined) {
      const taints = savers.filter(({ taint }) => owned.has(taint));
      const kept = savers.flatMap(({ note, taint }) => [note, taint]).filter((id) => owned.has(id));
      return {
        ...berth.nothingWanted,
        keep: new Map(kept.map((id) => [id, berth.reasons.SourceNotRead])),
        outcomes: taints.map(({ rule }) => ({ rule, phase: "saving" })),
      };
    }
    const all = savers.flatMap(({ rule, podLabel: { key, value }, quietMs, note, taint }) => {
      if (!running.every(({ metadata }) => metadata?.labels?.[key] === value)) return [];
      const since = owned.get(note)?.since;
      const leftMs = since === undefined ? quietMs : Math.max(0, Date.parse(since) + quietMs - now);
      return [{ rule, taint, leftMs, ids: leftMs > 0 ? [note] : [note, taint] }];
    });
    const waiting = all.filter(({ leftMs }) => leftMs > 0);
    const mark = { value: "", reason: berth.reasons.RuleMatched, foreign: "overwrite" } as const;
    return {
      marks: all.flatMap(({ rule, ids }) => ids.map((id) => ({ ...mark, id, rule }))),
      keep: new Map(),
      findings: waiting.map(({ taint: subject, leftMs }) => {
        const message = `the node is quiet, and gets the taint in ${Math.ceil(leftMs / 1000)} s`;
        return { reason: berth.reasons.NotStable, severity: "info", subject, message };
      }),
      outcomes: all.map(({ rule, leftMs }) => ({ rule, phase: leftMs > 0 ? "quiet" : "saving" })),
      ...(waiting.length > 0 && { recheckAfterMs: Math.min(...waiting.map(({ leftMs }) => leftMs)) }),
    };
  },
};

const wanted: host.Scoped<Pod> = {
  scope: { fieldSelector: "status.phase!=Succeeded,status.phase!=Failed" },
  project: host.keepFields<Pod>(["metadata.labels", "spec.nodeName"]),
  indexes: { node: berth.nodeOf },
};
export const powerSaver: berth.NodeCapability = berth.documentCapability({
  documents,
  rules,
  fields: berth.markFields,
  reads: {
    pods: {
      name: "power-saver-pods",
      resource: pods,
      consequence: "which nodes are quiet is unknown",
      wanted: (inForce) => (inForce?.savers.length ? [wanted] : []),
    },
  } satisfies host.Reads<{ readonly pods: Pod }, Savers | undefined>,
  concerns: { pods: berth.nodesOfChange },
  observe: (view, { pods: on }) => ({
    ...view,
    running: on.synced ? on.byIndex("node", view.node.metadata?.name ?? "") : undefined,
  }),
  permissions: () => [
    { role: NAME, rule: { apiGroups: [""], resources: ["pods"], verbs: ["list", "watch"] } },
  ],
  phases: ["quiet", "saving"],
  gauges: {
    inForce: { name: "berth_power_savers", help: "PowerSavers in force." },
    problems: { name: "berth_power_saver_problems", help: "Faults in PowerSavers." },
    nodes: { name: "berth_power_saver_nodes", help: "Nodes that are quiet or have the taint." },
  },
});
