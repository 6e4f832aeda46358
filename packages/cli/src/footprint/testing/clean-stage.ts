/** `berth clean` for footprints on a real API server, with owners of a kind of the tests' own. */
import {
  customResourceDefinitions,
  defineResource,
  namespaces,
  nodes,
  pods,
  type Resource,
} from "@berth/kube";
import { nodeFootprints } from "@berth/placement";
import { aNode, aPod, eventually, sharedTestCluster, type TestCluster } from "@berth/testcluster";
import { startBerth } from "../../composition.ts";
import { crds } from "../../kinds.ts";
import { type CliResult, cli, type TestFolder, testFolder } from "../../testing/harness.ts";

export const FINALIZER = "example.com/hold";
export const fleets: Resource = defineResource({
  group: "test.berth.dev",
  version: "v1",
  plural: "fleets",
  kind: "Fleet",
  namespaced: false,
});

/** Holds fleets, which have no namespace. */
export const HELD: string = `{
  workloads: [{podSelector: {matchLabels: {app: web}}}],
  group: {by: OwnerUID, owner: {group: test.berth.dev, kind: Fleet}},
  node: {label: {key: example.com/agent}},
  hold: {
    resource: {group: test.berth.dev, version: v1, resource: fleets},
    finalizer: ${FINALIZER}, onDelete: Wait
  }
}`;

export const documentOf = (spec: string, name = "agent"): string =>
  `{apiVersion: berth.dev/v1alpha1, kind: NodeFootprint, metadata: {name: ${name}}, spec: ${spec}}\n`;

export interface CleanStage extends AsyncDisposable {
  /** Runs Berth with the document until `check` passes, and stops it. */
  ran(check: () => Promise<void>, installation?: string): Promise<void>;
  clean(...more: readonly string[]): Promise<CliResult>;
}

/** A folder with the document, and the rights of a user. */
export async function aStage(cluster: TestCluster, text: string, user?: string): Promise<CleanStage> {
  const kubeconfig =
    user === undefined ? cluster.kubeconfig() : cluster.kubeconfig({ user: await cluster.user(user) });
  const folder: TestFolder = await testFolder({ "footprints.yaml": text, kubeconfig });
  return {
    async ran(check, installation = "berth") {
      await using client = cluster.connect();
      await using _berth = await startBerth({
        client,
        installation,
        config: [{ path: `${folder.path}/footprints.yaml`, shown: "footprints.yaml" }],
      });
      await eventually(check);
    },
    clean: (...more) =>
      cli(
        [
          "clean",
          "--capability",
          "footprint",
          "--kubeconfig",
          "kubeconfig",
          "--config",
          "footprints.yaml",
          ...more,
        ],
        { folder: folder.path },
      ),
    [Symbol.asyncDispose]: () => folder[Symbol.asyncDispose](),
  };
}

/** Once Berth has run. */
export async function aMarkedNode({ client }: TestCluster): Promise<void> {
  await client.create(nodes, aNode("n1").build());
  await client.create(pods, aPod("web").labelled({ app: "web" }).on("n1").build(), { namespace: "default" });
}

export async function cleanCluster(): Promise<TestCluster> {
  const cluster = await sharedTestCluster();
  const { client } = cluster;
  for (const crd of crds()) await eventually(() => client.apply(customResourceDefinitions, crd));
  const schema = { openAPIV3Schema: { type: "object", "x-kubernetes-preserve-unknown-fields": true } };
  await client.apply(customResourceDefinitions, {
    metadata: { name: "fleets.test.berth.dev" },
    spec: {
      group: "test.berth.dev",
      scope: "Cluster",
      names: { plural: "fleets", singular: "fleet", kind: "Fleet", listKind: "FleetList" },
      versions: [{ name: "v1", served: true, storage: true, schema }],
    },
  });
  await eventually(() => client.list(nodeFootprints));
  await eventually(() => client.list(fleets));
  await client.create(namespaces, { metadata: { name: "berth-system" } });
  return cluster;
}

export async function clearFleets({ client }: TestCluster): Promise<void> {
  for (const { metadata: { name = "" } = {} } of (await client.list(fleets)).items) {
    await client.patch(fleets, { name }, { type: "merge", body: { metadata: { finalizers: null } } });
    await client.delete(fleets, { name });
  }
}
