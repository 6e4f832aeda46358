/** What `berth clean` removes for footprints: marks on nodes, finalizers on owners, selectors of DaemonSets. */

import { counted, type OneShotRun, type Undo } from "@berth/host";
import { type Node, pathOf } from "@berth/kube";
import { removeFinalizer } from "@berth/runtime";
import { type CleanOnce } from "../node/clean-once.ts";
import { labelId } from "../node/mark.ts";
import { holdsMark, noMarks } from "../node/mark-set.ts";
import { listDaemonSets } from "../node/once.ts";
import { type NodePlan } from "../node/plan.ts";
import { ownedMarks, recordOf } from "../node/record.ts";
import { staysAway, withoutSelector } from "./agent/selector.ts";
import { FOOTPRINT, type Footprint, type Footprints } from "./footprint.ts";
import { distinctHolds, eachOwner } from "./held-once.ts";

const FILES_LIMIT =
  "This command does not find finalizers of deleted footprints: give their documents by --config FILE.\n";

export const footprintClean: CleanOnce<Footprints> = {
  async clean(footprints, { run, isWanted, isOnly, hasConfig }) {
    if (!isWanted) return {};
    const keepers = new FootprintKeepers(run.installation);
    const plans: Pick<NodePlan, "changes">[] = [];
    return {
      keysOn: (node) => footprintMarks(node, footprints, run.installation),
      add(node, plan) {
        keepers.add(node);
        if (plan.changes.length > 0) plans.push({ changes: plan.changes });
      },
      templates: [
        { what: "its request for the label of a footprint", isFirst: true, remove: withoutSelector },
      ],
      async find(isDone) {
        if (!hasConfig && (footprints !== undefined || isOnly)) run.stderr.write(FILES_LIMIT);
        const owners = await findFootprintWork(footprints, keepers, run);
        for (const { daemonSet, label, nodes } of await findBereftAgents(footprints, plans, run)) {
          const on = counted(nodes, "node");
          run.stderr.write(
            `The DaemonSet ${daemonSet} asks for ${label}: its pods on ${on} ${isDone ? "end now" : "would end"}.\n`,
          );
        }
        return owners;
      },
    };
  },
};

/** Marks that this installation recorded at places of known footprints, also under `node-restriction.kubernetes.io`. */
function footprintMarks(node: Node, footprints: Footprints | undefined, installation: string) {
  const declared = footprints?.policy.declared ?? noMarks;
  return [...ownedMarks(recordOf(node), installation)].flatMap(([id, { capability }]) =>
    capability === FOOTPRINT && holdsMark(declared, id) ? [id] : [],
  );
}

/**
 * Which installations have marks of each footprint on nodes. A finalizer does not name its installation. If only
 * another installation has marks of a footprint, Berth assumes that the finalizers are also of that installation.
 */
export class FootprintKeepers {
  readonly installation: string;
  readonly #ours = new Set<string>();
  readonly #others = new Map<string, string>();

  constructor(installation: string) {
    this.installation = installation;
  }

  add(node: Node): void {
    const read = recordOf(node);
    if (read.state !== "read") return;
    for (const { capability, rule, by } of read.record.marks.values()) {
      if (capability !== FOOTPRINT) continue;
      if (by === this.installation) this.#ours.add(rule);
      else this.#others.set(rule, by);
    }
  }

  /** The other installation that has marks of it; `undefined`: this installation has marks too, or none has. */
  otherOf({ rule }: Footprint): string | undefined {
    return this.#ours.has(rule) ? undefined : this.#others.get(rule);
  }
}

/**
 * Finds the finalizers of known footprints, and only those that the footprints would add. Without Berth, such a
 * finalizer would block the deletion of an owner forever.
 */
export async function findFootprintWork(
  footprints: Footprints | undefined,
  keepers: FootprintKeepers,
  run: OneShotRun,
): Promise<readonly Undo[]> {
  const found: Undo[] = [];
  const ours = (footprints?.footprints ?? []).filter((footprint) => {
    const other = keepers.otherOf(footprint);
    if (other !== undefined)
      run.stderr.write(
        `${footprint.rule} is of the installation ${other}, by its marks on nodes: its other changes stay.\n`,
      );
    return other === undefined;
  });
  for (const hold of distinctHolds(ours)) {
    const what = `finalizer ${hold.finalizer}`;
    await eachOwner(hold, run, (object, resource) => {
      const patch = removeFinalizer(object, hold.finalizer);
      if (patch !== undefined) found.push({ resource, object, what, how: { do: "patch", patch } });
    });
  }
  return found;
}

/** DaemonSets that ask for a label that the plans remove, with the number of nodes. @param plans changes of nodes. */
async function findBereftAgents(
  footprints: Footprints | undefined,
  plans: readonly Pick<NodePlan, "changes">[],
  run: OneShotRun,
): Promise<readonly { readonly daemonSet: string; readonly label: string; readonly nodes: number }[]> {
  const agents = (footprints?.footprints ?? []).flatMap((footprint) => {
    const { agent, label } = footprint;
    const isLost = ({ id, action, before }: NodePlan["changes"][number]): boolean =>
      id === labelId(label.key) && action === "remove" && before === label.value;
    const { length: nodes } = plans.filter(({ changes }) => changes.some(isLost));
    const daemonSet = `${agent?.namespace}/${agent?.name}`;
    return agent === undefined || nodes === 0 ? [] : [{ footprint, daemonSet, nodes }];
  });
  if (agents.length === 0) return [];
  const sets = await listDaemonSets(run, "which of them ask for labels of footprints is unknown");
  return agents.flatMap(({ footprint, daemonSet, nodes }) => {
    const found = sets?.find((it) => pathOf(it.metadata) === daemonSet);
    // If Berth added the selector, the pods stay: the run removes the selector before the label.
    const isBereft =
      staysAway(found?.spec?.template.spec, footprint) && found && withoutSelector(found) === undefined;
    const { key, value } = footprint.label;
    return isBereft ? [{ daemonSet, label: `${key}=${value}`, nodes }] : [];
  });
}
