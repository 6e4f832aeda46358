/** The controllers of a cluster with networks as they are wired, on a model of the API server and a virtual clock. */
import { type KubeObject, pods, type Resource } from "@berth/kube";
import { createVirtualClock, findCondition } from "@berth/runtime";
import { beforeEach, expect, it } from "vitest";
import { annotations, gates, labels } from "../api/keys.ts";
import {
  locations,
  networkBindings,
  networkContexts,
  networks,
  subnetClaims,
  subnets,
} from "../api/networking.ts";
import { instances, workloadDeployments } from "../api/workload.ts";
import { aDeployment, anInstance } from "../deployment/testing/fixtures.ts";
import { hasGate } from "../instance/tiers.ts";
import { FleetLife } from "../testing/fleet-life.ts";
import { ObjectServer } from "../testing/object-server.ts";

const NAME = "w-us-dfw";
const READY = { conditions: [{ type: "Ready", status: "True", reason: "Ready", message: "" }] };

class Cell {
  readonly clock = createVirtualClock();
  readonly server = new ObjectServer(() => this.clock.now());
  readonly life = new FleetLife({
    server: this.server,
    clock: this.clock,
    isQuotaDown: () => false,
    networking: "On",
  });

  constructor() {
    const { metadata: _metadata, ...deployment } = aDeployment({ min: 1 });
    this.server.create(workloadDeployments, { ...deployment, metadata: { name: NAME } });
    const topology = { "topology.datum.net/city-code": "DFW" };
    this.server.create(locations, { metadata: { name: "dfw" }, spec: { topology } });
    this.server.create(networks, { metadata: { name: "default" }, spec: {} });
    this.server.create(networkContexts, { metadata: { name: "ctx" }, status: READY } as KubeObject);
  }

  async look(times = 1): Promise<void> {
    for (let n = 0; n < times; n += 1) {
      this.life.seeAll();
      await this.life.look("workload-deployments", NAME);
    }
  }

  /** The network controllers do what they are asked for. */
  serve(): void {
    const ready = (resource: Resource, status: object): void => {
      for (const { metadata } of this.server.all<KubeObject>(resource)) {
        const body = { status: { ...READY, ...status } };
        this.server.patch(resource, { name: metadata?.name ?? "" }, { type: "merge", body }, "status");
      }
    };
    ready(networkBindings, { networkContextRef: { namespace: "default", name: "ctx" } });
    ready(networkContexts, {});
    for (const { metadata } of this.server.all(subnetClaims))
      this.server.create(subnets, { metadata: { name: metadata?.name ?? "" } });
    ready(subnetClaims, { subnetRef: { name: "ctx-0" } });
    ready(subnets, {});
  }

  says(type: string): string {
    const [deployment] = this.server.all(workloadDeployments);
    const { status, reason, message } = findCondition(deployment?.status?.conditions, type) ?? {};
    return `${status}/${reason}: ${message}`;
  }

  /** For some seconds the API server refuses to have these watched. */
  refuse(resource: Resource, refusal: string | undefined): void {
    Object.defineProperty(this.life.cacheOf(resource), "refusal", { value: refusal, configurable: true });
  }
}

let cell: Cell;
beforeEach(() => (cell = new Cell()));

it("an Instance that was looked at while networks could not be read is looked at again", async () => {
  await cell.look();
  cell.serve();
  await cell.look();
  cell.serve();
  await cell.look(3);
  expect(cell.says("Available")).toBe("False/InstancesProvisioning: 0/1 instances are ready");
  cell.life.asked.length = 0;
  cell.refuse(networks, "networks is forbidden");
  await cell.life.look("instances", `${NAME}-0`);
  cell.refuse(networks, undefined);
  await cell.look();
  expect(cell.life.asked).toEqual([`instances ${NAME}-0`]);
  await cell.life.look("instances", `${NAME}-0`);
  expect(cell.server.all(instances).map((it) => hasGate(it, gates.network))).toEqual([false]);
  cell.life.asked.length = 0;
  await cell.look();
  expect(cell.life.asked).toEqual([]);
});

it("networks that a Fleet switches off and on again while Berth runs count for what comes then", async () => {
  cell.life.change({ networking: "Off" });
  await cell.look();
  expect(cell.server.all(networkBindings)).toEqual([]);
  expect(cell.server.all(instances).map((it) => hasGate(it, gates.network))).toEqual([false]);
  cell.life.change({ networking: "On" });
  await cell.look();
  expect(cell.server.all(networkBindings)).toHaveLength(1);
  expect(cell.says("Available")).toMatch(/^False\/NetworkProvisioning: NetworkBinding /);
});

it("a provider, a quota service and a size that a Fleet changes while Berth runs count for the next Instance", async () => {
  const sizes = { "datumcloud/d1-standard-2": { millicores: 250, mebibytes: 64 } };
  cell.life.change({ networking: "Off", quota: undefined, provider: "external" });
  await cell.look();
  await cell.life.look("instances", `${NAME}-0`);
  expect(cell.server.all(pods)).toEqual([]);
  cell.life.change({ provider: "pods", catalog: sizes });
  await cell.life.look("instances", `${NAME}-0`);
  const [pod] = cell.server.all(pods);
  expect(pod?.spec?.containers[0]?.resources?.requests).toMatchObject({ cpu: "250m", memory: "64Mi" });
});

it("an Instance that the API server fails to create is a condition once that lasts", async () => {
  cell.life.faults.set("create instances", { kind: "serverError", status: 500 });
  await cell.look();
  cell.serve();
  await cell.look();
  cell.serve();
  await cell.look();
  await cell.clock.advance(10_000);
  await cell.look(2);
  expect(cell.says("Available")).toMatch(/^False\/InstancesProvisioning: its Instance is not created: /);
  cell.life.faults.clear();
  await cell.look(2);
  expect(cell.says("Available")).toBe("False/InstancesProvisioning: 0/1 instances are ready");
});

it("an object of the networks that the API server refuses is a condition, with its answer", async () => {
  cell.life.faults.set("create networkbindings", { kind: "invalid", causes: [] });
  await cell.look(2);
  expect(cell.says("Available")).toMatch(
    /^False\/NetworkProvisioning: its network is not created: .*refused/,
  );
  cell.life.faults.clear();
  await cell.clock.advance(30_000);
  await cell.look(2);
  expect(cell.says("Available")).toBe(
    "False/NetworkProvisioning: NetworkBinding default/w-us-dfw-net-0 is not ready",
  );
});

it.each<[string, Resource, object, string]>([
  ["NetworkContext", networkContexts, { network: null, networkRef: { name: "default" } }, "ctx"],
  ["SubnetClaim", subnetClaims, { location: null }, "ctx-0"],
  ["SubnetClaim", subnetClaims, { networkContext: null }, "ctx-0"],
])("a %s of another schema stops no decision", async (_, resource, spec, name) => {
  await cell.look();
  cell.serve();
  await cell.look();
  cell.server.patch(resource, { name }, { type: "merge", body: { spec } });
  cell.serve();
  await cell.look(2);
  expect(cell.says("Available")).toBe("False/InstancesProvisioning: 0/1 instances are ready");
});

it("a failure whose words change has the deployment looked at again once", async () => {
  const say = (n: number): void =>
    void cell.life.faults.set("create instances", { kind: "serverError", status: 500 + n });
  for (const n of [0, 1, 2]) {
    say(n);
    await cell.look();
    await cell.clock.advance(10_000);
  }
  expect(cell.life.asked).toEqual([`deployments ${NAME}`]);
});

it("an Instance that lost its labels is still that of its owner, and gets them back", async () => {
  await cell.look(2);
  const [{ metadata: { labels: given } = {} } = {}] = cell.server.all(instances);
  const lost = Object.fromEntries(Object.keys(given ?? {}).map((key) => [key, null]));
  const body = { metadata: { labels: { ...lost, [labels.instanceIndex]: "0" } } };
  cell.server.patch(instances, { name: `${NAME}-0` }, { type: "merge", body });
  await cell.look();
  expect(cell.server.all(instances).map(({ metadata }) => metadata?.labels)).toEqual([given]);
  await cell.look();
  expect([cell.says("InstanceConflict"), cell.server.all(workloadDeployments)[0]?.status?.replicas]).toEqual([
    "undefined/undefined: undefined",
    1,
  ]);
});

it("C16 an Instance of another owner in the way is a condition that names it, and its end heals that", async () => {
  const owner = { apiVersion: "v1", kind: "ConfigMap", name: "theirs", uid: "u-9", controller: true };
  const metadata = { name: `${NAME}-0`, ownerReferences: [owner] };
  cell.server.create(instances, { ...cell.server.all(instances)[0], metadata });
  await cell.look(3);
  expect(cell.says("InstanceConflict")).toMatch(/^True\/InstanceNameTaken: .*ConfigMap theirs/);
  cell.life.woken.length = 0;
  cell.server.delete(instances, metadata, {});
  cell.life.seeAll();
  expect(cell.life.woken).toContain(`deployments ${NAME}`);
  await cell.look(2);
  expect([cell.says("InstanceConflict"), cell.server.all(instances).length]).toEqual([
    "undefined/undefined: undefined",
    1,
  ]);
});

it("what a hub has of the deployments of its cells is left alone, networks and deletions included", async () => {
  const placed = { metadata: { annotations: { [annotations.placement]: "{}" } } };
  cell.server.patch(workloadDeployments, { name: NAME }, { type: "merge", body: placed });
  const copy = aDeployment({ min: 1 });
  const metadata = { name: `${NAME}-0`, annotations: { [annotations.cellUid]: "u" } };
  cell.server.create(instances, { ...anInstance(copy, 0, "N"), metadata });
  const written: string[] = [];
  cell.server.onWrite = ({ resource }) => void written.push(resource.plural);
  await cell.look(2);
  await cell.life.look("instances", metadata.name);
  cell.server.delete(workloadDeployments, { name: NAME });
  await cell.look();
  expect(written.filter((it) => it !== "workloaddeployments")).toEqual([]);
});
