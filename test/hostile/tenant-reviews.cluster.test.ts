/** A tenant floods Berth with reviews of Workloads. Leases and the Workloads of others must not wait for it. */
import { mkdtempDisposable, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import path from "node:path";
import { workloads } from "@berth/fleet";
import { validatingWebhookConfigurations } from "@berth/kube";
import { eventually, type HttpProxy, hold, startHttpProxy, type TestCluster } from "@berth/testcluster";
import { afterAll, beforeAll, expect, it } from "vitest";
import { locations } from "../../packages/fleet/src/api/networking.ts";
import { installCrds, networkingCrds } from "../../packages/fleet/src/testing/fixture-crds.ts";
import { type FleetFixture, fleetFixture } from "../fleet-fixture.ts";
import { sharedFullCluster } from "../footprint-cluster.ts";
import { patiently } from "../patience.ts";
import { floodReviews, withNetworks } from "./review-flood.ts";

const PATH = "/validate-compute-datumapis-com-v1alpha-workload";
const QUESTIONS = { verb: "create", resource: "subjectaccessreviews" } as const;
const RENEWALS = { verb: "update", resource: "leases", name: "compute-single.berth-fleet" } as const;
const PER_SECOND = 200;

let cluster: TestCluster;
let fixture: FleetFixture;
let proxy: HttpProxy;
let webhook: { readonly url: string; readonly ca: string };
const owned = new AsyncDisposableStack();
beforeAll(async () => {
  cluster = await sharedFullCluster();
  const { client } = cluster;
  await installCrds(client, networkingCrds);
  const spec = { mode: "single", provider: "external", locations: { namespaces: ["default"] } } as const;
  fixture = owned.use(await fleetFixture(cluster, { spec }));
  await client.create(locations, {
    metadata: { namespace: "default", name: "dfw" },
    spec: {
      locationClassName: "self-managed",
      topology: { "topology.datum.net/city-code": "DFW" },
      provider: {},
    },
  });
  const certificate = await cluster.authority.issueServing(["127.0.0.1"]);
  proxy = owned.use(await startHttpProxy({ target: cluster.url, ca: cluster.ca, certificate }));
  const folder = owned.use(await mkdtempDisposable(path.join(tmpdir(), "berth-flood-"))).path;
  const kubeconfig = path.join(folder, "kubeconfig");
  await writeFile(kubeconfig, cluster.kubeconfig({ server: proxy.url, user: fixture.user }), { mode: 0o600 });
  owned.use(await fixture.start("--leader-elect", "--kubeconfig", kubeconfig));
  webhook = await eventually(async () => {
    const { items } = await client.list(validatingWebhookConfigurations);
    const found = items
      .flatMap(({ webhooks = [] }) => webhooks)
      .find(({ clientConfig }) => clientConfig.url?.endsWith(PATH));
    const { url = "", caBundle = "" } = found?.clientConfig ?? {};
    if (url === "" || caBundle === "") throw new Error("the API server does not ask Berth yet");
    return { url, ca: Buffer.from(caBundle, "base64").toString() };
  });
  await fixture.namespace("honest");
  await patiently(() => create("first"));
});
afterAll(() => owned.disposeAsync());

/** An honest user's Workload, with a network that Berth has not been asked about. */
const create = (network: string): Promise<unknown> =>
  cluster.client.create(workloads, withNetworks("honest", [network]), { dryRun: true, timeoutMs: 900 });

it("S-14 a flood of reviews has two questions open, and neither Leases nor other namespaces wait", async () => {
  const holding = hold();
  const asked = proxy.count(QUESTIONS);
  using _held = proxy.on(QUESTIONS, holding);
  const as = { username: "mallory", namespace: "evil" };
  await using flood = floodReviews({ ...webhook, perSecond: PER_SECOND, as });
  // All of them but two are answered while no question is.
  await eventually(() => expect(flood.answers.get(429)).toBeGreaterThan(PER_SECOND));
  expect(holding.held.length).toBeLessThanOrEqual(2);
  const renewed = proxy.count(RENEWALS);
  await proxy.until(RENEWALS, renewed + 2);
  // A question that is not answered ends after 2 s, and the next one takes its place.
  expect(proxy.count(QUESTIONS) - asked).toBeLessThanOrEqual(2 * 10);
  holding.release();
  for (let at = 0; at < 20; at++) await create(`honest-${at}`);
  expect([...flood.answers.keys()].filter((code) => code >= 500)).toEqual([]);
});

it("S-14 a flood with forged users and namespaces leaves half of the questions to others", async () => {
  const holding = hold();
  using _held = proxy.on(QUESTIONS, holding);
  await using flood = floodReviews({ ...webhook, perSecond: PER_SECOND });
  await holding.until(16);
  await eventually(() => expect(flood.answers.get(429)).toBeGreaterThan(PER_SECOND));
  expect(holding.held).toHaveLength(16);
  const waiting = create("waits");
  await holding.until(17);
  holding.release();
  await waiting;
});
