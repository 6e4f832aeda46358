/** What can be wrong with a cell, one row each, and a hub with such a cell. */
import { deepStrictEqual, ok, rejects } from "node:assert";
import { startBerth } from "@berth/cli";
import { cells, fleetKind, type WorkloadDeployment, workloadDeployments, workloads } from "@berth/fleet";
import {
  customResourceDefinitions,
  isApiError,
  type KubeClient,
  nameOfResource,
  namespaces,
  secrets,
  validatingAdmissionPolicies,
  validatingAdmissionPolicyBindings,
  validatingWebhookConfigurations,
} from "@berth/kube";
import { findCondition } from "@berth/runtime";
import {
  type AuditMark,
  answer,
  answerAfterForwarding,
  cutAfterForwarding,
  delay,
  errorEvent,
  expired,
  findFreePort,
  type HttpProxy,
  type RequestAction,
  type RequestMatch,
  startTcpProxy,
  startTestCluster,
  type TcpProxy,
  type TestCluster,
  type TestUser,
  tooManyRequests,
} from "@berth/testcluster";
import { hubNamespaceOf } from "../packages/fleet/src/api/keys.ts";
import { CELL_LIMIT } from "../packages/fleet/src/hub/cells/seen.ts";
import { Actor } from "../packages/fleet/src/testing/actor.ts";
import { HOME, playCells } from "../packages/fleet/src/testing/cell-actor.ts";
import { hurriedClock } from "../packages/runtime/src/testing/hurried-clock.ts";
import { aWorkload, conditionOf } from "./fleet-fixture.ts";
import { proxyOf } from "./label-faults.ts";
import { patiently } from "./patience.ts";
import { prepareStories } from "./perturb/berth.ts";

/** How many times faster than real time Berth's clock runs. */
const PACE = 5;
const RENEW_MS = 500;
const CELL = "dfw-01";
const OTHER_USER = "another-hub";
const COMPUTE = /\/apis\/compute\.datumapis\.com\//;
export const WRITES: RequestMatch = { verb: ["create", "patch", "delete"], resource: "workloaddeployments" };
const PROBES: RequestMatch = { verb: "list", resource: "leases" };
const READS: RequestMatch = { verb: ["list", "watch"], path: COMPUTE };

/** The project and the hub are one server. */
export type Plane = "project" | "hub" | "cell";
export const planes: readonly Plane[] = ["project", "hub", "cell"];

/** Ends it. */
type End = () => unknown;

export interface HubFault {
  readonly name: string;
  /** It is one of the few that every run of the tests has. */
  readonly isUsual?: boolean;
  begin(stage: FaultStage): End | Promise<End>;
  /** The reason of the condition `Reachable` that says so. Absent: the cell stays reachable. */
  readonly reachable?: string;
  /** What the hub asks for meanwhile. Default: a write, unless the cell is not reachable. */
  readonly meets?: RequestMatch;
  /** What else has to become true while it lasts. @param names a Workload with another image since, and a new one. */
  meanwhile?(stage: FaultStage, names: { readonly changed: string; readonly made: string }): Promise<void>;
}

/** Resolves once the hub has met the fault, and says so. */
export async function met(fault: HubFault, stage: FaultStage, before: number): Promise<void> {
  const { reachable, meets = WRITES } = fault;
  if (reachable === undefined) await stage.proxy.until(meets, before + 1);
  const said = reachable === undefined ? "True/Heard" : `False/${reachable}`;
  await patiently(async () => deepStrictEqual(await stage.reachable(), said));
}

const onLink =
  (fail: (link: TcpProxy) => void): HubFault["begin"] =>
  ({ link }) => {
    fail(link);
    // What lost something stays silent for good: nothing of it may be left.
    return () => (link.pass(), link.resetAll());
  };

const onRequests =
  (match: RequestMatch, action: RequestAction, times?: number): HubFault["begin"] =>
  ({ proxy }) => {
    const rule = proxy.on(match, action, times === undefined ? {} : { times });
    proxy.cutStreams(match);
    return () => rule[Symbol.dispose]();
  };

export const faults: readonly HubFault[] = [
  {
    name: "its API server is refused",
    begin: onLink((link) => (link.refuse(), link.resetAll())),
    reachable: "Refused",
  },
  { name: "its API server is frozen", isUsual: true, begin: ({ cell }) => freeze(cell), reachable: "Silent" },
  { name: "its answers are lost", begin: onLink((link) => link.serverToClient.drop()), reachable: "Silent" },
  {
    name: "requests to it are lost",
    begin: onLink((link) => link.clientToServer.drop()),
    reachable: "Silent",
  },
  { name: "it is slow by 2 s", begin: onRequests({}, delay(2_000)) },
  {
    name: "it asks to slow down",
    begin: onRequests({}, tooManyRequests(1)),
    // Its Lease cannot be read either. But it answers, however long this lasts.
    reachable: "NotRunning",
    async meanwhile(stage) {
      const { proxy } = stage;
      await proxy.until(PROBES, proxy.count(PROBES) + 5);
      deepStrictEqual(await stage.reachable(), "False/NotRunning");
    },
  },
  { name: "it asks to slow down with writes", begin: onRequests(WRITES, tooManyRequests(1)) },
  {
    name: "its history is gone",
    begin({ proxy }) {
      const events = proxy.onWatchEvent({ path: COMPUTE }, errorEvent(410));
      const lists = proxy.on(READS, expired());
      proxy.cutStreams({ path: COMPUTE });
      return () => (events[Symbol.dispose](), lists[Symbol.dispose]());
    },
    meets: READS,
  },
  {
    name: "it is cut after it accepted a write",
    isUsual: true,
    begin: onRequests(WRITES, cutAfterForwarding({ scope: "connection" }), 6),
  },
  { name: "it carries writes out and answers 504", begin: onRequests(WRITES, answerAfterForwarding(504), 6) },
  {
    name: "a webhook in it does not answer",
    begin: (stage) => deadWebhook(stage),
    meanwhile: isToldAsRefused,
  },
  { name: "admission in it refuses", begin: (stage) => refusing(stage), meanwhile: isToldAsRefused },
  {
    name: "it does not serve the kinds of the fleet",
    begin: onRequests({ path: COMPUTE }, answer(404, { plainText: true })),
    meets: READS,
  },
  {
    name: "its CRD is older",
    begin: (stage) => olderCrd(stage),
    // Its numbers come, and nothing says which generation they are about.
    async meanwhile(stage, { made }) {
      await patiently(async () => {
        const { status } = (await stage.deployment("project", made)) ?? {};
        deepStrictEqual([status?.readyReplicas, status?.observedGeneration], [2, undefined]);
      });
    },
  },
  {
    name: "it has more than is read of one",
    begin: ({ cell }) => tooMuch(cell.client),
    reachable: "CellTooLarge",
  },
  {
    name: "it comes back after its credential has expired",
    async begin(stage) {
      const { link } = stage;
      link.refuse();
      link.resetAll();
      await patiently(async () => deepStrictEqual(await stage.reachable(), "False/Refused"));
      const end = await onRequests({}, answer(401))(stage);
      link.pass();
      return end;
    },
    reachable: "Unauthorized",
  },
  {
    name: "the credential is wrong",
    isUsual: true,
    async begin(stage) {
      await stage.useCredential({ ...stage.cell.admin, token: "of nobody" });
      return () => stage.useCredential(stage.cell.admin);
    },
    reachable: "Unauthorized",
  },
  {
    name: "the credential is replaced",
    async begin(stage) {
      await stage.useCredential(await stage.cell.user(OTHER_USER));
      return () => stage.useCredential(stage.cell.admin);
    },
    async meanwhile({ cell: { audit }, begun }) {
      await patiently(async () => {
        const entries = await audit.entriesSince(begun, { user: OTHER_USER, verb: "patch" });
        ok(entries.length > 0, "nothing is written with the new credential");
      });
    },
  },
];

function freeze(cell: TestCluster): End {
  const pid = cell.pidOf("kube-apiserver");
  if (pid === undefined) throw new Error("the API server does not run");
  process.kill(pid, "SIGSTOP");
  return () => process.kill(pid, "SIGCONT");
}

async function isToldAsRefused(stage: FaultStage, { changed }: { readonly changed: string }): Promise<void> {
  await patiently(async () => {
    const { status } = (await stage.deployment("hub", changed)) ?? {};
    deepStrictEqual(findCondition(status?.conditions, "Stale")?.reason, "CellRefuses");
  });
}

/** The API server takes a moment to ask about writes. */
async function untilRefused({ client }: TestCluster): Promise<void> {
  const [any] = (await client.list(workloadDeployments)).items;
  const { namespace = "", name = "" } = any?.metadata ?? {};
  const patch = { type: "merge", body: { metadata: { annotations: { "example.com/any": "" } } } } as const;
  await patiently(async () => {
    const tried = client.patch(workloadDeployments, { namespace, name }, patch, { dryRun: true });
    await rejects(tried, (error) => isApiError(error, "forbidden", "invalid", "serverError"));
  });
}

const DEPLOYMENTS = {
  apiGroups: ["compute.datumapis.com"],
  apiVersions: ["v1alpha"],
  operations: ["CREATE", "UPDATE", "DELETE"],
  resources: ["workloaddeployments"],
};

async function deadWebhook({ cell }: FaultStage): Promise<End> {
  const name = "nobody.example.com";
  await cell.client.create(validatingWebhookConfigurations, {
    metadata: { name },
    webhooks: [
      {
        name,
        clientConfig: { url: `https://127.0.0.1:${await findFreePort()}/` },
        rules: [DEPLOYMENTS],
        failurePolicy: "Fail",
        timeoutSeconds: 1,
        sideEffects: "None",
        admissionReviewVersions: ["v1"],
      },
    ],
  });
  await untilRefused(cell);
  return () => cell.client.delete(validatingWebhookConfigurations, { name });
}

async function refusing({ cell }: FaultStage): Promise<End> {
  const name = "never.example.com";
  await cell.client.create(validatingAdmissionPolicies, {
    metadata: { name },
    spec: {
      failurePolicy: "Fail",
      matchConstraints: { resourceRules: [DEPLOYMENTS] },
      validations: [{ expression: "false", message: "not today" }],
    },
  });
  await cell.client.create(validatingAdmissionPolicyBindings, {
    metadata: { name },
    spec: { policyName: name, validationActions: ["Deny"] },
  });
  await untilRefused(cell);
  return async () => {
    await cell.client.delete(validatingAdmissionPolicyBindings, { name });
    await cell.client.delete(validatingAdmissionPolicies, { name });
  };
}

/** Deployments of another program: the limit is one for each kind of object. */
async function tooMuch(cell: KubeClient): Promise<End> {
  const namespace = "too-much";
  const size = 1024 * 1024;
  const name = "PADDING";
  const env = [{ name, value: "x".repeat(size) }];
  const { template } = aWorkload({ namespace }).spec ?? {};
  const containers = [{ name: "web", image: "registry.test/web:1", env }];
  const runtime = { ...template?.spec.runtime, sandbox: { containers } };
  await cell.create(namespaces, { metadata: { name: namespace } });
  for (let at = 0; at <= CELL_LIMIT.bytes / size; at += 1)
    await cell.create(workloadDeployments, {
      metadata: { name: `large-${at}`, namespace },
      spec: {
        cityCode: "DFW",
        placementName: "us",
        workloadRef: { name: "large", uid: "large" },
        scaleSettings: { minReplicas: 0 },
        template: { spec: { ...template?.spec, runtime } },
      },
    } as WorkloadDeployment);
  return () => cell.deleteCollection(workloadDeployments, { namespace });
}

/** Without the field that says which generation of the project a status is about. */
async function olderCrd(stage: FaultStage): Promise<End> {
  const { client } = stage.cell;
  const name = nameOfResource(workloadDeployments);
  const { spec } = await client.get(customResourceDefinitions, { name });
  const write = async (of: typeof spec): Promise<void> => {
    await client.patch(customResourceDefinitions, { name }, { type: "merge", body: { spec: of } });
  };
  const older = structuredClone(spec) as unknown as {
    versions: { schema: { openAPIV3Schema: { properties: { status: { properties: object } } } } }[];
  };
  for (const { schema } of older.versions)
    Object.assign(schema.openAPIV3Schema.properties.status.properties, {
      observedSourceGeneration: undefined,
    });
  await write(older as unknown as typeof spec);
  return async () => {
    await write(spec);
    stage.again();
  };
}

/** A hub that is the project as well, and one cell behind two proxies. The cell is played, and Berth runs in this process. */
export interface FaultStage extends AsyncDisposable {
  readonly hub: KubeClient;
  readonly cell: TestCluster;
  /** Of the cell, before the first fault. */
  readonly begun: AuditMark;
  readonly proxy: HttpProxy;
  readonly link: TcpProxy;
  /** All that a Workload has ever said of its ready Instances. */
  readonly said: ReadonlyMap<string, readonly number[]>;
  /** Uids that the deployment of a Workload has had in the cell. */
  readonly made: ReadonlyMap<string, ReadonlySet<string>>;
  readonly namespace: string;
  /** Text. */
  readonly hubKubeconfig: string;
  stopBerth(): Promise<void>;
  useCredential(user: TestUser): Promise<void>;
  again(): void;
  create(name: string): Promise<void>;
  /** `True/Heard` */
  reachable(): Promise<string>;
  /** One plane at a time, as the API server of a cell may not answer. */
  deployment(plane: Plane, workload: string): Promise<WorkloadDeployment | undefined>;
  /** `patch workloaddeployments/status default/w-us-dfw` of Berth in both clusters. */
  writes(): Promise<() => Promise<readonly string[]>>;
}

export async function faultStage(): Promise<FaultStage> {
  await using owned = new AsyncDisposableStack();
  const users = [{ name: OTHER_USER, groups: ["system:masters"] }];
  const [hub, cell] = await Promise.all(
    [{}, { users }].map(async (of) => owned.use(await startTestCluster({ audit: true, ...of }))),
  );
  if (hub === undefined || cell === undefined) throw new Error("a cluster is missing");
  await Promise.all([hub, cell].map(prepareStories));
  const proxy = owned.use(await proxyOf(cell));
  const link = owned.use(await startTcpProxy({ target: new URL(proxy.url) }));
  const played = owned.use(await playCells(cell.client, [CELL], { renewMs: RENEW_MS }));
  const actor = owned.use(new Actor(hub.client));
  const inCell = owned.use(new Actor(cell.client));
  const [said, made] = [new Map<string, number[]>(), new Map<string, Set<string>>()];
  await actor.follow({
    resource: workloads,
    act: () => Promise.resolve(),
    onChange({ object: { metadata, status } }) {
      const { name = "" } = metadata ?? {};
      said.set(name, [...(said.get(name) ?? []), status?.readyReplicas ?? 0]);
    },
  });
  await inCell.follow({
    resource: workloadDeployments,
    act: () => Promise.resolve(),
    onChange({ object: { metadata } }) {
      const { name = "", uid = "" } = metadata ?? {};
      made.set(name, (made.get(name) ?? new Set()).add(uid));
    },
  });
  const secret = { namespace: HOME, name: "cell" };
  const useCredential = async (user: TestUser): Promise<void> => {
    const text = cell.kubeconfig({ server: link.url, user });
    const data = { kubeconfig: Buffer.from(text).toString("base64") };
    await hub.client.apply(secrets, { metadata: secret, data }, { fieldManager: "operator" });
  };
  await useCredential(cell.admin);
  const { metadata } = await cell.client.get(namespaces, { name: "kube-system" });
  const spec = { city: "DFW", secretRef: { name: secret.name }, uid: metadata?.uid ?? "" };
  await hub.client.create(cells, { metadata: { name: CELL }, spec });
  const client = owned.use(hub.connect({ userAgent: AGENT, fieldManager: "berth" }));
  const fleet = {
    spec: fleetKind.spec.parse({ mode: "management", hub: "self", projects: "self", networking: "Off" }),
  };
  const berth = owned.use(
    await startBerth({ client, fleet, namespace: HOME, clock: hurriedClock(PACE), crdGraceMs: 0 }),
  );
  const begun = await cell.audit.mark();
  const kept = owned.move();
  const namespace = "default";
  const onHub = hubNamespaceOf((await hub.client.get(namespaces, { name: namespace })).metadata?.uid ?? "");
  return {
    hub: hub.client,
    cell,
    begun,
    proxy,
    link,
    said,
    made,
    namespace,
    hubKubeconfig: hub.kubeconfig(),
    stopBerth: async () => berth[Symbol.asyncDispose](),
    useCredential,
    again: () => played.again(),
    async create(name) {
      await hub.client.create(workloads, aWorkload({ namespace, name, replicas: 2 }));
    },
    async reachable() {
      const { status, reason } = conditionOf(await hub.client.get(cells, { name: CELL }), "Reachable") ?? {};
      return `${status}/${reason}`;
    },
    async deployment(plane, workload) {
      const { client } = plane === "cell" ? cell : hub;
      const { items } = await client.list(workloadDeployments, {
        namespace: plane === "project" ? namespace : onHub,
      });
      return items.find((it) => it.metadata?.name === `${workload}-us-dfw`);
    },
    async writes() {
      const marks = await Promise.all([hub, cell].map(async (of) => [of, await of.audit.mark()] as const));
      return async () => (await Promise.all(marks.map(([of, mark]) => writesSince(of, mark)))).flat();
    },
    [Symbol.asyncDispose]: () => kept.disposeAsync(),
  };
}

const AGENT = "berth/faults";

async function writesSince({ audit }: TestCluster, mark: AuditMark): Promise<readonly string[]> {
  const entries = await audit.entriesSince(mark, { userAgent: "berth" });
  return entries
    .filter(({ verb, resource }) => VERBS.has(verb) && !/^(?:leases|events|withdrawals)\./.test(resource))
    .map((it) => `${it.verb} ${it.resource}/${it.subresource} ${it.namespace}/${it.name}`);
}

const VERBS: ReadonlySet<string> = new Set(["create", "patch", "update", "delete"]);
