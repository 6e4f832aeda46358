/** `clean` for startup gates: removes the marks that they have set. */
import type { Node } from "@berth/kube";
import type { Unrecorded } from "../node/clean.ts";
import type { CleanOnce } from "../node/clean-once.ts";
import { withoutTolerations } from "../node/given-tolerations.ts";
import { type MarkId, standingValue, taintId } from "../node/mark.ts";
import { holdsMark } from "../node/mark-set.ts";
import { contractMarks, isStartupPlace, placesOf } from "./compile.ts";
import { originalGate } from "./document.ts";
import { GATES, type Gates } from "./gate.ts";
import { selects } from "./selection.ts";

const { key: KEY, effect: EFFECT } = originalGate.taint;
const ORIGINAL = taintId(KEY, EFFECT);

export const gatesClean: CleanOnce<Gates> = {
  async clean(gates, { isWanted, isOnly }) {
    let unclaimed = 0;
    return {
      ...(gates?.policy.places && { declared: gates.policy.places }),
      unrecorded: unrecordedGates(gates ?? { gates: [] }),
      add(node, { changes }) {
        const isClaimed = changes.some(({ id }) => id === ORIGINAL);
        if (standingValue(node, ORIGINAL) !== undefined && !isClaimed) unclaimed += 1;
      },
      ...(isWanted && {
        templates: [
          {
            what: `tolerations of ${GATES}`,
            isFirst: false,
            remove: (daemonSet) => withoutTolerations(daemonSet, GATES),
          },
        ],
      }),
      remarks: () =>
        unclaimed === 0 || isOnly || !isWanted
          ? ""
          : `${unclaimed} ${unclaimed === 1 ? "node has" : "nodes have"} the taint ${KEY} without a record, and no gate ` +
            `that is known wants it: unless another controller uses it, --key ${KEY} removes it.\n`,
    };
  },
};

/** Admission puts these taints on the nodes that a gate selects, and writes no record of them. */
export function unrecordedGates({ gates }: Pick<Gates, "gates">): Unrecorded {
  return {
    capability: GATES,
    isOurs: (id) =>
      holdsMark(contractMarks, id) || isStartupPlace(id) || gates.some((gate) => placesOf(gate).includes(id)),
    admitted: (node) => admittedTaints(node, gates),
  };
}

/** Taints of the gates that select the node, and the taint of the contract if any gate selects it. */
function admittedTaints(node: Node, gates: Gates["gates"]): ReadonlyMap<MarkId, string> {
  const taints = new Map<MarkId, string>();
  for (const gate of gates.filter((it) => selects(it, node))) {
    if (!taints.has(ORIGINAL)) taints.set(ORIGINAL, gate.rule);
    taints.set(gate.taintId, gate.rule);
  }
  return taints;
}
