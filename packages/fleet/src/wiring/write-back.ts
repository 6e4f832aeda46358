/** Writes the Instances of a cell to the hub, where Karmada carries the fleet. Its keys are Instances, in both clusters. */
import { createKeySource, type Host } from "@berth/host";
import { type ConnectOptions, namespaces } from "@berth/kube";
import { clusterName, keyOf, type ObjectKey, toKeyText } from "@berth/runtime";
import { deploymentOfInstance } from "../api/keys.ts";
import { ownerOf } from "../api/owner.ts";
import { type Seen, seenOf } from "../api/seen.ts";
import { type Instance, instances } from "../api/workload.ts";
import { decideWriteBack } from "../hub/collect/write-back.ts";
import { upstreamMarks } from "../hub/federator/namespace.ts";
import { sourceUidOf } from "../hub/source.ts";
import type { FleetParts } from "./controller.ts";
import { COPY_PACE, correct, isSettled } from "./hub/collect.ts";
import { Pace } from "./hub/pace.ts";
import { LOOK_AGAIN_MS } from "./hub/parts.ts";
import { objectViews } from "./hub/planes.ts";
import { isThere } from "./hub/prove-absent.ts";
import { Sender } from "./hub/sender.ts";
import { creationOf, deletionOf } from "./intents.ts";
import { by } from "./reads.ts";

const HUB = clusterName("hub");
const IDENTITY = "kube-system";

/** @returns to be called with an Instance of the cell that has changed. */
export function addWriteBack(
  { host, lease, views, metrics }: Pick<FleetParts, "host" | "lease" | "views" | "metrics">,
  to: ConnectOptions,
): (changed: Instance) => void {
  const { runtime, clock } = host;
  const set = runtime.clusters("hub");
  set.join(HUB, { to });
  const hub = objectViews(set);
  const toHub = (key: Omit<ObjectKey, "cluster">): ObjectKey => ({ ...key, cluster: HUB });
  const asked = createKeySource(() => [
    ...Array.from(views.instances.keys(), toHub),
    ...Array.from(hub.instances.list(HUB), (it) => keyOf(HUB, it)),
  ]);
  const changed = (it: Instance): void => asked.ask([keyOf(HUB, it)], "high", true);
  hub.instances.subscribe({ onChange: ({ object }) => changed(object), onState: () => asked.askAll() });
  hub.namespaces.subscribe({ onState: () => asked.askAll() });
  hub.deployments.subscribe({
    onState: () => asked.askAll(),
    onChange({ type, object }) {
      const inCell = views.deployments.find(object.metadata?.name ?? "", object.metadata?.namespace);
      if (type === "updated" || !inCell) return;
      const own = views.instances.byIndex(by.deployment, inCell.metadata?.uid ?? "");
      asked.ask(own.map((it) => keyOf(HUB, it)));
    },
  });
  const sender = new Sender({ host, set, resource: instances, action: "CopyInstance" });
  const pace = new Pace(clock, COPY_PACE);
  const identity = cellIdentity(host);
  const reconcile = async (key: ObjectKey, context: Parameters<typeof identity>[0]) => {
    const isRead = [hub.deployments, hub.instances, hub.namespaces].every((it) => it.state(HUB) === "synced");
    if (!isRead || !views.instances.synced || !views.deployments.synced) return undefined;
    const copy = hub.instances.get(key);
    const present = views.instances.find(key.name, key.namespace) ?? undefined;
    const owner = (present && ownerOf(present)?.name) ?? "";
    const deployment = views.deployments.find(owner, key.namespace) ?? undefined;
    const namespace = hub.namespaces.get(toHub({ namespace: "", name: key.namespace }));
    const view = {
      instance: seenOf(present) as Seen<Instance>,
      deployment,
      hubDeployment: hub.deployments.get(toHub({ ...key, name: deploymentOfInstance(key.name) ?? "" })),
      namespaceLabels: (namespace && upstreamMarks(namespace).labels) ?? {},
      cellUid: await identity(context),
      copy,
    };
    const { findings, ...decision } = decideWriteBack(view);
    const object: Instance = copy ?? { metadata: { namespace: key.namespace, name: key.name } };
    const sending = { key, object, context };
    if (copy !== undefined || findings.length > 0) sender.tell(sending, findings);
    if (isSettled(decision)) return copy === undefined ? sender.forget(key) : sender.settle(key);
    // The watch of a process that begins to lead may be behind.
    const isLate =
      present === undefined &&
      copy !== undefined &&
      (await isThere(host.client, instances, key, sourceUidOf(copy), context));
    if (isLate) return { recheckAfterMs: LOOK_AGAIN_MS };
    const waitMs = pace.take(toKeyText(key));
    if (waitMs > 0) return { recheckAfterMs: waitMs };
    return sender.send(sending, [
      ...(decision.create ? [creationOf(instances, decision.create, "the copy of the Instance")] : []),
      ...(decision.delete
        ? [deletionOf(instances, decision.delete, "it is not this Instance's", "the copy")]
        : []),
      ...correct(object, decision, "the cell says so"),
    ]);
  };
  runtime.add(
    set.controller({
      name: "write-back",
      sources: [asked],
      reconcile: metrics.measured("write-back", reconcile),
    }),
    "elected",
    lease,
  );
  return changed;
}

/** Two cells may have one name: the uid of this namespace is that of the cluster. */
function cellIdentity({ client }: Host) {
  let known: string | undefined;
  return async ({
    signal,
  }: Parameters<ReturnType<FleetParts["metrics"]["measured"]>>[1]): Promise<string> => {
    known ??= (await client.get(namespaces, { name: IDENTITY }, { signal })).metadata?.uid ?? "";
    return known;
  };
}
