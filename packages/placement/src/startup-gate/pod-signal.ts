/** Selects the pods that a gate needs, and combines the verdicts on those of one node. */
import { type DaemonSet, type Node, pathOf, type Taint } from "@berth/kube";
import { reasons } from "../api/reasons.ts";
import { expectation, taintText } from "../node/daemonset-placement.ts";
import { selectorText } from "../node/selector.ts";
import { type DaemonSetSignal, type PodSignal, signalGroups } from "./document.ts";
import type { Boot, Gate, GateObservations, PodQuery, SignalReading } from "./gate.ts";
import { judgePod, ownedByCheck, ownerCheck, type PodRule, type PodVerdict } from "./pod-verdict.ts";

/** Inputs of a reading, besides the Node. */
export interface SignalContext {
  readonly observations: GateObservations;
  readonly boot: Boot;
  /** Of all gates in force. */
  readonly gateTaints: readonly Taint[];
}

/** A reading without its name. */
export type Said = Omit<SignalReading, "signal">;

/** @param since left out if it is not finite. */
export function holding(message: string, evidence: string, since: number = Number.NaN): Said {
  const dated = Number.isFinite(since) && { since };
  return { state: "holds", reason: reasons.SignalHolds, message, evidence, ...dated };
}

export function missing(reason: Said["reason"], message: string): Said {
  return { state: "missing", reason, message, evidence: "" };
}

export function unread(message: string): Said {
  return { state: "unknown", reason: reasons.SignalUnknown, message, evidence: "" };
}

/**
 * The pods to watch for this gate: those of its pod signals, and those of its DaemonSets once these have been read.
 * Each query once, in stable order.
 */
export function podQueries(
  gate: Gate,
  observations: Pick<GateObservations, "daemonSet">,
): readonly PodQuery[] {
  const groups = signalGroups(gate.spec);
  const pods = groups.flatMap((group) => group.pods);
  const daemonSets = groups.flatMap((group) => group.daemonSets);
  const queries = new Map<string, PodQuery>();
  const named = daemonSets.flatMap(({ namespace, name }) =>
    daemonSetQuery(observations.daemonSet(namespace, name)),
  );
  for (const query of [...pods.flatMap(queriesOf), ...named]) {
    queries.set(`${query.namespace ?? ""} ${query.labelSelector}`, query);
  }
  return [...queries.values()];
}

function queriesOf({ namespaces, selector }: PodSignal): readonly PodQuery[] {
  const labelSelector = selectorText(selector);
  if (namespaces.includes("*")) return [{ labelSelector }];
  return namespaces.map((namespace) => ({ namespace, labelSelector }));
}

/** Empty for a DaemonSet that does not exist, or that the API server would not store. */
export function daemonSetQuery(daemonSet: DaemonSet | null | undefined): readonly PodQuery[] {
  const { metadata, spec } = daemonSet ?? {};
  const { namespace } = metadata ?? {};
  if (namespace === undefined || spec?.selector === undefined) return [];
  return [{ namespace, labelSelector: selectorText(spec.selector) }];
}

/** `pods kube-system startup.k8s.io/component=init`, then the DaemonSets if the signal names any. */
export function podSignalName({ namespaces, selector, daemonSets }: PodSignal): string {
  const names = daemonSets.length === 0 ? "" : ` of ${daemonSets.join(",")}`;
  return `pods ${namespaces.join(",")} ${selectorText(selector)}`.trimEnd() + names;
}

export function readPodSignal(signal: PodSignal, node: Node, context: SignalContext): Said {
  const checkOwner = ownerCheck(signal, context.observations);
  return readPods({ ...signal, queries: queriesOf(signal), checkOwner }, node, context);
}

/**
 * Requires a ready pod of the named DaemonSet if the DaemonSet is expected on the node. One of several is enough,
 * because a roll-out with surge has two. An existing pod counts, even if the DaemonSet does not tolerate the gate.
 */
export function readDaemonSet(
  { namespace, name }: DaemonSetSignal,
  node: Node,
  context: SignalContext,
): Said {
  const id = `${namespace}/${name}`;
  const daemonSet = context.observations.daemonSet(namespace, name);
  if (daemonSet === undefined) return unread(`the DaemonSet ${id} has not been read`);
  if (daemonSet === null || (daemonSet.metadata?.deletionTimestamp ?? "") !== "") {
    const what = daemonSet === null ? "there is no DaemonSet" : "it is being deleted, the DaemonSet";
    return { ...missing(reasons.DaemonSetMissing, `${what} ${id}`), noPod: true };
  }
  const expected = expectation(daemonSet, node, context.gateTaints);
  if (expected.state === "notExpected") {
    const message = `${id} is not meant for the node: ${expected.why}`;
    return { ...holding(message, "not expected"), reason: reasons.DaemonSetNotExpected };
  }
  const checkOwner = ownedByCheck(daemonSet);
  const queries = daemonSetQuery(daemonSet);
  const said = readPods({ queries, need: "Any", checkOwner, fromBefore: "Ignore" }, node, context);
  if (said.noPod !== true || expected.state !== "blocked") return said;
  const message = `${id} does not tolerate ${taintText(expected.taint)}, so its pod can never come`;
  return { ...said, reason: reasons.DaemonSetBlocked, message };
}

/** Pods, and how many of them must be ready. */
interface PodNeed extends PodRule {
  readonly queries: readonly PodQuery[];
  readonly need: PodSignal["need"];
}

/** `pod` is `<namespace>/<name>`; absent for pods that have not been read. */
type Judged = { readonly pod?: string; readonly verdict: PodVerdict };

/**
 * `All`: at least one pod counts, and all that count are ready. `Any`: one pod that counts is ready. Unread pods make
 * the reading unknown, unless the other pods settle it. A pod that does not count changes only the message.
 */
function readPods(need: PodNeed, node: Node, context: SignalContext): Said {
  const byVerdict = Object.groupBy(judgeAll(need, node, context), ({ verdict }) => verdict.is);
  const { ready = [], notReady = [], unknown = [], ignored = [] } = byVerdict;
  const settling = need.need === "All" ? notReady : ready;
  if (settling.length === 0 && unknown.length > 0) return unread(tell(unknown, "cannot be judged"));
  if (notReady.length > 0 && (need.need === "All" || ready.length === 0))
    return missing(reasons.PodNotReady, tell(notReady, "is not ready"));
  if (ready.length > 0) return holds(need.need, ready);
  const message = ignored.length === 0 ? "there is no such pod on the node" : tell(ignored, "does not count");
  return { ...missing(reasons.PodMissing, message), noPod: true };
}

/** In the order of the names, so that neither the cache nor a re-list changes the message. */
function judgeAll(need: PodNeed, node: Node, { observations, boot }: SignalContext): readonly Judged[] {
  const judged: Judged[] = [];
  for (const query of need.queries) {
    const pods = observations.pods(query, node.metadata?.name ?? "");
    if (pods === undefined) {
      const why = `the pods of ${query.namespace ?? "all namespaces"} have not been read`;
      judged.push({ verdict: { is: "unknown", why } });
    }
    for (const pod of pods ?? []) {
      judged.push({ pod: pathOf(pod.metadata), verdict: judgePod(pod, need, { node, boot }) });
    }
  }
  return judged.sort((a, b) => compare(a.pod ?? "", b.pod ?? ""));
}

/** With `Any` the pod that has been ready longest decides, so other pods that come or go interrupt nothing. */
function holds(need: PodSignal["need"], ready: readonly Judged[]): Said {
  const found = ready.flatMap(({ pod = "", verdict }) =>
    verdict.is === "ready" ? [{ pod, ...verdict }] : [],
  );
  found.sort((a, b) => (a.since ?? Infinity) - (b.since ?? Infinity) || compare(a.pod, b.pod));
  const basis = need === "All" ? found : found.slice(0, 1);
  const message = `${basis[0]?.pod ?? ""} is ready${more(basis.length - 1)}`;
  const evidence = basis.map((it) => it.evidence).sort();
  return holding(message, evidence.join(" "), Math.max(...basis.flatMap(({ since }) => since ?? [])));
}

function tell(judged: readonly Judged[], what: string): string {
  const [first] = judged;
  const why = first === undefined || first.verdict.is === "ready" ? "" : first.verdict.why;
  const subject = first?.pod === undefined ? why : `${first.pod} ${what}: ${why}`;
  return subject + more(judged.length - 1);
}

function more(count: number): string {
  return count > 0 ? `, and ${count} more` : "";
}

export function compare(a: string, b: string): number {
  return a < b ? -1 : a > b ? 1 : 0;
}

/** Does a signal of the gate need DaemonSets, or the owner of a pod? */
export function needsDaemonSets({ spec }: Pick<Gate, "spec">): boolean {
  return signalGroups(spec).some(
    ({ daemonSets, pods }) => daemonSets.length > 0 || pods.some(({ ownedBy }) => ownedBy === "DaemonSet"),
  );
}

/** Annotations of pods that signals of these gates read. */
export function readAnnotations(gates: readonly Gate[]): readonly string[] {
  return gates.flatMap(({ spec }) =>
    signalGroups(spec).flatMap(({ pods }) => pods.map(({ readyAnnotation }) => readyAnnotation)),
  );
}
