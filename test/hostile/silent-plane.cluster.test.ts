/** Projects of one host: the control plane of one of them takes requests and never answers. */
import { workloadDeployments } from "@berth/fleet";
import { type KubeClient, namespaces } from "@berth/kube";
import { hold, sharedTestCluster, startHttpProxy } from "@berth/testcluster";
import { expect, it } from "vitest";
import { installCrds, quotaCrds } from "../../packages/fleet/src/testing/fixture-crds.ts";
import { grantClaims } from "../../packages/fleet/src/testing/grant-claims.ts";
import { aDeployment, fleetFixture, lookAt, verdict } from "../fleet-fixture.ts";
import { sharedFullCluster } from "../footprint-cluster.ts";
import { patiently } from "../patience.ts";

const PLANE = /^\/apis\/resourcemanager\.miloapis\.com\/v1alpha1\/projects\/[^/]+\/control-plane/;
/** More than the workers of a controller. */
const WAITING = 19;

const labelsOf = (project: string) => ({
  "meta.datumapis.com/upstream-cluster-name": `cluster-${project}`,
  "meta.datumapis.com/upstream-namespace": `plane-${project}`,
});

it("S-17 a silent project plane delays no other project, holds four requests and then one, and heals", async () => {
  const [cluster, plane] = [await sharedFullCluster(), await sharedTestCluster()];
  const { client } = cluster;
  await installCrds(plane.client, quotaCrds);
  const certificate = await plane.authority.issueServing(["127.0.0.1"]);
  await using proxy = await startHttpProxy({ target: plane.url, ca: plane.ca, certificate, under: PLANE });
  const spec = { mode: "cell", cell: "dfw-01", quota: { from: "Projects", kubeconfig: "quota" } } as const;
  await using fixture = await fleetFixture(cluster, { spec, quota: plane.kubeconfig({ server: proxy.url }) });
  for (const project of ["silent", "web"]) {
    await plane.client.create(namespaces, { metadata: { name: `plane-${project}` } });
    await fixture.namespace(`ns-${project}`, labelsOf(project));
  }
  await using _quota = await grantClaims(plane.client, { budget: 100 });
  await using _berth = await fixture.start();
  const silent = hold();
  const isOfClaim = ({ resource, verb }: { readonly resource?: string; readonly verb?: string }): boolean =>
    resource === "resourceclaims" && (verb === "get" || verb === "create");
  /** Requests about single claims that hang, at each new one. */
  const claims: number[] = [];
  const rule = proxy.on(
    { path: /projects\/silent\// },
    {
      request(request, forward) {
        if (isOfClaim(request))
          claims.push(1 + silent.held.filter((it) => "verb" in it && isOfClaim(it)).length);
        return silent.request(request, forward);
      },
    },
  );
  proxy.cutStreams();
  await Promise.all(
    Array.from({ length: WAITING }, (_, at) => create(client, { namespace: "ns-silent", name: `w${at}` })),
  );
  await patiently(() => expect(claims.length).toBeGreaterThanOrEqual(4));
  // While they hang, and again while the service is known to be silent.
  await create(client, { namespace: "ns-web", name: "first" });
  await lookAt(client, "ns-web").running("first-us-dfw-0");
  const waiting = lookAt(client, "ns-silent");
  const allSay = (expected: string): Promise<void> =>
    patiently(async () => {
      const said = (await waiting.instances()).map((it) => verdict(it, "QuotaGranted"));
      expect(said).toEqual(Array.from({ length: WAITING }, () => expected));
    });
  await allSay("False/QuotaBackendUnavailable");
  await create(client, { namespace: "ns-web", name: "second" });
  await lookAt(client, "ns-web").running("first-us-dfw-0", "second-us-dfw-0");
  expect(Math.max(...claims)).toBeLessThanOrEqual(4);
  rule[Symbol.dispose]();
  silent.release();
  await allSay("True/QuotaAvailable");
  expect(await fixture.refused()).toEqual([]);
});

async function create(client: KubeClient, of: { readonly namespace: string; readonly name: string }) {
  await client.create(workloadDeployments, aDeployment(of));
}
