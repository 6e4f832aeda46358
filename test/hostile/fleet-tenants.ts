/** A cell and a user of a project that write what they like, with all rights in their own API server or namespace. */
import { type Instance, instances, type WorkloadDeployment, workloadDeployments } from "@berth/fleet";
import { isApiError, type KubeClient, namespaces } from "@berth/kube";

const CONDITION = { type: "Ready", status: "True", lastTransitionTime: "2026-01-01T00:00:00Z" } as const;

/**
 * Forges a deployment of the hub in another namespace, makes Instances beyond those that are wanted, and changes the status
 * of the deployment `changes` times: numbers that cannot be, and a megabyte of conditions.
 */
export async function attackAsCell(
  cell: KubeClient,
  { namespace = "", name = "" }: { readonly namespace?: string; readonly name?: string },
  changes: number,
): Promise<void> {
  const own = await cell.get(workloadDeployments, { namespace, name });
  // With the marks of a project, as Berth in the cell makes pods in no other namespace.
  await cell.create(namespaces, {
    metadata: {
      name: "ns-forged",
      labels: {
        "meta.datumapis.com/upstream-cluster-name": "cluster-acme_web",
        "meta.datumapis.com/upstream-namespace": "forged",
      },
    },
  });
  await cell.create(workloadDeployments, withPlace(own, "ns-forged"));
  const [like] = (await cell.list(instances, { namespace })).items;
  if (like !== undefined)
    for (let ordinal = 500; ordinal < 503; ordinal += 1)
      await cell.create(instances, withName(like, `${name}-${ordinal}`));
  const message = "x".repeat(30_000);
  const large = Array.from({ length: 35 }, (_, at) => ({
    ...CONDITION,
    type: `Large${at}`,
    reason: "R",
    message,
  }));
  for (let at = 0; at < changes; at += 1) {
    const flipped = { ...CONDITION, reason: `Flip${at}`, message };
    const status = {
      ...own.status,
      readyReplicas: 1_000_000 + at,
      conditions: at % 20 === 0 ? [...large, flipped] : [flipped],
    };
    await cell
      .patch(
        workloadDeployments,
        { namespace, name },
        { type: "merge", body: { status } },
        { subresource: "status" },
      )
      .catch((error: unknown) => {
        // Berth in the cell writes it too.
        if (!isApiError(error, "conflict")) throw error;
      });
  }
}

/** Copies a deployment of the hub, with all its marks, into a namespace of the project. */
export async function attackAsProject(
  hub: KubeClient,
  onHub: WorkloadDeployment,
  namespace: string,
): Promise<void> {
  await hub.create(namespaces, { metadata: { name: namespace } });
  await hub.create(workloadDeployments, withPlace(onHub, namespace));
  const of = { namespace: onHub.metadata?.namespace ?? "" };
  const [copy] = (await hub.list(instances, of)).items;
  if (copy !== undefined)
    await hub.create(instances, {
      ...withName(copy, copy.metadata?.name ?? ""),
      metadata: { ...withName(copy, copy.metadata?.name ?? "").metadata, namespace },
    });
}

function withPlace({ metadata, spec, ...rest }: WorkloadDeployment, namespace: string): WorkloadDeployment {
  const { name = "", labels = {}, annotations = {} } = metadata ?? {};
  return { ...rest, metadata: { name, namespace, labels, annotations }, ...(spec && { spec }) };
}

function withName({ metadata, spec, ...rest }: Instance, name: string): Instance {
  const { namespace = "", labels = {}, annotations = {}, ownerReferences = [] } = metadata ?? {};
  return {
    ...rest,
    metadata: { name, namespace, labels, annotations, ownerReferences },
    ...(spec && { spec }),
  };
}
