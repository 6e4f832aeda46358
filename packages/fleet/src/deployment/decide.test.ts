import { describe, expect, it } from "vitest";
import type { Instance } from "../api/workload.ts";
import { fleetKind } from "../fleet/document.ts";
import { type DeploymentView, decideDeployment } from "./decide.ts";
import { handedDownLimits } from "./template-size.ts";
import { ControlLoop, isReady, ordinal } from "./testing/control-loop.ts";
import { aDeployment, anInstance, aTemplate, NOW_MS } from "./testing/fixtures.ts";

const deployment = aDeployment();
const SETTLED = { actions: [], findings: [] };

function decide(change: Partial<DeploymentView> = {}) {
  return decideDeployment({
    deployment,
    instances: [],
    instanceNamed: () => undefined,
    network: { is: "off" },
    hasQuota: true,
    nowMs: NOW_MS,
    ...change,
  });
}

const restarted = (at: string) =>
  aTemplate("app:1", { annotations: { "compute.datumapis.com/restartedAt": at } });

describe("a deployment that comes and goes", () => {
  it("R18 gets its finalizer in the same pass as its first Instance", () => {
    const { finalizers, create, status } = decide({
      deployment: aDeployment({ metadata: { name: "w-us-dfw", finalizers: ["a/b"] } }),
    });
    expect(finalizers).toEqual(["a/b", "compute.datumapis.com/workload-controller"]);
    expect(create?.metadata?.name).toBe("w-us-dfw-0");
    expect(status).toBeUndefined();
  });

  it("R16 creates Instances without a Location, and says so with the next event", () => {
    const network = { is: "waiting" } as const;
    const { create } = decide({ network });
    expect(create?.spec?.location).toBeUndefined();
    expect(create?.spec?.controller?.schedulingGates).toEqual([{ name: "Network" }, { name: "Quota" }]);
    const { status } = decide({ network, instances: [anInstance(deployment, 0, "N")] });
    expect(status?.conditions?.[0]).toMatchObject({ type: "Available", reason: "NoMatchingLocation" });
  });

  it("gives an Instance the Location that is known, and a gate Network where there are networks", () => {
    const [found, known] = [
      { name: "found", namespace: "n" },
      { name: "known", namespace: "n" },
    ];
    const status = { replicas: 0, currentReplicas: 0, desiredReplicas: 0, readyReplicas: 0, location: known };
    const made = (network: DeploymentView["network"]) => {
      const { location, controller } =
        decide({ deployment: aDeployment({ status }), network }).create?.spec ?? {};
      return [location, controller?.schedulingGates?.length];
    };
    expect([made({ is: "ready", location: found }), made({ is: "waiting" }), made({ is: "off" })]).toEqual([
      [found, 2],
      [known, 2],
      [known, 1],
    ]);
  });

  it("says at once why the API server refuses an Instance, and tries again", () => {
    const refusal = "Instance w-us-dfw-0 is refused: denied";
    const refusals = new Map([["w-us-dfw-0", refusal]]);
    const { create, status } = decide({ refusals });
    expect(create).toBeDefined();
    expect(status?.conditions?.[0]).toMatchObject({ message: refusal });
    // It exists: what was said about its creation is over.
    const instances = [anInstance(deployment, 0, "N")];
    expect(decide({ refusals, instances }).status?.conditions?.[0]?.message).toBe("0/1 instances are ready");
  });

  it("deletes its Instances, waits for them, and then loses its finalizer", () => {
    const going = aDeployment({
      metadata: {
        ...deployment.metadata,
        finalizers: ["a/b", "compute.datumapis.com/workload-controller"],
        deletionTimestamp: "2026-01-01T00:00:00Z",
      },
    });
    const instances = [anInstance(going, 0), anInstance(going, 1, "D")];
    const first = decide({ deployment: going, instances });
    expect(first).toMatchObject({ delete: [instances[0]], deleteBound: "uid" });
    expect(first.create ?? first.finalizers ?? first.status).toBeUndefined();
    const second = decide({ deployment: going, instances: instances.slice(1) });
    expect(second.delete ?? second.finalizers).toBeUndefined();
    expect(second.status).toMatchObject({ replicas: 1, desiredReplicas: 0 });
    expect(decide({ deployment: going })).toMatchObject({ finalizers: ["a/b"] });
    const released = { ...going, metadata: { ...going.metadata, finalizers: ["a/b"] } };
    expect(decide({ deployment: released, instances })).toEqual(SETTLED);
  });
});

it("a deployment that the hub holds loses its Instances, the highest first, and stays", () => {
  const held = aDeployment({ metadata: { annotations: { "berth.dev/hold": "Superseded" } } });
  const three = [0, 1, 2].map((at) => anInstance(held, at));
  const { actions, findings } = decide({ deployment: held, instances: three });
  expect(actions.map((it) => `${it.do} ${it.ordinal}`)).toEqual(["delete 2", "delete 1", "delete 0"]);
  expect(findings).toEqual([]);
  const { actions: none, status } = decide({ deployment: held });
  expect(none).toEqual([]);
  expect(status).toMatchObject({ replicas: 0, desiredReplicas: 0 });
  expect(status?.conditions?.[0]).toMatchObject({ type: "Available", status: "False", reason: "Superseded" });
});

describe("hostile input", () => {
  it("R17 objects with fields missing are decided about, and nothing is without a spec", () => {
    const { spec } = deployment;
    const bare = { ...(spec && { spec }) };
    const { create, finalizers, findings } = decide({ deployment: bare, instances: [{}, { metadata: {} }] });
    expect([create?.metadata?.name, create?.metadata?.ownerReferences?.[0]]).toEqual([
      "-0",
      expect.objectContaining({ name: "", uid: "" }),
    ]);
    expect(finalizers).toEqual(["compute.datumapis.com/workload-controller"]);
    expect(Object.keys(create?.metadata ?? {})).toEqual(["name", "labels", "finalizers", "ownerReferences"]);
    expect(findings.map(({ reason, about }) => [reason, about])).toEqual([
      ["InstanceIgnored", ""],
      ["InstanceIgnored", ""],
    ]);
    const metadata = { deletionTimestamp: "2026-01-01T00:00:00Z" };
    for (const one of [{}, { ...bare, metadata }]) expect(decide({ deployment: one })).toEqual(SETTLED);
  });

  it.each([-1, 2 ** 31])("H2 minReplicas %d is bounded and reported", (min) => {
    const { actions, findings } = decide({ deployment: aDeployment({ min }) });
    const bound = min < 0 ? 0 : 1000;
    expect(actions).toHaveLength(bound);
    const message = `minReplicas ${min} is not from 0 to 1000: Berth runs ${bound}`;
    expect(findings).toEqual([{ reason: "ReplicasOutOfRange", message }]);
  });

  it.each([
    ["the first name", 0, []],
    ["the last name", 1, [0]],
  ])(
    "H9 never adopts an Instance of another deployment: %s is taken, and the holder is named",
    (_, at, own) => {
      const foreign = anInstance(aDeployment({ name: "other" }), 0);
      const instances = own.map((one) => anInstance(deployment, one));
      const taken = `w-us-dfw-${at}`;
      const found = decide({ instances, instanceNamed: (name) => (name === taken ? foreign : undefined) });
      expect(found.create ?? found.delete).toBeUndefined();
      const message = `Instance ${taken} exists and is of WorkloadDeployment other (uid uid-other): Berth waits until it is deleted`;
      expect(found.findings).toEqual([{ reason: "InstanceNameTaken", about: taken, message }]);
      expect(found.status?.conditions).toContainEqual(
        expect.objectContaining({
          type: "InstanceConflict",
          status: "True",
          reason: "InstanceNameTaken",
          message,
        }),
      );
      const healed = aDeployment({ ...(found.status && { status: found.status }) });
      const { create, status } = decide({ deployment: healed, instances });
      expect(create?.metadata?.name).toBe(taken);
      expect(status).toBeUndefined();
      const running = decide({ deployment: healed, instances: [0, 1].map((one) => anInstance(healed, one)) });
      expect(running.status?.conditions?.map(({ type }) => type)).not.toContain("InstanceConflict");
    },
  );

  it("H9 names five of many holders", () => {
    const none = { metadata: { name: "theirs" } };
    const said = (min: number): string => {
      const { status, findings } = decide({ deployment: aDeployment({ min }), instanceNamed: () => none });
      expect(findings).toHaveLength(min);
      return status?.conditions?.find(({ type }) => type === "InstanceConflict")?.message ?? "";
    };
    expect(said(8)).toMatch(/^Instance w-us-dfw-0 exists and has no controller: .*; and 3 more$/);
    expect(said(5)).not.toContain("more");
  });

  it("8.2 reports an Instance whose name has no ordinal, and leaves it alone", () => {
    const instances = [
      anInstance(deployment, 0),
      anInstance(deployment, 1),
      { metadata: { name: "w-us-dfw-x" } },
    ];
    const decision = decide({ instances });
    expect(decision.create ?? decision.delete).toBeUndefined();
    const about = "w-us-dfw-x";
    const message = `Instance ${about} is not w-us-dfw-<ordinal>: Berth leaves it alone; delete it if it is not needed`;
    expect(decision.findings).toEqual([{ reason: "InstanceIgnored", about, message }]);
  });

  it("does nothing about Instances while the first ordinal is unreadable", () => {
    const annotations = { "berth.dev/ordinal-start": "1k" };
    const odd = aDeployment({ metadata: { ...deployment.metadata, annotations } });
    const decision = decide({ deployment: odd, instances: [anInstance(odd, 0)] });
    expect(decision.create ?? decision.delete).toBeUndefined();
    const message =
      "annotation berth.dev/ordinal-start is no ordinal: Berth leaves the Instances alone until it is corrected";
    expect(decision.findings).toEqual([{ reason: "OrdinalStartInvalid", message }]);
  });
});

describe("a roll", () => {
  it("H24 waits while no quota can be asked, looks again, and goes on", () => {
    const instances = [anInstance(deployment, 0, "Ro"), anInstance(deployment, 1, "Ro")];
    const held = decide({ instances, rollHold: () => "503" });
    expect(held.delete).toBeUndefined();
    expect(held.recheckAfterMs).toBe(2_000);
    expect(held.status?.conditions?.map(({ type, status, reason }) => `${type} ${status} ${reason}`)).toEqual(
      [
        "Available True StableInstanceFound",
        "Progressing False RollPaused",
        "ReplicasReady True ReplicasAvailable",
      ],
    );
    const current = [0, 1].map((at) => anInstance(deployment, at));
    expect(
      decide({ instances: current, rollHold: () => expect.fail("it was asked for nothing") }).actions,
    ).toEqual([]);
    const resumed = decide({ instances });
    expect(resumed.delete).toEqual([instances[1]]);
    expect(resumed.deleteBound).toBeUndefined();
  });

  it("T1 adopts the Instances of the original and recreates none", () => {
    const adopt = (at: number): Instance => {
      const instance = anInstance(deployment, at);
      const { spec } = instance;
      return { ...instance, ...(spec && { spec: { ...spec, controller: { templateHash: "b7d9" } } }) };
    };
    const { actions, status } = decide({ instances: [adopt(0), adopt(1)] });
    expect(actions).toEqual([]);
    expect(status).toMatchObject({ readyReplicas: 2 });
  });
});

describe("networks that a new Instance would wait for", () => {
  const location = { name: "l", namespace: "n" };
  const network = { is: "waiting", location, message: "NetworkBinding a/b is not ready" } as const;

  it("hold the roll of a Ready Instance, and of none that is not, and scaling goes on", () => {
    const ready = [anInstance(deployment, 0, "Ro"), anInstance(deployment, 1, "Ro")];
    const held = decide({ instances: ready, network });
    expect(held.delete ?? held.recheckAfterMs).toBeUndefined();
    expect(held.status?.conditions).toContainEqual(
      expect.objectContaining({ reason: "RollPaused", message: expect.stringContaining("a/b is not ready") }),
    );
    expect(decide({ instances: ready, network: { is: "waiting" } }).status?.conditions).toContainEqual(
      expect.objectContaining({ message: expect.stringMatching(/: its networks are not ready$/) }),
    );
    const broken = [anInstance(deployment, 0, "Ro"), anInstance(deployment, 1, "No")];
    expect(decide({ instances: broken, network }).delete).toEqual([broken[1]]);
    const surplus = [...ready, anInstance(deployment, 2)];
    expect(decide({ instances: surplus, network }).delete).toEqual([surplus[2]]);
    expect(decide({ deployment: aDeployment({ min: 3 }), instances: ready, network }).create).toBeDefined();
    expect(decide({ instances: ready, network: { ...network, is: "ready" } }).delete).toEqual([ready[1]]);
  });

  it("B13 that cannot be read replace nothing: they may be others than those of the template", () => {
    const instances = [anInstance(deployment, 0, "Ro"), anInstance(deployment, 1, "No")];
    const block = { reason: "NetworksNotRead", message: "subnets (forbidden)" };
    const found = decide({ instances, network: { ...network, ...block } });
    expect(found.delete ?? found.create).toBeUndefined();
    // The Event, and the condition.
    expect(found.findings).toEqual([block]);
    expect(found.status?.conditions).toContainEqual(
      expect.objectContaining({ ...block, type: "NetworksRead", status: "False" }),
    );
    expect(found.status?.conditions).toContainEqual(expect.objectContaining({ reason: "RollPaused" }));
    // What needs no network goes on, and what is new waits behind its gate.
    const { create } = decide({ network: { ...network, ...block } });
    expect(create?.spec?.controller?.schedulingGates).toContainEqual({ name: "Network" });
  });

  it.each(["NetworkChanged", "ForeignNetwork"])(
    "of a template with %s replace nothing, and scaling down goes on",
    (reason) => {
      const instances = [anInstance(deployment, 0, "Ro"), anInstance(deployment, 1, "No")];
      const found = decide({ instances, network: { ...network, reason } });
      expect(found.delete ?? found.create ?? found.recheckAfterMs).toBeUndefined();
      const { message } = network;
      expect(found.findings).toEqual([{ reason, message }]);
      expect(found.status?.conditions).toContainEqual(
        expect.objectContaining({ type: "Progressing", reason, message }),
      );
      const surplus = anInstance(deployment, 2, "Ro");
      expect(decide({ instances: [...instances, surplus], network: { ...network, reason } }).delete).toEqual([
        surplus,
      ]);
    },
  );
});

describe("a template that is too large for the cell", () => {
  const limits = { template: 10, total: 1_000_000 };
  const reason = "TemplateTooLarge";

  it("creates nothing, says why, and is not looked at again, nor are its keys read", () => {
    const leftOut = (): never => {
      throw new Error("the keys were read");
    };
    const { create, status, findings, recheckAfterMs } = decide({ limits, leftOut });
    expect([create, recheckAfterMs, findings.length]).toEqual([undefined, undefined, 1]);
    const message = expect.stringMatching(/^the template has \d+ bytes of JSON, and may have 10: /) as string;
    expect(status?.conditions?.map((it) => [it.type, it.status, it.reason, it.message])).toEqual([
      ["Available", "False", reason, message],
      ["Progressing", "False", reason, message],
      ["ReplicasReady", "False", "InstancesProvisioning", "0/2 replicas available"],
    ]);
  });

  it("is one of a cell: a review has seen the Workloads of mode single", () => {
    const of = (mode: object) => handedDownLimits(fleetKind.spec.parse(mode));
    expect(of({ mode: "cell", cell: "dfw-01" })).toEqual({ template: 32 * 2 ** 10, total: 16 * 2 ** 20 });
    expect(of({ mode: "single" })).toBeUndefined();
  });

  it("counts all Instances that the deployment wants", () => {
    const size = JSON.stringify(deployment.spec?.template).length;
    const of = (total: number) => decide({ limits: { template: size, total } }).create !== undefined;
    expect([of(2 * size), of(2 * size - 1)]).toEqual([true, false]);
    const [finding] = decide({ limits: { template: 10, total: 10 } }).findings;
    expect(finding?.message).toMatch(/ to ConfigMaps; the template of /);
  });

  it("replaces nothing, Ready or not; what is above the wanted number goes all the same", () => {
    const instances = [anInstance(deployment, 0, "Ro"), anInstance(deployment, 1, "No")];
    const { actions, status } = decide({ instances, limits });
    expect(actions).toEqual([]);
    expect(status?.conditions).toContainEqual(expect.objectContaining({ type: "Available", status: "True" }));
    const surplus = anInstance(deployment, 2, "Ro");
    expect(decide({ instances: [...instances, surplus], limits }).delete).toEqual([surplus]);
  });
});

describe("the labels that say where an Instance belongs", () => {
  const without = (instance: Instance, ...keys: readonly string[]): Instance => {
    const labels = Object.entries(instance.metadata?.labels ?? {}).filter(([key]) => !keys.includes(key));
    return { ...instance, metadata: { ...instance.metadata, labels: Object.fromEntries(labels) } };
  };
  const CITY = "compute.datumapis.com/city-code";

  it("are restored on live Instances, those that differ alone, and nothing is rolled", () => {
    const odd = anInstance(deployment, 0);
    const moved = {
      ...odd,
      metadata: { ...odd.metadata, labels: { ...odd.metadata?.labels, [CITY]: "XXX" } },
    };
    const all = ["workload-deployment-name", "city-code", "workload-name", "placement-name"].map(
      (key) => `compute.datumapis.com/${key}`,
    );
    const bare = without(anInstance(deployment, 1), ...all);
    const going = without(anInstance(deployment, 2, "D"), ...all);
    const found = decide({ instances: [moved, bare, going] });
    expect(found.relabel).toEqual([
      { instance: moved, labels: { [CITY]: "DFW" } },
      {
        instance: bare,
        labels: Object.fromEntries(all.map((key, at) => [key, ["w-us-dfw", "DFW", "w", "us"][at]])),
      },
    ]);
    expect(found.delete ?? found.create).toBeUndefined();
    expect(
      decide({ instances: [anInstance(deployment, 0), anInstance(deployment, 1)] }).relabel,
    ).toBeUndefined();
  });

  it("are left alone on an Instance that this decision deletes, and are restored 50 at a time", () => {
    const surplus = without(anInstance(deployment, 2), CITY);
    const found = decide({ instances: [anInstance(deployment, 0), anInstance(deployment, 1), surplus] });
    expect([found.delete, found.relabel]).toEqual([[surplus], undefined]);
    const many = aDeployment({ min: 60 });
    const bare = Array.from({ length: 60 }, (_, at) => without(anInstance(many, at), CITY));
    expect(decide({ deployment: many, instances: bare }).relabel).toHaveLength(50);
  });
});

describe("sequences", () => {
  /** All Instances Ready, and the requests until then forgotten. */
  function running(min: number): ControlLoop {
    const loop = new ControlLoop({ min });
    loop.settle();
    loop.requests.length = 0;
    return loop;
  }

  it("A2 creates the next Instance when the one before it is Ready", () => {
    const loop = new ControlLoop({ min: 2 });
    for (let pass = 0; pass < 3; pass += 1, loop.see()) loop.pass();
    expect(loop.requests).toEqual(["create 0"]);
    loop.report(0, true);
    loop.see();
    loop.pass();
    expect(loop.requests).toEqual(["create 0", "create 1"]);
  });

  it("A9 scales 2 to 4 to 1 in order, and ordinal 0 stays the same object", () => {
    const loop = running(2);
    const [first] = loop.instances;
    loop.change({ min: 4 });
    loop.settle();
    loop.change({ min: 1 });
    loop.settle();
    expect(loop.requests).toEqual(["create 2", "create 3", "delete 3", "delete 2", "delete 1"]);
    expect(loop.instances.map(({ metadata }) => metadata?.uid)).toEqual([first?.metadata?.uid]);
  });

  it("A10 rolls from the highest ordinal with at most one not Ready (R6)", () => {
    const loop = running(3);
    const uids = new Set(loop.instances.map(({ metadata }) => metadata?.uid));
    loop.change({ template: aTemplate("app:2") });
    let fewest = 3;
    loop.settle((instance) => {
      fewest = Math.min(fewest, loop.readyCount);
      return instance !== undefined;
    });
    expect(loop.requests).toEqual(["delete 2", "create 2", "delete 1", "create 1", "delete 0", "create 0"]);
    expect(fewest).toBe(2);
    expect(loop.violations).toEqual([]);
    expect(loop.instances.filter(({ metadata }) => uids.has(metadata?.uid))).toEqual([]);
    expect(loop.deployment.status).toMatchObject({ updatedReplicas: 3, readyReplicas: 3 });
  });

  it("A11 rolls for a new restartedAt, and not for the same value again", () => {
    const loop = running(2);
    loop.change({ template: restarted("2026-01-02T00:00:00Z") });
    loop.settle();
    expect(loop.requests).toEqual(["delete 1", "create 1", "delete 0", "create 0"]);
    loop.change({ template: restarted("2026-01-02T00:00:00Z") });
    loop.settle();
    expect(loop.requests).toHaveLength(4);
  });

  it("A12 a bad image stops a roll at the first Instance, and the corrected one heals it (H4)", () => {
    const loop = running(3);
    loop.change({ template: aTemplate("bad") });
    loop.settle(({ spec }) => spec?.runtime.sandbox?.containers[0]?.image !== "bad");
    expect(loop.requests).toEqual(["delete 2", "create 2"]);
    expect(loop.instances.filter(isReady).map(ordinal)).toEqual([0, 1]);
    loop.change({ template: aTemplate("app:2") });
    loop.settle();
    expect(loop.requests.slice(2)).toEqual([
      "delete 2",
      "create 2",
      "delete 1",
      "create 1",
      "delete 0",
      "create 0",
    ]);
    expect(loop.readyCount).toBe(3);
  });

  it("H5 scales 3 to 1 while ordinal 0 is not Ready", () => {
    const loop = running(3);
    loop.report(0, false);
    loop.change({ min: 1 });
    loop.settle(() => false);
    expect(loop.requests).toEqual(["delete 2", "delete 1"]);
  });

  it("writes at most two statuses for each Instance that comes or goes, and none at rest", () => {
    const loop = new ControlLoop({ min: 5 });
    loop.settle();
    expect(loop.statusWrites).toBeLessThanOrEqual(2 * 5);
    loop.statusWrites = 0;
    loop.change({ template: aTemplate("app:2") });
    loop.settle();
    expect(loop.statusWrites).toBeLessThanOrEqual(2 * (5 + 5));
    expect(loop.pass()).toEqual(SETTLED);
  });
});
