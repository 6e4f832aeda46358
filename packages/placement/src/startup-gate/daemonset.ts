import type { Node } from "@berth/kube";
import { reasons } from "../api/reasons.ts";
import { expectation, taintText } from "../node/daemonset-placement.ts";
import type { DaemonSetSignal } from "./document.ts";
import {
  daemonSetQuery,
  holding,
  missing,
  readPods,
  type Said,
  type SignalContext,
  unread,
} from "./pod-signal.ts";
import { ownedByCheck } from "./pod-verdict.ts";

/**
 * What a named DaemonSet says: a ready pod of it where it is expected. One of several is enough, as there are two while it
 * rolls out with a surge. A pod that is there already is gone by, though no other could come past the gate.
 */
export function readDaemonSet(
  { namespace, name }: DaemonSetSignal,
  node: Node,
  context: SignalContext,
): Said {
  const id = `${namespace}/${name}`;
  const daemonSet = context.sight.daemonSet(namespace, name);
  if (daemonSet === undefined) {
    return unread(`the DaemonSet ${id} has not been read`);
  }
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
