/**
 * What a hub does where Karmada carries its deployments: the policies of their cities, and how Karmada reads their status.
 * Cells and deletions in them are Karmada's.
 */
import type { Intent } from "@berth/host";
import { changed, keyOf, type ObjectKey, or, type Reconcile, toTime } from "@berth/runtime";
import {
  bindingOf,
  interpreterCustomizations,
  type MemberCluster,
  propagationPolicies,
  type ResourceBinding,
} from "../../api/karmada.ts";
import { annotations as keys, labels } from "../../api/keys.ts";
import { type WorkloadDeployment, workloadDeployments } from "../../api/workload.ts";
import { carriedOf } from "../../drivers/karmada/carried.ts";
import { INTERPRETER, interpreter, interpreterPatch } from "../../drivers/karmada/interpreter.ts";
import { cityOf, decidePolicy, policyOf } from "../../drivers/karmada/policy.ts";
import type { KarmadaView } from "../../hub/federator/decide.ts";
import { creationOf, deletionOf } from "../intents.ts";
import { by } from "../reads.ts";
import type { HubAsk } from "./ask.ts";
import { isSettled } from "./collect.ts";
import { type Place, placeOf } from "./knowledge.ts";
import { type HubParts, LOOK_AGAIN_MS } from "./parts.ts";
import type { KarmadaViews, Planes } from "./planes.ts";
import { Sender } from "./sender.ts";

const DEPLOYMENT = bindingOf("");

/** `undefined`: the hub carries its deployments itself. */
export function karmadaView(
  { planes, know, lags, host }: HubParts,
  place: Place,
  deployment: WorkloadDeployment | undefined,
): KarmadaView | undefined {
  const { karmada: views } = planes.views;
  if (views === undefined) return undefined;
  const binding = views.bindings.get(know.hubKey({ ...place, name: bindingOf(place.name) }));
  if (deployment === undefined)
    return { carried: undefined, isBound: binding !== undefined, push: undefined };
  const { uid = "", annotations } = deployment.metadata ?? {};
  const generation = annotations?.[keys.sourceGeneration] ?? "";
  const nowMs = host.clock.now();
  const carried = carriedOf({
    deployment,
    binding: binding?.spec?.resource?.uid === uid ? binding : undefined,
    policy: views.policies.get(know.hubKey({ ...place, name: policyOf(deployment) })),
    clusters: Array.from(views.clusters.list(planes.hub.name)),
    behindForMs: lags.forMs(uid, generation),
    nowMs,
  });
  if (!carried.isBehind) lags.end(uid);
  const waitMs = carried.isBehind ? lags.push(uid, generation) : undefined;
  return {
    carried: waitMs === undefined ? carried : { ...carried, recheckAfterMs: waitMs || LOOK_AGAIN_MS },
    isBound: true,
    push: waitMs === 0 ? toTime(nowMs) : undefined,
  };
}

/** The keys of all policies that there are, or should be. */
export function policyKeys({ hub, views }: Planes): readonly ObjectKey[] {
  const { karmada } = views;
  if (karmada === undefined) return [];
  return [
    { cluster: hub.name, namespace: "", name: INTERPRETER },
    ...Array.from(karmada.policies.list(hub.name), (it) => keyOf(hub.name, it)),
    ...Array.from(views.hub.deployments.list(hub.name), (it) => policyKey(hub.name, it)),
  ];
}

function policyKey(cluster: ObjectKey["cluster"], deployment: WorkloadDeployment): ObjectKey {
  return { cluster, ...placeOf(deployment), name: policyOf(deployment) };
}

export function policies(parts: HubParts, views: KarmadaViews): Reconcile<ObjectKey> {
  const { host, planes, know, hubClient } = parts;
  const { set } = planes.hub;
  const sender = new Sender({ host, set, resource: propagationPolicies, action: "PropagateDeployments" });
  const taught = new Sender({ host, set, resource: interpreterCustomizations, action: "TeachKarmada" });
  return async (key, context) => {
    if (know.hubUnread() !== undefined) return undefined;
    const { namespace, name } = key;
    if (namespace === "") {
      const present = views.interpreters.get(key);
      const patch = present && interpreterPatch(present);
      const intents = present
        ? patchesTo(patch, "InterpreterChanged", "Karmada reads the status of deployments")
        : [creationOf(interpreterCustomizations, interpreter, "how Karmada reads the status")];
      return taught.send({ key, object: present ?? interpreter, context }, intents);
    }
    if (!know.isOfHub(namespace)) return undefined;
    const inside = planes.views.hub.deployments.byIndex(by.namespace, namespace, key.cluster);
    const policy = views.policies.get(key);
    const city = policy && cityOf(policy);
    const own = inside.filter((it) => policyOf(it) === name);
    const bindings = views.bindings.byIndex(by.namespace, namespace, key.cluster).filter(
      ({ spec, metadata }) =>
        metadata?.name?.endsWith(DEPLOYMENT) === true &&
        // Of a deployment that is gone, no label says the city any more.
        inside.every((it) => it.metadata?.uid !== spec?.resource?.uid || own.includes(it)),
    );
    const decision = decidePolicy({ namespace, policy, deployments: own, bindings });
    if (decision.delete !== undefined) {
      const labelSelector = `${labels.city}=${city}`;
      const { items } = await hubClient.list(workloadDeployments, {
        namespace,
        labelSelector,
        signal: context.signal,
      });
      if (items.length > 0) return { recheckAfterMs: LOOK_AGAIN_MS };
    }
    const object = policy ?? { metadata: { namespace, name } };
    const { create } = decision;
    if (isSettled(decision)) return policy === undefined ? sender.forget(key) : sender.settle(key);
    return sender.send({ key, object, context }, [
      ...(create ? [creationOf(propagationPolicies, create, "the policy of its city")] : []),
      ...patchesTo(decision.patch, "PolicyChanged", "one cell of the city gets its deployments"),
      ...(decision.delete
        ? [deletionOf(propagationPolicies, decision.delete, "no deployment of its city is left", "it")]
        : []),
    ]);
  };
}

function patchesTo(body: object | undefined, reason: string, message: string): readonly Intent[] {
  return body === undefined ? [] : [{ do: "patch", patch: { type: "merge", body }, reason, message }];
}

const hasNewStatus = changed<ResourceBinding>(({ status }) => status?.aggregatedStatus);

/** Karmada writes the resources of each cluster all the time. */
const isReachOrCity = or<MemberCluster>(
  ({ type }) => type !== "updated",
  changed(({ metadata, status }) => [
    metadata?.labels?.[labels.city],
    status?.conditions?.map(({ type, status: is }) => `${type}=${is}`),
  ]),
);

/** Asks for what follows from a change of Karmada's objects. */
export function followKarmada(
  { planes, asked, counts, know }: HubParts,
  ask: HubAsk,
  views: KarmadaViews,
): void {
  const { hub } = planes;
  const policyOfPlace = ({ namespace }: Place): void =>
    asked.policies.ask(
      views.policies.byIndex(by.namespace, namespace, hub.name).map((it) => keyOf(hub.name, it)),
    );
  const around = (place: Place): void => {
    const upstream = know.federated(place);
    if (upstream !== undefined) asked.federator.ask([upstream], "high", true);
  };
  views.bindings.subscribe({
    onChange(change) {
      const { namespace, name } = placeOf(change.object);
      if (!name.endsWith(DEPLOYMENT)) return;
      const place = { namespace, name: name.slice(0, -DEPLOYMENT.length) };
      if (change.type === "updated" && hasNewStatus(change)) {
        counts.changed(place);
        counts.onHub(place, true);
      }
      around(place);
      policyOfPlace(place);
    },
  });
  views.policies.subscribe({
    onChange({ object }) {
      const key = keyOf(hub.name, object);
      asked.policies.ask([key], "high", true);
      for (const it of planes.views.hub.deployments.byIndex(by.namespace, key.namespace, hub.name))
        around(placeOf(it));
    },
  });
  planes.views.hub.deployments.subscribe({
    onChange({ type, object }) {
      if (type !== "updated") asked.policies.ask([policyKey(hub.name, object)], "high", true);
    },
  });
  views.interpreters.subscribe({
    onChange({ object }) {
      if (object.metadata?.name === INTERPRETER) asked.policies.ask([keyOf(hub.name, object)]);
    },
  });
  views.clusters.subscribe({
    onChange(change) {
      if (!isReachOrCity(change)) return;
      asked.federator.askAll();
      const before = change.type === "updated" ? [change.old] : [];
      for (const { metadata } of [change.object, ...before])
        ask.unplaced(metadata?.labels?.[labels.city] ?? "");
    },
  });
  for (const view of Object.values(views) as readonly { subscribe: KarmadaViews["bindings"]["subscribe"] }[])
    view.subscribe({ onState: () => ask.all() });
}
