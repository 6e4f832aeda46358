/** The requests that Berth sent, ready to be sent again by a loop that decides nothing. */
import { writeFile } from "node:fs/promises";
import { join } from "node:path";
import {
  type Instance,
  instances,
  type WorkloadDeployment,
  workloadDeployments,
  workloads,
} from "@berth/fleet";
import { events, type KubeObject, type Pod, pods, type Resource } from "@berth/kube";
import type { AuditEntry } from "@berth/testcluster";
import { networkBindings, subnetClaims } from "../packages/fleet/src/api/networking.ts";
import { receivedAt } from "./audit.ts";
import { COMPUTE, type FleetStage, NAMESPACE, ofAudit, PODS } from "./fleet-stage.ts";
import { post } from "./gate-stage.ts";
import { startProgram } from "./process.ts";
import type { RawTarget } from "./raw-patches.ts";
import type { RawRequest } from "./raw-requests.ts";

export interface Step extends RawRequest {
  /** Name of a pod: the request is sent once it is Ready. */
  readonly awaits?: string;
}

export interface Lanes {
  /** The creation of the Workloads: sent first. */
  readonly first: readonly Step[];
  /** Of one deployment and its Instances each: one request after the other, beside all other lanes. */
  readonly deployments: readonly (readonly Step[])[];
  /** What is about no single deployment: spread evenly over the time that the others take. */
  readonly beside: readonly (readonly Step[])[];
}

/** User agent of the loop. */
const LOOP_AGENT = "bench-loop";

/** What the process of the loop reads. */
export interface Loop {
  readonly target: RawTarget;
  readonly userAgent: string;
  readonly namespace: string;
  readonly lanes: Lanes;
}

type Named = ReadonlyMap<string, KubeObject>;

/** @param writes that Berth has sent. Their objects are as Berth left them. */
export async function captureLanes(stage: FleetStage, writes: readonly AuditEntry[]): Promise<Lanes> {
  const read = async (resource: Resource): Promise<Named> => {
    const found = new Map<string, KubeObject>();
    for await (const { items } of stage.cluster.client.pages(resource, { namespace: NAMESPACE }))
      for (const item of items) found.set(item.metadata?.name ?? "", item);
    return found;
  };
  const known = {
    workloads: await read(workloads),
    deployments: await read(workloadDeployments),
    instances: await read(instances),
    pods: await read(pods),
    events: await read(events),
    networking: stage.networks
      ? new Map([...(await read(networkBindings)), ...(await read(subnetClaims))])
      : new Map<string, KubeObject>(),
  };
  const bodies = new Bodies(known);
  const ordered = writes.filter(({ code }) => code < 300).toSorted((a, b) => receivedAt(a) - receivedAt(b));
  const by = Map.groupBy(ordered, ({ resource, name }) => {
    if (resource === ofAudit.deployments) return name;
    if (resource === ofAudit.instances || resource === "pods") return name.replace(/-\d+$/, "");
    return resource === ofAudit.workloads ? WORKLOADS : EVENTS;
  });
  const steps = (lane: string): readonly Step[] => (by.get(lane) ?? []).flatMap((it) => bodies.of(it));
  const others = [WORKLOADS, EVENTS];
  return {
    first: [...known.workloads.values()].map((it) => post(`${COMPUTE}/workloads`, bare(it))),
    deployments: [...by.keys()].filter((lane) => !others.includes(lane)).map(steps),
    beside: others.map(steps),
  };
}

const WORKLOADS = "(workloads)";
const EVENTS = "(events)";
const NETWORKING_GROUP = "networking.datumapis.com";

interface Known {
  readonly workloads: Named;
  readonly deployments: Named;
  readonly instances: Named;
  readonly pods: Named;
  readonly events: Named;
  /** NetworkBindings and SubnetClaims. */
  readonly networking: Named;
}

/** What Berth has written, as far as its size and kind matter to a server. */
class Bodies {
  readonly #known: Known;
  /** Events that are not sent yet. */
  readonly #events: IterableIterator<KubeObject>;
  /** Instances whose pod was created, and who were not written since. */
  readonly #starting = new Set<string>();
  #count = 0;

  constructor(known: Known) {
    this.#known = known;
    this.#events = known.events.values();
  }

  of({ verb, resource, subresource, name }: AuditEntry): readonly Step[] {
    const { deployments, workloads: all, instances: made, pods: running } = this.#known;
    if (resource === "pods") {
      this.#starting.add(name);
      return toCreation(PODS, running.get(name));
    }
    if (resource === ofAudit.instances) {
      const path = `${COMPUTE}/instances`;
      const instance: Instance | undefined = made.get(name);
      if (verb === "create") return toCreation(path, instance && gated(instance));
      const awaits = this.#starting.delete(name) ? { awaits: name } : {};
      if (subresource === "status") return this.#status(`${path}/${name}`, instance, awaits);
      const body = { spec: { controller: { schedulingGates: [] } } };
      return [{ method: "PATCH", path: `${path}/${name}`, body, ...awaits }];
    }
    if (resource === ofAudit.deployments) {
      const path = `${COMPUTE}/workloaddeployments`;
      const deployment: WorkloadDeployment | undefined = deployments.get(name);
      return verb === "create" ? toCreation(path, deployment) : this.#status(`${path}/${name}`, deployment);
    }
    if (resource === ofAudit.workloads) return this.#status(`${COMPUTE}/workloads/${name}`, all.get(name));
    const [plural = "", group] = resource.split(/\.(.*)/);
    if (group === NETWORKING_GROUP)
      return toCreation(
        `/apis/${group}/v1alpha/namespaces/${NAMESPACE}/${plural}`,
        this.#known.networking.get(name),
      );
    const event = this.#events.next().value;
    return toCreation(`/apis/events.k8s.io/v1/namespaces/${NAMESPACE}/events`, event ?? undefined);
  }

  /** Another message each time: a patch that changes nothing is not stored. */
  #status(path: string, object: KubeObject | undefined, more: Pick<Step, "awaits"> = {}): readonly Step[] {
    const { status = {} } = (object ?? {}) as { status?: { conditions?: readonly object[] } };
    const [first, ...others] = status.conditions ?? [];
    const conditions = [{ ...first, message: `status ${++this.#count} of the loop` }, ...others];
    return [
      { method: "PATCH", path: `${path}/status`, body: { status: { ...status, conditions } }, ...more },
    ];
  }
}

function toCreation(path: string, object: KubeObject | undefined): readonly Step[] {
  return object === undefined ? [] : [post(path, bare(object))];
}

function gated({ spec, ...instance }: Instance): Instance {
  const { templateHash = "" } = spec?.controller ?? {};
  const controller = { templateHash, schedulingGates: [{ name: "Quota" }] };
  return { ...instance, ...(spec && { spec: { ...spec, controller } }) };
}

/** Without what the server adds. A pod loses its node, so that it is scheduled again. */
function bare(object: KubeObject): KubeObject {
  const { metadata = {}, status: _status, ...rest } = object as KubeObject & { status?: unknown };
  const { name, namespace, labels, annotations, finalizers, ownerReferences } = metadata;
  const kept = { name, namespace, labels, annotations, finalizers, ownerReferences };
  const { spec } = rest as Pod;
  const { nodeName: _node, ...unbound } = spec ?? {};
  return { ...rest, metadata: kept, ...(spec && { spec: unbound }) } as KubeObject;
}

/** @returns from its first request to the last one about an Instance, both received, in seconds. */
export async function runLoop({ cluster, folder }: FleetStage, lanes: Lanes): Promise<number> {
  const file = join(folder, "loop.json");
  const target = { url: cluster.url, ca: cluster.ca, token: cluster.adminToken };
  await writeFile(
    file,
    JSON.stringify({ target, lanes, namespace: NAMESPACE, userAgent: LOOP_AGENT } satisfies Loop),
    {
      mode: 0o600,
    },
  );
  const mark = await cluster.audit.mark();
  const child = join(import.meta.dirname, "children/fleet-loop.ts");
  await using loop = startProgram({
    name: "the loop",
    command: process.execPath,
    args: ["--conditions=berth-source", child, file],
    userAgent: LOOP_AGENT,
  });
  await loop.line("done");
  const sent = (await cluster.audit.entriesSince(mark, { userAgent: LOOP_AGENT })).filter(
    ({ verb }) => verb === "create" || verb === "patch",
  );
  const lastAt = Math.max(...sent.filter(({ resource }) => resource === ofAudit.instances).map(receivedAt));
  return (lastAt - Math.min(...sent.map(receivedAt))) / 1000;
}
