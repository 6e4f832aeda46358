/**
 * Faults of the API server and of the way to it, each on the real API server through a proxy. Afterwards the nodes are
 * exactly right, no label has flapped, and at rest nothing is written.
 */
import { mkdtemp, rm, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import path from "node:path";
import {
  type ClusterRole,
  clusterRoleBindings,
  clusterRoles,
  isApiError,
  nodes,
  secrets,
  serviceAccounts,
  validatingAdmissionPolicies,
  validatingAdmissionPolicyBindings,
} from "@berth/kube";
import {
  conflict,
  cutAfterForwarding,
  cutBefore,
  delay,
  errorEvent,
  eventually,
  expired,
  garbage,
  type HttpProxy,
  hold,
  internalError,
  invalid,
  type RequestAction,
  type RequestMatch,
  startHttpProxy,
  startTcpProxy,
  startTestCluster,
  type TcpProxy,
  type TestCluster,
  tooManyRequests,
} from "@berth/testcluster";
import { afterAll, beforeAll, describe, expect, it } from "vitest";
import type { BerthProcess } from "./product.ts";
import { createWorld, type World } from "./world.ts";

let cluster: TestCluster;
beforeAll(async () => {
  cluster = await startTestCluster({ audit: true, users: [{ name: "worker" }] });
});
afterAll(() => cluster[Symbol.asyncDispose]());

const NODES = 8;
const WRITES: RequestMatch = { verb: "patch", resource: "nodes" };
const READS: RequestMatch = { verb: ["list", "watch"], resource: "nodes" };

interface Stage extends AsyncDisposable {
  readonly world: World;
  readonly proxy: HttpProxy;
  readonly berth: BerthProcess;
}

/** Eight nodes, of which every other one is labelled, by a Berth that reaches the server through a proxy. */
async function stage(name: string): Promise<Stage> {
  await using owned = new AsyncDisposableStack();
  const certificate = await cluster.authority.issueServing(["127.0.0.1"]);
  const proxy = owned.use(await startHttpProxy({ target: cluster.url, ca: cluster.ca, certificate }));
  const world = owned.use(await populated(name));
  const berth = await world.start({ server: proxy.url });
  await world.right();
  const kept = owned.move();
  return { world, proxy, berth, [Symbol.asyncDispose]: () => kept.disposeAsync() };
}

async function populated(name: string): Promise<World> {
  const world = await createWorld(cluster, name);
  await world.rules.write("has/usb", "usb.present");
  await world.rules.write("has/any", "has/usb", "pci.present");
  for (let n = 0; n < NODES; n++) await world.add(`n${n}`, n % 2 === 0 ? { "usb.present": "true" } : {});
  return world;
}

/** Labels come and go on nodes, one node is new, one is gone, and one rule is new. */
async function upheaval(world: World): Promise<void> {
  await world.label("n0", { "usb.present": null });
  await world.label("n1", { "usb.present": "true" });
  await world.label("n2", { "usb.present": null, "pci.present": "1" });
  await world.remove("n4");
  await world.add("new", { "pci.present": "1" });
  await world.rules.write("pool/blue", "pool", "usb.present");
}

async function rightAndAtRest(world: World): Promise<void> {
  await world.right();
  expect(world.expected("n0")).not.toHaveProperty(["has/any"]);
  expect(world.expected("n1")).toMatchObject({ "has/usb": "true", "has/any": "true", "pool/blue": "true" });
  expect(world.expected("n2")).not.toHaveProperty(["has/usb"]);
  await world.restful();
}

describe("a write", () => {
  it.each<[string, RequestAction, number]>([
    ["409", conflict(), 3],
    ["422", invalid([{ field: "metadata.labels", message: "made up" }]), 1],
    ["500", internalError(), 5],
    ["cut", cutBefore({ scope: "connection" }), 5],
    ["lost", cutAfterForwarding(), 5],
    ["text", garbage(), 3],
    ["slow", delay(300), 4],
  ])("that meets this fault is made up for: %s", async (name, action, times) => {
    await using scene = await stage(`write-${name}`);
    using rule = scene.proxy.on(WRITES, action, { times });
    await upheaval(scene.world);
    await rule.until(times);
    await rightAndAtRest(scene.world);
  });

  it("that is answered 429 is not sent again before the server's Retry-After", async () => {
    await using scene = await stage("write-429");
    using rule = scene.proxy.on(WRITES, tooManyRequests(1), { times: 4 });
    await upheaval(scene.world);
    await rule.until(4);
    await rightAndAtRest(scene.world);
    const patches = scene.proxy.requests.filter(({ verb }) => verb === "patch");
    const refused = patches.filter(({ status }) => status === 429);
    expect(refused).toHaveLength(4);
    for (const { name, at } of refused) {
      const next = patches.find((later) => later.name === name && later.at > at);
      expect((next?.at ?? 0) - at).toBeGreaterThan(990);
    }
  });

  it("that conflicts with a change the cache had not seen is decided again", async () => {
    await using scene = await stage("write-real-409");
    const { world, proxy } = scene;
    const held = hold();
    using _rule = proxy.on(WRITES, held, { times: 1 });
    await world.label("n0", { "usb.present": null });
    await held.until();
    await world.annotate("n0", { "example.com/late": "1" });
    held.release();
    await world.right();
    await upheaval(world);
    await rightAndAtRest(world);
    expect(proxy.requests.filter(({ status }) => status === 409)).toHaveLength(1);
  });

  it("L-B4 that clears a label and is answered 409, which nothing explains, clears it all the same", async () => {
    await using scene = await stage("b4");
    using rule = scene.proxy.on(WRITES, conflict(), { times: 1 });
    await scene.world.label("n0", { "usb.present": null });
    await rule.until();
    await scene.world.right();
    expect(scene.world.expected("n0")).not.toHaveProperty(["has/usb"]);
    await scene.world.restful();
  });

  it("that an admission policy refuses (422) costs only the label concerned, is told, and heals", async () => {
    await using world = await populated("policy");
    await using _policy = await forbidLabel("has/usb");
    await using berth = await world.startInProcess({ pace: 20 });
    const others = new Map([...world.rules.files].filter(([file]) => file !== "has/usb"));
    world.followRules(() => new Map([...others, ["has/any", "usb.present\npci.present\n"]]));
    await world.right();
    await eventually(async () => {
      const refused = await world.events("WriteRefused");
      expect(refused.map(({ regarding }) => regarding?.name)).toContain("policy-n0");
    });
    expect((await world.events("WriteRefused"))[0]?.note).toContain("label/has/usb");
    expect(berth.problems()).toEqual([]);
    await _policy[Symbol.asyncDispose]();
    world.followRules(() => world.rules.files);
    await upheaval(world);
    await rightAndAtRest(world);
  });
});

/** From now on the server refuses any change of this label, and says so as 422. */
async function forbidLabel(key: string): Promise<AsyncDisposable> {
  const { client } = cluster;
  const name = "forbid-label.example.com";
  const carries = (object: string): string =>
    `(has(${object}.metadata.labels) && '${key}' in ${object}.metadata.labels)`;
  await client.create(validatingAdmissionPolicies, {
    metadata: { name },
    spec: {
      failurePolicy: "Fail",
      matchConstraints: {
        resourceRules: [
          { apiGroups: [""], apiVersions: ["v1"], resources: ["nodes"], operations: ["UPDATE"] },
        ],
      },
      validations: [{ expression: `${carries("object")} == ${carries("oldObject")}`, reason: "Invalid" }],
    },
  });
  const validationActions = ["Deny"];
  await client.create(validatingAdmissionPolicyBindings, {
    metadata: { name },
    spec: { policyName: name, validationActions },
  });
  const [node] = (await client.list(nodes)).items;
  const isInForce = (): Promise<boolean> =>
    client
      .patch(
        nodes,
        { name: node?.metadata?.name ?? "" },
        { type: "merge", body: { metadata: { labels: { [key]: "probe" } } } },
        { dryRun: true },
      )
      .then(
        () => false,
        (error: unknown) => isApiError(error, "invalid"),
      );
  await eventually(async () => expect(await isInForce()).toBe(true));
  let lifted: Promise<void> | undefined;
  const lift = async (): Promise<void> => {
    await client.delete(validatingAdmissionPolicyBindings, { name });
    await client.delete(validatingAdmissionPolicies, { name });
    await eventually(async () => expect(await isInForce()).toBe(false));
  };
  return { [Symbol.asyncDispose]: () => (lifted ??= lift()) };
}

describe("the watch", () => {
  it.each<[string, RequestAction, number]>([
    ["410", expired(), 2],
    ["429", tooManyRequests(1), 2],
    ["500", internalError(), 3],
    ["cut", cutBefore(), 3],
    ["text", garbage(), 2],
    ["truncated", garbage("truncated"), 2],
  ])(
    "that is cut and meets this fault when it comes back shows everything again: %s",
    async (name, action, times) => {
      await using scene = await stage(`watch-${name}`);
      using rule = scene.proxy.on(READS, action, { times });
      expect(scene.proxy.cutStreams(READS)).toBe(1);
      await upheaval(scene.world);
      await rule.until(times);
      await rightAndAtRest(scene.world);
    },
  );

  it("that expires in the middle (an ERROR event with 410) begins anew", async () => {
    await using scene = await stage("watch-error");
    using rule = scene.proxy.onWatchEvent({ type: "MODIFIED", resource: "nodes" }, errorEvent(410), {
      times: 2,
    });
    await upheaval(scene.world);
    await rule.until(2);
    await rightAndAtRest(scene.world);
    expect(await scene.berth.metric("berth_informer_failures_total", { failure: "expired" })).toBe(2);
  });

  it("whose history was compacted meanwhile begins anew, and clears what lost its support unseen", async () => {
    await using scene = await stage("compacted");
    const { world, proxy, berth } = scene;
    {
      using gone = proxy.on(READS, cutBefore());
      proxy.cutStreams();
      await gone.until();
      await upheaval(world);
      await cluster.compact();
      await cluster.stopComponent("kube-apiserver");
      await cluster.startComponent("kube-apiserver");
    }
    await rightAndAtRest(world);
    expect(await berth.metric("berth_informer_failures_total", { failure: "expired" })).toBeGreaterThan(0);
  });
});

describe("the API server", () => {
  it.each(["SIGTERM", "SIGKILL"] as const)(
    "that ends (%s) and comes back finds Berth at work",
    async (signal) => {
      await using world = await populated(`restart-${signal.toLowerCase()}`);
      const berth = await world.start();
      await world.right();
      await cluster.stopComponent("kube-apiserver", signal);
      await world.rules.write("pool/blue", "pool", "usb.present");
      await cluster.startComponent("kube-apiserver");
      await upheaval(world);
      await rightAndAtRest(world);
      expect(await berth.readiness()).toMatchObject({ ok: true });
    },
  );
});

describe("the network", () => {
  it.each<[string, (link: TcpProxy) => void]>([
    ["reset", (link) => link.resetAll()],
    ["refuse", (link) => (link.resetAll(), link.refuse())],
    ["half-closed", (link) => link.halfClose()],
    ["dropped", (link) => link.drop()],
    ["dropped-answers", (link) => link.serverToClient.drop()],
    ["stalled", (link) => link.stall()],
  ])("that fails like this is overcome: %s", async (name, fail) => {
    await using world = await populated(`net-${name}`);
    await using link = await startTcpProxy({ target: new URL(cluster.url) });
    const berth = await world.startInProcess({ server: link.url, silenceMs: 1500 });
    await world.right();
    fail(link);
    await upheaval(world);
    await new Promise((resolve) => setTimeout(resolve, 2000));
    link.pass();
    await world.right({ timeoutMs: 60_000 });
    await rightAndAtRest(world);
    expect(berth.problems()).toEqual([]);
  });
});

describe("the credential", () => {
  it("is read again from the disk when the token was rotated, however late", async () => {
    await using world = await populated("token");
    const folder = await mkdtemp(path.join(tmpdir(), "berth-token-"));
    world.owns(() => rm(folder, { recursive: true }));
    const file = path.join(folder, "token");
    const issued = [await issueToken("token", "first"), await issueToken("token", "second")];
    await writeFile(file, issued[0]?.token ?? "");
    const berth = await world.start({ kubeconfig: tokenKubeconfig(file) });
    await world.right();
    await issued[0]?.revoke();
    await upheaval(world);
    await eventually(async () =>
      expect(await berth.metric("berth_node_writes_total", { result: "failed" })).toBeGreaterThan(1),
    );
    await writeFile(file, issued[1]?.token ?? "");
    await rightAndAtRest(world);
    expect(await berth.readiness()).toMatchObject({ ok: true });
  });
});

interface IssuedToken {
  readonly token: string;
  /** Resolves when the server no longer accepts it. */
  revoke(): Promise<void>;
}

/** A token of a service account that may do everything, valid while the Secret that it is bound to is there. */
async function issueToken(namespace: string, name: string): Promise<IssuedToken> {
  const { client } = cluster;
  const account = "berth";
  await client.create(serviceAccounts, { metadata: { name: account, namespace } }).catch((error: unknown) => {
    if (!isApiError(error, "alreadyExists")) throw error;
  });
  await client.apply(clusterRoleBindings, {
    metadata: { name: `all-for-${namespace}` },
    roleRef: { apiGroup: "rbac.authorization.k8s.io", kind: "ClusterRole", name: "cluster-admin" },
    subjects: [{ kind: "ServiceAccount", name: account, namespace }],
  });
  const secret = await client.create(secrets, { metadata: { name, namespace } });
  const boundObjectRef = { apiVersion: "v1", kind: "Secret", name, uid: secret.metadata?.uid };
  const request = { apiVersion: "authentication.k8s.io/v1", kind: "TokenRequest", spec: { boundObjectRef } };
  const answer = await client.create(serviceAccounts, request, {
    subresource: "token",
    name: account,
    namespace,
  });
  const { status } = answer as { readonly status?: { readonly token?: string } };
  const token = status?.token ?? "";
  const revoke = async (): Promise<void> => {
    await client.delete(secrets, { name, namespace });
    // The server remembers for 10 s that it has accepted a token.
    await eventually(
      async () => {
        await using as = cluster.connect({ user: { name: account, groups: [], token } });
        const refused = await as.list(nodes, { limit: 1 }).then(
          () => false,
          (error: unknown) => isApiError(error, "unauthorized"),
        );
        expect(refused).toBe(true);
      },
      { everyMs: 500 },
    );
  };
  return { token, revoke };
}

function tokenKubeconfig(tokenFile: string): string {
  const text = cluster.kubeconfig({ user: { name: "berth", groups: [], token: "-" } });
  return text.replace('token: "-"', `tokenFile: ${JSON.stringify(tokenFile)}`);
}

describe("a right that is missing", () => {
  const rule = (...verbs: string[]): NonNullable<ClusterRole["rules"]>[number] => ({
    apiGroups: [""],
    resources: ["nodes"],
    verbs,
  });
  const always: NonNullable<ClusterRole["rules"]> = [
    { apiGroups: [""], resources: ["namespaces"], verbs: ["get"] },
    { apiGroups: ["events.k8s.io"], resources: ["events"], verbs: ["create", "patch"] },
  ];

  /** The user `worker` may do this with nodes, and nothing else that matters. */
  async function grant(...verbs: string[]): Promise<void> {
    const { client } = cluster;
    const role = {
      metadata: { name: "worker" },
      rules: verbs.length === 0 ? always : [...always, rule(...verbs)],
    };
    await client.apply(clusterRoles, role, { force: true });
    await client.apply(clusterRoleBindings, {
      metadata: { name: "worker" },
      roleRef: { apiGroup: "rbac.authorization.k8s.io", kind: "ClusterRole", name: "worker" },
      subjects: [{ apiGroup: "rbac.authorization.k8s.io", kind: "User", name: "worker" }],
    });
    await using worker = cluster.connect({ user: await cluster.user("worker") });
    await eventually(async () => {
      for (const verb of ["list", "watch", "patch"] as const) {
        expect(await may(worker, verb)).toBe(verbs.includes(verb));
      }
    });
  }

  it.each([
    ["patch", ["get", "list", "watch"]],
    ["watch", ["get", "list", "patch"]],
  ])(
    "is named by verb and resource in readiness and log, and healed by granting it: %s",
    async (verb, others) => {
      await grant(...others);
      await using world = await populated(`rbac-${verb}`);
      const berth = await world.start({ user: await cluster.user("worker") });
      const named = new RegExp(`"${verb}" on "nodes"|${verb} nodes`);
      await eventually(async () => {
        const { ok, text } = await berth.readiness();
        expect(ok).toBe(false);
        expect(text).toMatch(named);
      });
      const said = berth.log.filter(({ level }) => level === "error" || level === "warn");
      expect(JSON.stringify(said)).toMatch(named);
      await grant("get", "list", "watch", "patch");
      await upheaval(world);
      await rightAndAtRest(world);
      await berth.ready();
    },
  );

  it("while it runs stops the writes for all nodes at once, and all is made up for when it is back", async () => {
    await grant("get", "list", "watch", "patch");
    await using world = await populated("rbac-revoked");
    const berth = await world.start({ user: await cluster.user("worker") });
    await world.right();
    await berth.ready();
    await grant("get", "list", "watch");
    const mark = await cluster.audit.mark();
    await upheaval(world);
    await eventually(async () => expect(await berth.readiness()).toMatchObject({ ok: false }));
    await world.singCanary();
    await grant("get", "list", "watch", "patch");
    await rightAndAtRest(world);
    const refused = (await world.patchesSince(mark)).filter(({ code }) => code === 403);
    expect(refused.length).toBeLessThanOrEqual(16);
    await berth.ready();
  });
});

async function may(
  client: ReturnType<TestCluster["connect"]>,
  verb: "list" | "watch" | "patch",
): Promise<boolean> {
  const { selfSubjectAccessReviews } = await import("@berth/kube");
  const spec = { resourceAttributes: { verb, resource: "nodes" } };
  return (await client.create(selfSubjectAccessReviews, { spec })).status?.allowed === true;
}
