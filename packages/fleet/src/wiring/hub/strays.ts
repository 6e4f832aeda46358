/** Deployments in cells that nothing stands for on the hub. Only a person can say what they are for: see `isOrphaned`. */
import type { Finding } from "@berth/host";
import type { KubeObject } from "@berth/kube";
import { type ObjectKey, toKeyText } from "@berth/runtime";
import { cells } from "../../api/cell.ts";
import { originOf } from "../../api/origin.ts";
import type { HubReason } from "../../api/reasons.ts";
import { isOrphaned } from "../../drivers/direct/withdraw.ts";
import { type CellSeen, uidOf } from "../../hub/cells/seen.ts";
import type { HubParts } from "./parts.ts";
import { Sender, type Sending } from "./sender.ts";

/** Looks at one deployment of a cell. */
export type LookForStray = (key: ObjectKey, cell: CellSeen, context: Sending<KubeObject>["context"]) => void;

/** Reports each once, as an Event on its Cell, and counts those that there are. */
export function strays({ host, planes, know }: HubParts): LookForStray {
  const sender = new Sender({ host, set: planes.own.set, resource: cells, action: "WatchCell" });
  const reasons = new Map<string, HubReason>();
  host.metrics.gauge<"reason">({
    name: "compute_federation_stray_deployments",
    help: "Deployments in cells that Berth leaves alone, by reason: Orphaned or Forged.",
    labels: ["reason"],
    collect(gauge) {
      for (const reason of ["Orphaned", "Forged"] as const)
        gauge.set([...reasons.values()].filter((it) => it === reason).length, { reason });
    },
  });
  const findingOn = (key: ObjectKey, cell: CellSeen): Finding | undefined => {
    const seen = know.inCell(cell, key, (views) => views.deployments);
    if (seen.is !== "there") return undefined;
    const about = `${key.namespace}/${key.name}`;
    const origin = originOf(seen.value, uidOf(cell), know.signer);
    if (origin.is === "forged" && origin.hub === know.hubUid)
      return { reason: "Forged", about, message: `deployment ${about} says that this hub made it` };
    if (origin.is !== "signed" || origin.origin.hub !== know.hubUid) return undefined;
    const isStray = isOrphaned({
      found: { cell, deployment: seen.value, origin: origin.origin },
      hubDeployment: know.onHub(key),
      withdrawals: know.withdrawals(key),
      source: know.shownSource(key, origin.origin.sourceUid),
    });
    const message = `this hub made deployment ${about}, and knows nothing of it any more`;
    return isStray ? { reason: "Orphaned", about, message } : undefined;
  };
  return (key, cell, context) => {
    const id = toKeyText(key);
    const finding = findingOn(key, cell);
    if (finding === undefined) {
      reasons.delete(id);
      return;
    }
    reasons.set(id, finding.reason as HubReason);
    const own = { cluster: planes.own.name, namespace: "", name: key.cluster };
    sender.tell({ key: own, object: cell.cell, context }, [finding]);
  };
}
