/** Wires the fleet into a running Berth. Without a Fleet it does nothing. */
import { baseName, bindAdmission, type Capability, ConditionLog, type Host, ownUsername } from "@berth/host";
import type { Namespace } from "@berth/kube";
import {
  type Change,
  type Clock,
  type Component,
  createLoopComponent,
  type DesiredCondition,
  isSameData,
  keyOf,
  mergeConditions,
  type ObjectKey,
  sleep,
  whenAborted,
} from "@berth/runtime";
import { type FleetInForce, fleetAdmission } from "./admit/review.ts";
import { Claims } from "./claims/claims.ts";
import { quotaClients } from "./claims/payer.ts";
import { Quota } from "./claims/quota.ts";
import { type FleetSpec, fleetKind, listedCities } from "./fleet/document.ts";
import { fleetPermissions } from "./fleet/permissions.ts";
import { type FleetSettings, leaseName } from "./fleet/settings.ts";
import { fleetKinds } from "./kinds/kinds.ts";
import { locationNamespaces } from "./network/location.ts";
import { by, createCaches, projectsOf } from "./wiring/caches.ts";
import { addDeploymentController } from "./wiring/deployments.ts";
import { addInstanceController } from "./wiring/instances.ts";
import { createFleetMetrics } from "./wiring/metrics.ts";
import { NetworkStep } from "./wiring/network-step.ts";
import { addWorkloadController } from "./wiring/workloads.ts";

/** The host, with the fleet that this process runs. It is read once: another one takes effect with the next start. */
export interface FleetHost extends Host {
  /** Berth's own namespace. Absent: there is none. */
  readonly namespace?: string | undefined;
  readonly fleet?: FleetSettings;
}

export const fleet: Capability<FleetHost, void> = {
  name: "fleet",
  kinds: [fleetKind],
  admission: [fleetAdmission],
  foreignKinds: fleetKinds,
  permissions: fleetPermissions,
  wire(host) {
    if (host.fleet !== undefined) wireFleet(host, host.fleet, host.namespace);
  },
};

function wireFleet(host: Host, { spec, quota: connection }: FleetSettings, home: string | undefined): void {
  const { runtime, client, cluster, clock, log } = host;
  host.onFiles((documents) => {
    const given = documents.specOf(fleetKind);
    if (given !== undefined && !isSameData(given, spec))
      log.warn("the document Fleet has changed: it takes effect when Berth starts again", {
        mode: spec.mode,
      });
  });
  if (spec.mode === "single" && spec.networking !== "On" && listedCities(spec) === undefined)
    log.warn("the Fleet lists no cities: while networks are off, Workloads may name any");
  const caches = createCaches(host, spec);
  const metrics = createFleetMetrics(host.metrics, clock, spec.quota !== undefined);
  const said = new ConditionLog({ noun: "fleet", isGood: ({ status }) => status === "True", log });
  const onLook = (unread: string | undefined): void =>
    said.tell("config/Fleet", mergeConditions(said.of("config/Fleet"), [networksRead(unread)], clock.now()));
  const network = new NetworkStep({ caches, spec, cluster, clock, home, onLook });
  if (spec.mode === "single" && spec.networking !== "Off" && locationNamespaces(spec, home) === undefined)
    log.warn(
      "Berth has no namespace of its own, and the Fleet lists none: Locations of all namespaces count",
    );
  /** No event of an object says that the networks can be read again. */
  const lookAgain = (): void => {
    for (const it of caches.workloads?.list() ?? []) workloads?.enqueue(keyOf(cluster, it));
    for (const it of caches.deployments.list()) deployments.enqueue(keyOf(cluster, it));
  };
  const recheck = (key: ObjectKey): void => instances.enqueue(key, { immediate: true });
  const claims =
    spec.quota &&
    new Claims({
      clientOf: quotaClients(spec.quota.from, connection === undefined ? client : runtime.guard(connection)),
      isShared: spec.quota.from !== "Projects",
      cluster,
      source: spec.cell,
      clock,
      log,
      onChange: recheck,
      onService: (isOf) => quota.serviceChanged(isOf),
    });
  metrics.outages(() => claims?.outages ?? 0);
  const quota = new Quota({
    spec,
    claims,
    cluster,
    namespaces: caches.namespaces,
    clock,
    onAnswer: recheck,
    onHold(namespace) {
      for (const deployment of caches.deployments.byIndex(by.namespace, namespace))
        deployments.enqueue(keyOf(cluster, deployment), { immediate: true });
    },
    onFailure: metrics.failed,
  });
  if (claims !== undefined) host.add([claims], "caches");
  const lease = leaseName(spec, baseName(host));
  const common = { host, lease, spec, caches, quota, network, metrics, recheck };
  const instances = addInstanceController(common);
  const deployments = addDeploymentController(common);
  const workloads = spec.mode === "single" ? addWorkloadController(common) : undefined;
  host.add([networkWatch(network, clock, lookAgain)], "everywhere");
  if (spec.mode === "single") addAdmission(host, spec, network);
  caches.namespaces?.subscribe({
    onChange(change: Change<Namespace>) {
      for (const project of projectsOf(change.type === "updated" ? change.old : change.object))
        if (caches.namespaces?.byIndex(by.project, project).length === 0) claims?.drop(project);
      const name = change.object.metadata?.name ?? "";
      for (const instance of caches.instances.byIndex(by.namespace, name)) recheck(keyOf(cluster, instance));
    },
  });
}

/** Between two looks at whether the networks can be read, ms. They take no request. */
const NETWORKS_MS = 1_000;

function networkWatch(network: NetworkStep, clock: Clock, onChange: () => void): Component {
  return createLoopComponent({
    name: "fleet-networks",
    async run(signal) {
      const now = (): string => `${network.state} ${network.unread()}`;
      for (let known = now(); await sleep(clock, NETWORKS_MS, signal); ) {
        const present = now();
        if (present !== known) onChange();
        known = present;
      }
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

/** Delay before Berth asks again who it is, ms. */
const RETRY_MS = 10_000;

function addAdmission(host: Host, spec: FleetSpec, network: NetworkStep): void {
  const inForce = (self: string | undefined): FleetInForce => ({
    spec,
    self,
    networking: () => network.state !== "off",
    cities: () => network.cities(),
    cityNote: (city) => network.cityNote(city),
    // Until Berth knows its own name, what protects Instances stays as it is.
    policy: self === undefined ? { isReading: true } : {},
  });
  let current = inForce(undefined);
  const handle = host.review({
    rules: bindAdmission(fleetAdmission, () => current),
    onChange: () => undefined,
  });
  const identity = createLoopComponent({
    name: "fleet-identity",
    async run(signal) {
      handle.changed();
      do {
        const self = await ownUsername(host.client, signal);
        if (self !== undefined) {
          current = inForce(self);
          handle.changed();
          return whenAborted(signal);
        }
      } while (await sleep(host.clock, RETRY_MS, signal));
    },
  });
  host.add([identity], "everywhere");
}
