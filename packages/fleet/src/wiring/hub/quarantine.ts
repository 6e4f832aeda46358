/** Copies on the hub that no project can show: each is reported once, counted, and never deleted. */
import type { KubeObject } from "@berth/kube";
import { type Component, createLoopComponent, referenceTo, sleep } from "@berth/runtime";
import { annotations as keys, labels } from "../../api/keys.ts";
import { type Instance, instances } from "../../api/workload.ts";
import { type ClassifyView, classify, projectOf } from "../../hub/projector/classify.ts";
import { deploymentNamed } from "./collect.ts";
import { placeOf } from "./knowledge.ts";
import type { HubParts } from "./parts.ts";

/** Between two looks at all copies, ms. They take no request. */
const LOOK_MS = 10_000;

interface Quarantined {
  readonly reason: string;
  readonly fingerprint: string;
}

/** For the leader. */
export function quarantine(parts: HubParts): Component {
  const { host, planes, know } = parts;
  const { clock, log } = host;
  let known: ReadonlyMap<string, Quarantined> = new Map();
  let unseen: ReadonlyMap<string, number> = new Map();
  host.metrics.gauge<"reason">({
    name: "compute_federation_quarantined_objects",
    help: "Copies of Instances that no project can show, by reason.",
    labels: ["reason"],
    collect(gauge) {
      for (const reason of ["IdentityMissing", "IdentityUndecodable", "ProjectDeploymentMissing"])
        gauge.set([...known.values()].filter((it) => it.reason === reason).length, { reason });
    },
  });
  const look = (): void => {
    const nowMs = clock.monotonic();
    const [found, missing] = [new Map<string, Quarantined>(), new Map<string, number>()];
    for (const copy of planes.views.hub.instances.list(planes.hub.name)) {
      const view = viewOf(parts, copy);
      if (view === undefined) continue;
      const uid = copy.metadata?.uid ?? "";
      const sinceMs = unseen.get(uid) ?? nowMs;
      if (!view.hasDeployment) missing.set(uid, sinceMs);
      const verdict = classify({ ...view, unseenForMs: nowMs - sinceMs });
      if (verdict.is !== "terminal") continue;
      found.set(uid, verdict);
      if (known.get(uid)?.fingerprint === verdict.fingerprint) continue;
      const { namespace, name } = placeOf(copy);
      const note = `Instance ${namespace}/${name} of the hub cannot be shown in a project`;
      log.warn(note, { reason: verdict.reason });
      planes.hub.set.get(planes.hub.name)?.events.record({
        regarding: referenceTo(instances, copy),
        type: "Warning",
        reason: verdict.reason,
        action: "ShowInstance",
        note,
      });
    }
    [known, unseen] = [found, missing];
  };
  return createLoopComponent({
    name: "hub-quarantine",
    async run(signal) {
      do if (know.hubUnread() === undefined) look();
      while (await sleep(clock, LOOK_MS, signal));
    },
  });
}

/** `undefined`: it is no copy. */
function viewOf({ planes, know }: HubParts, copy: Instance): Omit<ClassifyView, "unseenForMs"> | undefined {
  const place = placeOf(copy);
  const namespace: KubeObject | undefined = know.hubNamespace(place.namespace);
  const isOfProject =
    planes.hub.set === planes.projects && copy.metadata?.annotations?.[keys.cellUid] === undefined;
  if (isOfProject || copy.metadata?.labels?.[labels.hubUid] !== undefined) return undefined;
  const named = projectOf({ copy, namespace });
  const project = planes.projectNamed.get(named ?? "");
  const upstream = copy.metadata?.labels?.[labels.upstreamNamespace] ?? "";
  const cluster = project?.cluster;
  const deployment =
    cluster &&
    planes.views.project.deployments.get({ cluster, namespace: upstream, name: deploymentNamed(copy) });
  const isSynced = cluster !== undefined && know.project(cluster)?.isSynced === true;
  return {
    copy,
    namespace,
    project: isSynced ? "synced" : "unknown",
    hasDeployment: deployment !== undefined,
  };
}
