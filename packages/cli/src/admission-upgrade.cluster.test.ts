/**
 * A new release takes over while replicas of one that did not merge reviews still answer: the API server asks them by
 * the configurations of either release, and every new pod has to get the answers of both capabilities.
 */
import {
  type AdmissionEnv,
  admissionServerSpec,
  mergeReviews,
  reviewHandlers,
  toConfiguration,
} from "@berth/host";
import { mutatingWebhookConfigurations, namespaces, pods } from "@berth/kube";
import { ARCHITECTURE_GATE, architecturePolicies, berthAs, nodeFootprints } from "@berth/placement";
import { createSilentLogger, startAdmissionServer } from "@berth/runtime";
import { aPod, eventually, findFreePort, type TestCluster } from "@berth/testcluster";
import { beforeAll, expect, it } from "vitest";
import { hurriedClock } from "../../runtime/src/testing/hurried-clock.ts";
import { startBerth } from "./composition.ts";
import { aDocument, clusterWithKinds, runPod } from "./testing/cluster.ts";
import { testFolder } from "./testing/harness.ts";
import { footprintSpec, policySpec, rulesOf } from "./testing/old-rules.ts";
import { startService } from "./testing/replica-service.ts";

const NAMESPACE = "berth-system";
const log = createSilentLogger();
let cluster: TestCluster;

beforeAll(async () => {
  cluster = await clusterWithKinds();
  await cluster.client.create(namespaces, { metadata: { name: NAMESPACE } });
});

it("misses no pod beside an old replica, and asks once about each when there is none", async () => {
  const { client, authority } = cluster;
  await using owned = new AsyncDisposableStack();
  const serving = await authority.issueServing(["127.0.0.1"]);
  const files = { "tls.key": serving.key, "ca.crt": authority.certificate, "tls.crt": serving.certificate };
  const { path: certificates } = owned.use(await testFolder(files));
  const service = owned.use(await startService());
  const url = `https://127.0.0.1:${service.port}`;

  // The old release: each capability answers at its path, and has a configuration that leads there.
  const rules = rulesOf(NAMESPACE);
  const spec = admissionServerSpec.parse({ mode: "Webhook", url, certificates });
  const env: AdmissionEnv = { ...berthAs("berth"), namespace: NAMESPACE, spec };
  const oldPort = await findFreePort();
  const old = await startAdmissionServer({
    bindAddress: `127.0.0.1:${oldPort}`,
    certificate: () => serving,
    handlers: Object.assign(
      {},
      ...rules.map((one) => reviewHandlers([one], { client, env, log })),
    ) as ReturnType<typeof reviewHandlers>,
    ready: () => true,
    log,
  });
  owned.use(old);
  service.lead(oldPort);
  for (const one of rules) {
    const reviews = mergeReviews([one], env).get(one.name) ?? [];
    const made = toConfiguration(one, reviews, { ...env, client: { url }, ca: authority.certificate });
    await client.create(mutatingWebhookConfigurations, made);
  }
  const replica = (name: string, hash: string): Promise<void> => {
    const labels = { "app.kubernetes.io/name": "berth", "app.kubernetes.io/instance": "berth" };
    const pod = aPod(name)
      .in(NAMESPACE)
      .labelled({ ...labels, "pod-template-hash": hash });
    return runPod(client, pod);
  };
  await replica("berth-old", "a");
  await replica("berth-new", "b");
  const isMissed = async (): Promise<boolean> => {
    const pod = aPod("one").labelled({ logs: "yes" }).image("registry.test/app:1").build();
    const { spec: made } = await client.create(pods, pod, { namespace: "default", dryRun: true });
    const waits = made?.initContainers?.some(({ name }) => name === "wait") === true;
    return !(waits && made?.schedulingGates?.some(({ name }) => name === ARCHITECTURE_GATE));
  };
  await eventually(async () => expect(await isMissed()).toBe(false));
  /** Makes pods, of which none may be missed, until it holds. */
  const until = async (holds: () => Promise<boolean>): Promise<void> => {
    const missed: boolean[] = [];
    await eventually(async () => {
      missed.push(await isMissed());
      expect(await holds()).toBe(true);
    });
    expect(missed).not.toContain(true);
  };
  /** Of new pods. */
  const configurations = async () => {
    const { items } = await client.list(mutatingWebhookConfigurations);
    return items.flatMap(({ webhooks = [] }) => webhooks).filter(({ name }) => !name.startsWith("images."));
  };

  await client.create(architecturePolicies, aDocument(architecturePolicies, "all", policySpec));
  await client.create(nodeFootprints, aDocument(nodeFootprints, "agent", footprintSpec));
  const port = await findFreePort();
  const mark = await cluster.audit.mark();
  const berth = owned.use(
    await startBerth({
      client: owned.use(cluster.connect()),
      namespace: NAMESPACE,
      // It looks every few seconds whether an old replica still answers.
      clock: hurriedClock(5),
      admission: {
        spec: { ...spec, bindAddress: `127.0.0.1:${port}` },
        namespace: NAMESPACE,
        podName: "berth-new",
      },
    }),
  );
  const looks = (): Promise<number> =>
    cluster.audit.countSince(mark, { verb: "list", resource: "pods", namespace: NAMESPACE });
  // Merged, and looked three times whether an old replica still answers.
  await until(async () => (await looks()) >= 3);
  const standing = await configurations();
  expect(
    standing.map(({ matchConditions = [] }) => matchConditions.some(({ name }) => name === "either")),
  ).toEqual([true, false]);

  // A pod is gone when its process has ended. The connection that ends with it may cost one pod, whichever release it was.
  service.lead(port);
  await old[Symbol.asyncDispose]();
  await eventually(async () => expect(await isMissed()).toBe(false));
  await client.delete(pods, { namespace: NAMESPACE, name: "berth-old" }, { gracePeriodSeconds: 0 });
  await until(async () => (await configurations()).length === 1);
  const asked = async (): Promise<number> => {
    const { body } = await berth.metrics.expose();
    const counts = body.matchAll(/^berth_admission_requests_total\{.*path="\/mutate-pod.* (\d+)$/gm);
    return [...counts].reduce((sum, [, count]) => sum + Number(count), 0);
  };
  const before = await asked();
  expect(await isMissed()).toBe(false);
  expect((await asked()) - before).toBe(1);
});
