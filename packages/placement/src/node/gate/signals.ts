/** What the signals of a gate say of one node. */
import type { Node } from "@berth/kube";
import { reasons } from "../../api/reasons.ts";
import type { GateSignals } from "../../api/startup-gate.ts";
import { ownValue } from "../mark.ts";
import { isPositiveQuantity } from "../quantity.ts";
import { readDaemonSet } from "./daemonset.ts";
import type { Gate, SignalReading } from "./gate.ts";
import { podSignalName, readPodSignal, type Said, type SignalContext } from "./pod-signal.ts";

/** Longest text of others that is repeated in a message, characters. */
const MAX_QUOTE = 64;

/** One signal, and how to read it. */
type Signal = readonly [name: string, read: () => Said];

/**
 * The readings in the order of the schema: pods, DaemonSets, conditions, annotations, resources, labels. Total: a signal
 * whose objects are not of the shape that the API gives them is `unknown`, and the others are read.
 */
export function readSignals(gate: Gate, node: Node, context: SignalContext): readonly SignalReading[] {
  return signalsOf(gate.spec.signals, node, context).map((signal) => attempt(signal));
}

function attempt([signal, read]: Signal): SignalReading {
  try {
    return { signal, ...read() };
  } catch (error) {
    const message = `it cannot be read: ${quote(String(error))}`;
    return { signal, state: "unknown", reason: reasons.SignalUnknown, message, evidence: "" };
  }
}

function signalsOf(signals: GateSignals, node: Node, context: SignalContext): readonly Signal[] {
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

type ConditionSignal = GateSignals["conditions"][number];

/** `condition Ready`, `condition NetworkUnavailable=False`. */
function conditionName({ type, status }: ConditionSignal): string {
  return status === "True" ? `condition ${type}` : `condition ${type}=${status}`;
}

function readCondition({ type, status }: ConditionSignal, node: Node): Said {
  const condition = node.status?.conditions?.find((it) => it.type === type);
  if (condition === undefined) {
    return missing(reasons.ConditionMissing, `the node has no condition ${type}`);
  }
  const { lastTransitionTime = "", reason = "" } = condition;
  const is = `${type} is ${quote(condition.status)}${reason === "" ? "" : ` (${quote(reason)})`}`;
  if (condition.status !== status) return missing(reasons.ConditionMissing, is);
  const since = Date.parse(lastTransitionTime);
  return { ...holds(is, `${status}@${lastTransitionTime}`), ...(!Number.isNaN(since) && { since }) };
}

function readAnnotation({ key, value }: GateSignals["annotations"][number], node: Node): Said {
  const stands = ownValue(node.metadata?.annotations, key);
  if (stands === value) return holds(`${key} is "${quote(value)}"`, "stands");
  const is = stands === undefined ? "the node has no such annotation" : `it is "${quote(stands)}"`;
  return missing(reasons.AnnotationMissing, `${is}; "${quote(value)}" is wanted`);
}

function readResource(name: string, node: Node): Said {
  const quantity = ownValue(node.status?.allocatable, name);
  if (quantity === undefined) return missing(reasons.ResourceMissing, `the node does not offer ${name}`);
  const message = `the node offers ${quote(quantity)} of ${name}`;
  return isPositiveQuantity(quantity) ? holds(message, "offered") : missing(reasons.ResourceMissing, message);
}

function readLabels(node: Node, { sight }: SignalContext): Said {
  const settled = sight.labelsSettled(node);
  if (settled === undefined) {
    const message = "the rules of labels have not been read";
    return { state: "unknown", reason: reasons.SignalUnknown, message, evidence: "" };
  }
  return settled
    ? holds("the derived labels stand as the rules want them", "settled")
    : missing(reasons.LabelsUnsettled, "the derived labels do not stand as the rules want them");
}

function holds(message: string, evidence: string): Said {
  return { state: "holds", reason: reasons.SignalHolds, message, evidence };
}

function missing(reason: Said["reason"], message: string): Said {
  return { state: "missing", reason, message, evidence: "" };
}

function quote(text: string): string {
  return text.length <= MAX_QUOTE ? text : `${text.slice(0, MAX_QUOTE)}…`;
}
