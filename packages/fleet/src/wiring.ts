/** Wires the fleet into a running Berth. Without a Fleet it does nothing. */
import {
  baseName,
  type Capability,
  ConditionLog,
  createKeySource,
  createViews,
  type Host,
  type KeySource,
} from "@berth/host";
import type { KubeClient } from "@berth/kube";
import {
  type Component,
  createLoopComponent,
  type DesiredCondition,
  isSameData,
  mergeConditions,
  type ObjectKey,
  sleep,
} from "@berth/runtime";
import { fleetAdmission } from "./admit/review.ts";
import { Claims } from "./claims/claims.ts";
import { isPaying, type QuotaClients, quotaClients } from "./claims/payer.ts";
import { Quota } from "./claims/quota.ts";
import { type FleetSpec, fleetKind, listedCities } from "./fleet/document.ts";
import { followFleet, type Replaced, tellOfNewFleet } from "./fleet/follow.ts";
import { fleetPermissions } from "./fleet/permissions.ts";
import { type FleetSettings, leaseName } from "./fleet/settings.ts";
import { fleetKinds, hubKinds } from "./kinds/kinds.ts";
import { addAdmission } from "./wiring/admission.ts";
import { type Again, type Decided, fleetConcerns } from "./wiring/concerns.ts";
import type { FleetParts } from "./wiring/controller.ts";
import { addDeploymentController } from "./wiring/deployments.ts";
import { wireManagement } from "./wiring/hub/management.ts";
import { addInstanceController } from "./wiring/instances.ts";
import { createFleetMetrics } from "./wiring/metrics.ts";
import { NetworkStep } from "./wiring/network-step.ts";
import { PodSight } from "./wiring/pod-sight.ts";
import { by, type FleetViews, fleetReads } from "./wiring/reads.ts";
import { addWorkloadController } from "./wiring/workloads.ts";
import { addWriteBack } from "./wiring/write-back.ts";

/** The host, with the fleet that this process runs. */
export interface FleetHost extends Host {
  /** Berth's own namespace. Absent: there is none. */
  readonly namespace?: string | undefined;
  /** Absent: none, until Berth starts again. */
  readonly fleet?: FleetSettings;
}

export const fleet: Capability<FleetHost, void> = {
  name: "fleet",
  kinds: [fleetKind],
  admission: [fleetAdmission],
  foreignKinds: [...fleetKinds, ...hubKinds],
  permissions: fleetPermissions,
  wire(host) {
    if (host.fleet === undefined) tellOfNewFleet(host);
    else if (host.fleet.spec.mode === "management") wireManagement(host, host.fleet, homeOf(host));
    else wireFleet(host, host.fleet, host.namespace);
  },
};

/** @throws Error when there is none: the Secrets of Cells are in it. */
function homeOf({ namespace }: FleetHost): string {
  if (namespace === undefined) throw new Error("mode management needs a namespace of its own");
  return namespace;
}

function wireFleet(host: Host, settings: FleetSettings, home: string | undefined): void {
  const { client, cluster, clock } = host;
  const askAll = (): void => {
    for (const keys of Object.values(asked)) keys.askAll();
  };
  const current = followFleet(host, settings, (replaced) => {
    views.want(current.spec);
    service.take(replaced);
    tellOfCities(host, current.spec, network);
    admission?.();
    askAll();
  });
  const views: FleetViews = createViews(fleetReads, {
    ...host,
    concerns: fleetConcerns(cluster, () => network.namespaces),
    onChange: {
      pods: (change) => pods.shown(change),
      instances: ({ object }) => copied?.(object),
    },
    onKeys(keys: Iterable<Again>, of) {
      for (const { of: kind, key, priority, immediate } of keys) asked[kind].ask([key], priority, immediate);
      if (of === "namespaces") service.keepPayers();
    },
    onAll: askAll,
  });
  views.want(current.spec);
  const keysOf = (of: Decided): KeySource => createKeySource(() => views[of].keys());
  const asked = {
    workloads: keysOf("workloads"),
    deployments: keysOf("deployments"),
    instances: keysOf("instances"),
  };
  const network = new NetworkStep({ views, fleet: current, clock, home });
  const pods = new PodSight({ pods: views.pods, client, cluster, clock });
  const metrics = createFleetMetrics(host.metrics, clock, () => current.spec.quota !== undefined);
  const lease = leaseName(current.spec, baseName(host));
  const some = { host, lease, fleet: current, views, network, metrics, asked };
  const { hub } = settings.hub ?? {};
  const copied = hub && addWriteBack(some, hub);
  const service = addQuotaService(some, settings.quota);
  tellOfCities(host, current.spec, network);
  host.add(views.components, "caches");
  const parts = { ...some, quota: service.quota };
  addInstanceController(parts, pods);
  addDeploymentController(parts);
  const isSingle = current.spec.mode === "single";
  if (isSingle) addWorkloadController(parts);
  const admission = isSingle
    ? addAdmission(host, current, {
        networking: () => network.state !== "off",
        cities: () => network.cities(),
        cityNote: (city) => network.cityNote(city),
      })
    : undefined;
  host.add([networkWatch(parts)], "everywhere");
}

interface QuotaService {
  readonly quota: Quota;
  /** To be called when another Fleet came into force. */
  take(replaced: Replaced): void;
  /** To be called when namespaces changed. */
  keepPayers(): void;
}

/** @param connection the first one, to the API server of `quota.kubeconfig`. */
function addQuotaService(
  { host, fleet: current, views, asked, metrics }: Omit<FleetParts, "quota">,
  connection: KubeClient | undefined,
): QuotaService {
  const { runtime, client } = host;
  const clientsOf = (opened: KubeClient | undefined): QuotaClients =>
    quotaClients(current.spec.quota?.from, opened ? runtime.guard(opened) : client);
  const onAnswer = (key: ObjectKey): void => asked.instances.ask([key], "high", true);
  const claims = new Claims({
    ...host,
    service: clientsOf(connection),
    source: current.spec.cell,
    onChange: onAnswer,
    onService: (isOf) => quota.serviceChanged(isOf),
  });
  const quota = new Quota({
    ...host,
    fleet: current,
    claims,
    namespaces: views.namespaces,
    onAnswer,
    onHold(namespace) {
      const waiting = views.deployments.byIndex(by.namespace, namespace);
      asked.deployments.ask(
        waiting.map((it) => views.deployments.keyOf(it)),
        "high",
        true,
      );
    },
    onFailure: metrics.failed,
  });
  metrics.outages(() => claims.outages);
  host.add([claims], "caches");
  let open = connection;
  const keepPayers = (): void => claims.keep((it) => isPaying(it, { fleet: current, ...views }));
  return {
    quota,
    keepPayers,
    take({ before, quota: opened }) {
      if (isSameData(before.quota, current.spec.quota)) return keepPayers();
      claims.use(clientsOf(opened));
      quota.reset();
      void open?.close();
      open = opened;
    },
  };
}

/** Says once for each Fleet what its users may not expect. */
function tellOfCities({ log }: Host, spec: FleetSpec, { namespaces }: NetworkStep): void {
  if (spec.mode !== "single") return;
  if (spec.networking !== "On" && listedCities(spec) === undefined)
    log.warn("the Fleet lists no cities: while networks are off, Workloads may name any");
  if (spec.networking !== "Off" && namespaces === undefined)
    log.warn(
      "Berth has no namespace of its own, and the Fleet lists none: Locations of all namespaces count",
    );
}

/** Between two looks at whether the networks can be read, ms. They take no request. */
const NETWORKS_MS = 1_000;

/** No event of an object says that the networks can be read, or cannot any more. */
function networkWatch({ host: { clock, log }, network, asked }: FleetParts): Component {
  const said = new ConditionLog({ noun: "fleet", isGood: ({ status }) => status === "True", log });
  const name = "config/Fleet";
  let known: string | undefined;
  return createLoopComponent({
    name: "fleet-network-state",
    async run(signal) {
      do {
        const unread = network.unread();
        if (unread !== undefined || network.state === "on")
          said.tell(name, mergeConditions(said.of(name), [networksRead(unread)], clock.now()));
        const present = `${network.state} ${unread}`;
        if (known !== undefined && present !== known)
          for (const keys of [asked.workloads, asked.deployments]) keys.askAll();
        known = present;
      } while (await sleep(clock, NETWORKS_MS, signal));
    },
  });
}

function networksRead(unread: string | undefined): DesiredCondition {
  const isRead = unread === undefined;
  return {
    type: "NetworksRead",
    status: isRead ? "True" : "False",
    reason: isRead ? "NetworksRead" : "NetworksNotRead",
    message: unread ?? "Berth reads the networks of the cluster",
  };
}
