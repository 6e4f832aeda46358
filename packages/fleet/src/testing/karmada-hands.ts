/**
 * Karmada, for tests: it brings deployments of the hub to member clusters by their policies, and what they say back into
 * bindings. As the real one it keeps labels, annotations and finalizers of the members, and deletes with the hub.
 */
import { isApiError, type KubeClient, namespaces } from "@berth/kube";
import { sleep, systemClock } from "@berth/runtime";
import {
  bindingOf,
  type MemberCluster,
  memberClusters,
  type PropagationPolicy,
  propagationPolicies,
  type ResourceBinding,
  resourceBindings,
} from "../api/karmada.ts";
import { type WorkloadDeployment, workloadDeployments } from "../api/workload.ts";

const EVERY_MS = 100;

type Labels = Readonly<Record<string, string>> | undefined;

function matches(found: Labels, wanted: Labels = {}): boolean {
  return Object.entries(wanted).every(([key, value]) => found?.[key] === value);
}

/** The clusters of a deployment: those of its policy that are there, and no more than it wants. Those that have it come first. */
function clustersFor(
  { spec }: PropagationPolicy,
  members: readonly MemberCluster[],
  present: readonly string[],
): readonly string[] {
  const [spread] = (spec?.placement?.spreadConstraints ?? []) as readonly { readonly maxGroups?: number }[];
  const wanted = spec?.placement?.clusterAffinity?.labelSelector?.matchLabels;
  return members
    .filter(({ metadata }) => matches(metadata?.labels, wanted))
    .map(({ metadata }) => metadata?.name ?? "")
    .toSorted((a, b) => Number(present.includes(b)) - Number(present.includes(a)) || (a < b ? -1 : 1))
    .slice(0, spread?.maxGroups);
}

/** @param cells by the name of their Cluster, which is made with these labels. */
export async function karmadaHands(
  hub: KubeClient,
  cells: Readonly<Record<string, KubeClient>>,
  labels: Readonly<Record<string, string>>,
): Promise<AsyncDisposable> {
  const time = "2026-01-01T00:00:00Z";
  const condition = { type: "Ready", status: "True", reason: "ClusterReady", message: "" };
  const status = { conditions: [{ ...condition, lastTransitionTime: time }] };
  for (const name of Object.keys(cells)) {
    await hub.create(memberClusters, { metadata: { name, labels }, spec: {} } as MemberCluster);
    await hub.patch(memberClusters, { name }, { type: "merge", body: { status } }, { subresource: "status" });
  }
  const stopping = new AbortController();
  const { signal } = stopping;
  const loop = async (): Promise<void> => {
    while (await sleep(systemClock, EVERY_MS, signal))
      await round(hub, cells).catch((error: unknown) => {
        // Another writer was faster, or a member does not know the kind yet.
        if (!isApiError(error)) throw error;
      });
  };
  const ended = loop();
  return {
    async [Symbol.asyncDispose]() {
      stopping.abort();
      await ended;
    },
  };
}

async function round(hub: KubeClient, cells: Readonly<Record<string, KubeClient>>): Promise<void> {
  const [policies, deployments, bindings, members] = await Promise.all([
    hub.list(propagationPolicies),
    hub.list(workloadDeployments),
    hub.list(resourceBindings),
    hub.list(memberClusters),
  ]);
  for (const deployment of deployments.items) {
    const { name = "", namespace = "", uid = "", labels } = deployment.metadata ?? {};
    const policy = policies.items.find(
      ({ metadata, spec }) =>
        metadata?.namespace === namespace &&
        spec?.resourceSelectors?.some((it) => matches(labels, it.labelSelector?.matchLabels)),
    );
    const binding = bindings.items.find(({ metadata }) => isOf(metadata, namespace, bindingOf(name)));
    if (policy === undefined || (binding !== undefined && binding.spec?.resource?.uid !== uid)) continue;
    const before = (binding?.spec?.clusters ?? []).map((it) => it.name);
    const wanted = clustersFor(policy, members.items, before);
    await bind(hub, deployment, binding, wanted);
    for (const cell of before.filter((it) => !wanted.includes(it)))
      await withdraw(cells[cell], namespace, name);
    const aggregatedStatus: object[] = [];
    for (const clusterName of wanted) {
      const present = await bring(hub, cells[clusterName], deployment);
      const said = present?.status;
      aggregatedStatus.push({ clusterName, applied: true, ...(said && { status: said }) });
    }
    if (JSON.stringify(binding?.status?.aggregatedStatus) !== JSON.stringify(aggregatedStatus))
      await hub.patch(
        resourceBindings,
        { namespace, name: bindingOf(name) },
        { type: "merge", body: { status: { aggregatedStatus } } },
        { subresource: "status" },
      );
  }
  for (const { metadata, spec } of bindings.items) {
    const { name = "", namespace = "" } = metadata ?? {};
    if (deployments.items.some((it) => it.metadata?.uid === spec?.resource?.uid)) continue;
    for (const { name: cell } of spec?.clusters ?? [])
      await withdraw(cells[cell], namespace, spec?.resource?.name ?? "");
    await hub.delete(resourceBindings, { namespace, name });
  }
}

function isOf(metadata: WorkloadDeployment["metadata"], namespace: string, name: string): boolean {
  return metadata?.namespace === namespace && metadata.name === name;
}

async function bind(
  hub: KubeClient,
  { metadata }: WorkloadDeployment,
  present: ResourceBinding | undefined,
  wanted: readonly string[],
): Promise<void> {
  const { name = "", namespace = "", uid = "" } = metadata ?? {};
  const { kind, group, version } = workloadDeployments;
  const clusters = wanted.map((it) => ({ name: it }));
  const spec = { resource: { apiVersion: `${group}/${version}`, kind, namespace, name, uid }, clusters };
  const of = { namespace, name: bindingOf(name) };
  if (present === undefined) await hub.create(resourceBindings, { metadata: of, spec });
  else if (JSON.stringify(present.spec?.clusters) !== JSON.stringify(clusters))
    await hub.patch(resourceBindings, of, { type: "merge", body: { spec: { clusters } } });
}

async function bring(
  hub: KubeClient,
  cell: KubeClient | undefined,
  { metadata, spec }: WorkloadDeployment,
): Promise<WorkloadDeployment | undefined> {
  const { name = "", namespace = "", labels = {}, annotations = {} } = metadata ?? {};
  const of = { namespace, name };
  const present = await cell?.get(workloadDeployments, of).catch(unlessMissing);
  if (present !== undefined) {
    const isSame =
      JSON.stringify(present.spec) === JSON.stringify(spec) &&
      matches(present.metadata?.labels, labels) &&
      matches(present.metadata?.annotations, annotations);
    const body = { metadata: { labels, annotations }, spec };
    return isSame ? present : cell?.patch(workloadDeployments, of, { type: "merge", body });
  }
  const ofHub = await hub.get(namespaces, { name: namespace });
  const made = { metadata: { name: namespace, labels: ofHub.metadata?.labels ?? {} } };
  await cell?.create(namespaces, made).catch(unlessThere);
  return cell?.create(workloadDeployments, {
    metadata: { ...of, labels, annotations },
    ...(spec && { spec }),
  });
}

async function withdraw(cell: KubeClient | undefined, namespace: string, name: string): Promise<void> {
  await cell?.delete(workloadDeployments, { namespace, name }).catch(unlessMissing);
}

function unlessMissing(error: unknown): undefined {
  if (!isApiError(error, "notFound")) throw error;
}

function unlessThere(error: unknown): undefined {
  if (!isApiError(error, "alreadyExists")) throw error;
}
