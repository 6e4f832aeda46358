/** Reads the signals of a gate on one node. */
import type { Node } from "@berth/kube";
import { isPositiveQuantity } from "@berth/runtime";
import { reasons } from "../api/reasons.ts";
import { ownValue } from "../node/mark.ts";
import type { ConditionSignal, GateSignals, SignalGroup } from "./document.ts";
import type { Gate, SignalReading } from "./gate.ts";
import {
  holding,
  missing,
  podSignalName,
  readDaemonSet,
  readPodSignal,
  type Said,
  type SignalContext,
  unread,
} from "./pod-signal.ts";

/** Longest foreign text that a message quotes, characters. */
const MAX_QUOTE = 64;

/** One signal, and how to read it. */
type Signal = readonly [name: string, read: () => Said];

/**
 * In the order of the schema, with one reading for all alternatives together. Total: if objects do not have the shape
 * of the API, their signal is `unknown`, and the others are still read.
 */
export function readSignals(gate: Gate, node: Node, context: SignalContext): readonly SignalReading[] {
  const { signals } = gate.spec;
  const all = [...signalsOf(signals, node, context), ...alternatives(signals, node, context)];
  return all.map(attempt);
}

function attempt([signal, read]: Signal): SignalReading {
  try {
    return { signal, ...read() };
  } catch (error) {
    return { signal, ...unread(`it cannot be read: ${quote(String(error))}`) };
  }
}

function signalsOf(signals: SignalGroup, node: Node, context: SignalContext): readonly Signal[] {
  const { pods, daemonSets, conditions, annotations, resources, labelsSettled } = signals;
  return [
    ...pods.map((pod): Signal => [podSignalName(pod), () => readPodSignal(pod, node, context)]),
    ...daemonSets.map(
      (it): Signal => [`daemonset ${it.namespace}/${it.name}`, () => readDaemonSet(it, node, context)],
    ),
    ...conditions.map((it): Signal => [conditionName(it), () => readCondition(it, node)]),
    ...annotations.map((it): Signal => [`annotation ${it.key}`, () => readAnnotation(it, node)]),
    ...resources.map((name): Signal => [`resource ${name}`, () => readResource(name, node)]),
    ...(labelsSettled ? [["labels settled", () => readLabels(node, context)] satisfies Signal] : []),
  ];
}

/** `any of (condition A) or (condition B and resource C)`; empty without alternatives. */
function alternatives({ anyOf }: GateSignals, node: Node, context: SignalContext): readonly Signal[] {
  if (anyOf.length === 0) return [];
  const groups = anyOf.map((group) => signalsOf(group, node, context));
  const name = groups.map((group) => `(${group.map(([signal]) => signal).join(" and ")})`).join(" or ");
  return [[`any of ${name}`, () => readAnyOf(groups.map((group) => group.map(attempt)))]];
}

/** The group that has held longest decides, so other groups that come or go interrupt nothing. */
function readAnyOf(groups: readonly (readonly SignalReading[])[]): Said {
  const lacking = groups.map((group) => group.filter(({ state }) => state !== "holds"));
  const [oldest] = groups
    .filter((_, at) => lacking[at]?.length === 0)
    .sort((a, b) => sinceOf(a) - sinceOf(b));
  if (oldest !== undefined) {
    const message = oldest.map((it) => it.message).join("; ");
    const evidence = oldest.map((it) => `${it.signal} ${it.evidence}`).join(" ");
    return holding(message, evidence, sinceOf(oldest));
  }
  const message = lacking.flatMap(([it]) => (it ? [`${it.signal}: ${it.message}`] : [])).join("; nor ");
  const mayHold = lacking.some((group) => group.every(({ state }) => state === "unknown"));
  if (mayHold) return unread(message);
  const noPod = lacking.every((group) => group.some((it) => it.noPod === true));
  return { ...missing(reasons.NoAlternative, message), ...(noPod && { noPod }) };
}

/** Since when all of them hold; infinite if one of them does not say it. */
function sinceOf(group: readonly SignalReading[]): number {
  return Math.max(...group.map(({ since }) => since ?? Number.POSITIVE_INFINITY));
}

/** `condition Ready`, `condition NetworkUnavailable=False`. */
function conditionName({ type, status }: ConditionSignal): string {
  return status === "True" ? `condition ${type}` : `condition ${type}=${status}`;
}

function readCondition({ type, status, defaultStatus }: ConditionSignal, node: Node): Said {
  const condition = node.status?.conditions?.find((it) => it.type === type);
  if (condition === undefined) {
    const counts = defaultStatus === undefined ? "" : `, which counts as ${defaultStatus}`;
    const message = `the node has no condition ${type}${counts}`;
    return defaultStatus === status ? holding(message, "absent") : missing(reasons.ConditionMissing, message);
  }
  const { lastTransitionTime = "", reason = "" } = condition;
  const is = `${type} is ${quote(condition.status)}${reason === "" ? "" : ` (${quote(reason)})`}`;
  if (condition.status !== status) return missing(reasons.ConditionMissing, is);
  return holding(is, `${status}@${lastTransitionTime}`, Date.parse(lastTransitionTime));
}

function readAnnotation({ key, value }: GateSignals["annotations"][number], node: Node): Said {
  const stands = ownValue(node.metadata?.annotations, key);
  if (stands === value) return holding(`${key} is "${quote(value)}"`, "stands");
  const is = stands === undefined ? "the node has no such annotation" : `it is "${quote(stands)}"`;
  return missing(reasons.AnnotationMissing, `${is}; "${quote(value)}" is wanted`);
}

function readResource(name: string, node: Node): Said {
  const quantity = ownValue(node.status?.allocatable, name);
  if (quantity === undefined) return missing(reasons.ResourceMissing, `the node does not offer ${name}`);
  const message = `the node offers ${quote(quantity)} of ${name}`;
  return isPositiveQuantity(quantity)
    ? holding(message, "offered")
    : missing(reasons.ResourceMissing, message);
}

function readLabels(node: Node, { observations }: SignalContext): Said {
  const settled = observations.labelsSettled(node);
  if (settled === undefined) return unread("the rules of labels have not been read");
  return settled
    ? holding("the derived labels are as the rules want them", "settled")
    : missing(reasons.LabelsUnsettled, "the derived labels are not as the rules want them");
}

function quote(text: string): string {
  return text.length <= MAX_QUOTE ? text : `${text.slice(0, MAX_QUOTE)}…`;
}
