import { toTime } from "@berth/runtime";
import { describe, expect, it } from "vitest";
import { labels } from "../api/keys.ts";
import { decideInstance } from "./decide.ts";
import { Cell } from "./testing/cell.ts";
import {
  aClaim,
  anInstance,
  aPod,
  aView,
  BORN,
  claimed,
  condition,
  readyPod,
  saying,
} from "./testing/views.ts";
import type { QuotaSeen } from "./view.ts";

const off: QuotaSeen = { is: "off" };
const down: QuotaSeen = { is: "failed", reason: "QuotaBackendUnavailable", message: "503" };
const GRANTED = "QuotaGranted=True/QuotaAvailable: m";
const runs = [
  GRANTED,
  "Programmed=True/Programmed",
  "Available=True/Available",
  "Ready=True/Available: Instance is ready",
];

const conditions = (texts: readonly string[], generation = 1) =>
  texts.map((text) => condition(text, { observedGeneration: generation }));

describe("the requests from creation to Available, after POST of the Instance", () => {
  it("are 6, if the grant takes longer than 100 ms", () => {
    const cell = new Cell(anInstance());
    expect(cell.settle()).toEqual(["create claim"]);
    cell.nowMs += 100;
    expect(cell.settle()).toEqual(["status"]);
    expect(cell.ready()).toBe("False/SchedulingGatesPresent");
    cell.answer("True/QuotaAvailable");
    expect(cell.settle()).toEqual(["status", "gates", "create pod"]);
    cell.pod = readyPod;
    cell.nowMs += 900;
    expect(cell.settle()).toEqual(["status"]);
    expect(cell.ready()).toBe("True/Available");
    expect(cell.instance?.status).toMatchObject({
      controller: { observedTemplateHash: "v1-a" },
      networkInterfaces: [{ assignments: { networkIP: "10.0.0.7" } }],
    });
    expect(cell.news.map(({ type, reason }) => `${type} ${reason}`)).toEqual([
      "Normal QuotaGranted",
      "Normal Ready",
    ]);
  });

  it("are 5, if the grant comes within 100 ms", () => {
    const cell = new Cell(anInstance());
    cell.settle();
    cell.nowMs += 90;
    cell.answer("True/QuotaAvailable");
    cell.settle();
    cell.pod = readyPod;
    cell.settle();
    expect(cell.requests).toEqual(["create claim", "status", "gates", "create pod", "status"]);
  });

  it("are 4 without quota", () => {
    const cell = new Cell(anInstance());
    cell.quota = off;
    cell.settle();
    cell.pod = readyPod;
    cell.settle();
    expect(cell.requests).toEqual(["status", "gates", "create pod", "status"]);
  });

  it("are one more, if the pod is not Ready within 1 s", () => {
    const cell = new Cell(anInstance());
    cell.quota = off;
    cell.settle();
    cell.nowMs += 1000;
    cell.pod = aPod();
    expect(cell.settle()).toEqual([]);
    expect(decideInstance(cell.view()).recheckAfterMs).toBe(1000);
    cell.nowMs += 1000;
    expect(cell.settle()).toEqual(["status"]);
    expect(cell.ready()).toBe("False/Provisioning");
  });

  it("are one more for a gate Network that opens later", () => {
    const cell = new Cell(anInstance({ gates: ["Network", "Quota"] }));
    cell.quota = off;
    cell.network = { is: "on", isReady: false };
    expect(cell.settle()).toEqual(["status", "gates"]);
    expect(cell.ready()).toBe("False/SchedulingGatesPresent");
    cell.network = { is: "on", isReady: true };
    expect(cell.settle()).toEqual(["gates", "create pod"]);
    cell.pod = readyPod;
    expect(cell.settle()).toEqual(["status"]);
  });

  it("are no more when another gate has opened while the claim is pending", () => {
    const cell = new Cell(anInstance());
    cell.settle();
    cell.nowMs += 100;
    expect(cell.settle()).toEqual(["status"]);
    cell.instance = { ...cell.instance, metadata: { ...cell.instance?.metadata, generation: 2 } };
    expect(cell.settle()).toEqual([]);
    cell.answer("True/QuotaAvailable");
    expect(cell.settle()).toEqual(["status", "gates", "create pod"]);
  });

  it("open both gates with one", () => {
    const cell = new Cell(anInstance({ gates: ["Network", "Quota"] }));
    cell.quota = off;
    expect(cell.settle()).toEqual(["status", "gates", "create pod"]);
  });
});

describe("the gate Quota", () => {
  const waits = "Ready=False/PendingProgramming: Instance has not been programmed";
  const grant = claimed(aClaim({ granted: "True/QuotaAvailable: m" }));
  const gated = (generation: number, quota = grant) => {
    const instance = anInstance({ conditions: conditions([GRANTED, waits], generation) });
    return decideInstance(aView({ instance, quota }));
  };

  it("goes with a grant of this generation that is stored", () => {
    expect(gated(1)).toEqual({ gates: [] });
  });

  it("R20 goes once the grant is stored, in the pass that sees it stored", () => {
    const cell = new Cell(anInstance());
    cell.settle();
    cell.answer("True/QuotaAvailable");
    cell.step();
    expect(cell.requests.at(-1)).toBe("status");
    cell.step();
    expect(cell.requests.at(-1)).toBe("gates");
  });

  it("R22 stays while the grant is of another generation, and the grant is written again", () => {
    const { gates, status } = gated(0);
    expect(gates ?? gated(2).gates).toBeUndefined();
    expect(status?.conditions?.find(({ type }) => type === "QuotaGranted")).toMatchObject({
      observedGeneration: 1,
    });
  });

  it.each<[string, QuotaSeen]>([
    ["H13 ends", claimed(aClaim({ granted: "True/QuotaAvailable", terminating: true }))],
    ["is gone", { is: "read", project: "web", claim: { is: "none" } }],
    ["was not read", { is: "read", project: "web", claim: { is: "unknown", because: "" } }],
    ["is denied by now", claimed(aClaim({ granted: "False/QuotaExceeded" }))],
  ])("stays when the claim of the stored grant %s", (_, quota) => {
    expect(gated(1, quota).gates).toBeUndefined();
  });

  it("8.8 stays while the service is down, and so does gate Network while the network is not ready", () => {
    const cell = new Cell(anInstance({ gates: ["Network", "Quota"] }));
    cell.quota = down;
    cell.network = { is: "on", isReady: false };
    cell.settle();
    expect(cell.instance?.spec?.controller?.schedulingGates).toHaveLength(2);
    expect(cell.ready()).toBe("False/PendingQuota");
  });

  it("leaves the other gates, in their order", () => {
    const instance = anInstance({
      gates: ["A", "Quota", "ReferencedData"],
      conditions: conditions([GRANTED]),
    });
    const cell = new Cell(instance);
    cell.quota = off;
    cell.settle();
    expect(cell.instance?.spec?.controller?.schedulingGates).toEqual([
      { name: "A" },
      { name: "ReferencedData" },
    ]);
  });
});

it("A17 a NetworkBinding that failed is the reason, while a gate is there", () => {
  const failed = condition("Ready=False/NetworkFailedToCreate: no addresses");
  const cell = new Cell(anInstance({ gates: ["Network", "Quota"] }));
  cell.network = { is: "on", isReady: false, failed };
  cell.settle();
  expect(cell.instance?.status?.conditions?.map(saying)).toContain(
    "Ready=False/NetworkFailedToCreate: no addresses",
  );
  expect(cell.news).toEqual([{ type: "Warning", reason: "NetworkFailedToCreate", message: "no addresses" }]);
});

it("A13 H12 a denial is shown everywhere, once, and a later grant leaves nothing of it", () => {
  const cell = new Cell(anInstance());
  cell.settle();
  cell.answer("False/QuotaExceeded: no room");
  expect(cell.settle()).toEqual(["status"]);
  expect(cell.instance?.status?.conditions?.map(saying)).toEqual(
    [
      "Available=False/PendingQuota",
      "Programmed=False/PendingQuota",
      "QuotaGranted=False/QuotaExceeded",
      "Ready=False/PendingQuota",
    ].map((text) => `${text}: no room`),
  );
  cell.answer("True/QuotaAvailable");
  cell.settle();
  expect(cell.instance?.status?.conditions?.filter(({ reason }) => reason === "PendingQuota")).toEqual([]);
  expect(cell.news.map(({ reason }) => reason)).toEqual(["QuotaExceeded", "QuotaGranted"]);
});

it("R21 a failure of the quota service is stored, and the next look is planned", () => {
  const decision = decideInstance(aView({ quota: down }));
  expect(decision.status?.conditions?.map(saying)).toContain(
    "QuotaGranted=False/QuotaBackendUnavailable: 503",
  );
  expect(decision.recheckAfterMs).toBeLessThanOrEqual(1000);
  expect(decision.waitsFor).toBe("The quota service");
});

it("R17 an Instance without spec, status and controller is decided about", () => {
  expect(decideInstance(aView({ instance: {}, quota: off })).status?.conditions?.map(saying)).toEqual([
    "Ready=False/PendingProgramming: Instance has not been programmed",
  ]);
});

it("R18 an Instance without the finalizer of claims gets it, and its claim right after that", () => {
  const cell = new Cell(anInstance({ finalizers: ["other.dev/x"] }));
  expect(cell.settle()).toEqual(["finalizers", "create claim"]);
  expect(cell.instance?.metadata?.finalizers).toEqual([
    "other.dev/x",
    "quota.compute.datumapis.com/claim-cleanup",
  ]);
});

it("R18 an Instance without quota gets no finalizer of claims", () => {
  const cell = new Cell(anInstance({ finalizers: [] }));
  cell.quota = off;
  cell.settle();
  expect([cell.requests, cell.instance?.metadata?.finalizers]).toEqual([
    ["status", "gates", "create pod"],
    [],
  ]);
});

it("adopts the claim of the original, with the finalizer that frees it, in one patch", () => {
  const { spec, ...rest } = anInstance({ gates: [], finalizers: [], conditions: conditions(runs) });
  const instance = { ...rest, ...(spec && { spec: { ...spec, controller: { templateHash: "bcdf4567" } } }) };
  const quota = claimed(aClaim({ uid: undefined, granted: "True/QuotaAvailable: m" }));
  expect(decideInstance(aView({ instance, quota }))).toMatchObject({
    adopts: "claim-1",
    finalizers: ["quota.compute.datumapis.com/claim-cleanup"],
  });
});

describe("a status", () => {
  const network = { assignments: { networkIP: "10.0.0.7", externalIP: "192.0.2.1" } };
  const others = { assignments: { networkIP: "10.1.0.7" } };
  const controller = { observedTemplateHash: "v1-a", other: true };
  const stored = { controller, networkInterfaces: [network, others] };
  const sinceMs = { lastTransitionTime: toTime(BORN) };
  const ready = runs.map((text) => condition(text, { observedGeneration: 1, ...sinceMs }));
  const decideOn = (status: object, parts: object = {}) =>
    decideInstance(
      aView({
        instance: { ...anInstance({ gates: [] }), status: { conditions: ready, ...stored, ...status } },
        quota: claimed(aClaim({ granted: "True/QuotaAvailable: m" })),
        provider: { is: "pods", pod: { is: "there", value: readyPod } },
        ...parts,
      }),
    );

  /** As Berth writes it. */
  const { status: own = {} } = decideOn({});

  it("that says the same is not written, and one in other words is, for this generation", () => {
    expect(own.conditions).toHaveLength(4);
    expect(decideOn(own).status).toBeUndefined();
    const reworded = [...(own.conditions ?? []).slice(1), ...ready.slice(2, 3)];
    expect(decideOn({ conditions: reworded }).status).toEqual(own);
    const fresh = decideOn({ conditions: [] }).status?.conditions;
    expect(fresh?.map((it) => it.observedGeneration)).toEqual([1, 1, 1, 1]);
  });

  it.each([
    [
      "the address",
      { networkInterfaces: [{ assignments: { ...network.assignments, networkIP: "" } }, others] },
    ],
    ["the hash of the template", { controller: { ...controller, observedTemplateHash: "v1-b" } }],
  ])("is written at once when %s alone changes, and what others wrote to it stays", (_, change) => {
    expect(decideOn({ ...own, ...change }).status).toEqual(own);
  });

  it("says a denial at once, also while the pod starts", () => {
    const starts = { provider: { is: "pods", pod: { is: "there", value: aPod() } } };
    const none = { conditions: ready.slice(0, 1) };
    expect(decideOn(none, starts).status).toBeUndefined();
    const quota = claimed(aClaim({ granted: "False/QuotaExceeded: m" }));
    expect(decideOn(none, { ...starts, quota }).status).toBeDefined();
  });

  it("is not held for a pod of another clock", () => {
    const provider = { is: "pods", pod: { is: "there", value: aPod([], BORN + 60_000) } };
    expect(decideOn({ conditions: ready.slice(0, 1) }, { provider }).status).toBeDefined();
  });

  it("is news for each new reason of Ready, and for nothing else", () => {
    const news = (before: string, now: string) => {
      const texts = [...runs.slice(0, 2), `Available=${now}`, `Ready=${before}`];
      const instance = anInstance({ gates: [], conditions: conditions(texts) });
      return decideInstance(aView({ instance, quota: off })).news?.map((it) => it.reason);
    };
    expect(news("False/ImageUnavailable: m", "False/ImageUnavailable: n")).toBeUndefined();
    expect(news("Unknown/ImageUnavailable: m", "False/ImageUnavailable: m")).toBeUndefined();
    expect(news("False/ImageUnavailable: m", "False/InstanceCrashing: m")).toEqual(["InstanceCrashing"]);
    expect(news("False/ImageUnavailable: m", "False/Stopped: m")).toBeUndefined();
  });

  it("names the part that the next look is for", () => {
    const restarts = [
      { name: "app", image: "", restartCount: 2, state: { running: { startedAt: toTime(BORN) } } },
    ];
    const value = { ...readyPod, status: { ...readyPod.status, containerStatuses: restarts } };
    const provider = { is: "pods", pod: { is: "there", value } };
    const { waitsFor, recheckAfterMs } = decideOn({}, { provider });
    expect([waitsFor, recheckAfterMs]).toEqual(["The provider", 1000]);
  });
});

describe("H23 a Ready Instance while the quota service is down", () => {
  const running = (texts = runs) => {
    const cell = new Cell(anInstance({ gates: [], conditions: conditions(texts) }), "external");
    cell.quota = down;
    return cell;
  };

  it("is left alone, also when its provider writes something else", () => {
    const cell = running();
    expect(cell.settle()).toEqual([]);
    cell.instance = {
      ...cell.instance,
      status: { ...cell.instance?.status, controller: { observedTemplateHash: "v1-a" } },
    };
    expect(cell.settle()).toEqual([]);
    expect(decideInstance(cell.view()).recheckAfterMs).toBeGreaterThan(26 * 60_000);
  });

  it("is not written again for its generation, which counts the gates that went", () => {
    const cell = running();
    cell.quota = claimed(aClaim({ granted: "True/QuotaAvailable: m" }));
    cell.instance = { ...cell.instance, metadata: { ...cell.instance?.metadata, generation: 3 } };
    expect(cell.settle()).toEqual([]);
  });

  it("follows its provider only", () => {
    const cell = running(runs.with(2, "Available=False/InstanceCrashing: exit 1"));
    expect(cell.settle()).toEqual(["status"]);
    expect(cell.instance?.status?.conditions?.map(saying)).toContain("Ready=False/InstanceCrashing: exit 1");
    expect(cell.instance?.status?.conditions?.map(saying)).toContain(GRANTED);
    expect(cell.news).toEqual([{ type: "Warning", reason: "InstanceCrashing", message: "exit 1" }]);
  });
});

it("a provider that flips ten times a second causes two writes a second at most", () => {
  const cell = new Cell(anInstance({ gates: [], conditions: conditions(runs) }), "external");
  cell.quota = off;
  for (let flip = 0; flip < 100; flip++) {
    const text = flip % 2 === 0 ? "Available=False/Stopped" : "Available=True/Available";
    const kept = cell.instance?.status?.conditions?.filter(({ type }) => type !== "Available") ?? [];
    cell.instance = { ...cell.instance, status: { conditions: [...kept, condition(text)] } };
    cell.nowMs += 100;
    cell.settle();
  }
  expect(cell.requests.length).toBeGreaterThan(10);
  expect(cell.requests.length).toBeLessThanOrEqual(21);
});

it("an Instance that is down is shown so at once when the clock that wrote Ready is ahead", () => {
  const ready = condition("Ready=True/Available", { lastTransitionTime: toTime(BORN + 60_000) });
  const texts = conditions([...runs.slice(0, 2), "Available=False/Stopped"]);
  const cell = new Cell(anInstance({ gates: [], conditions: [...texts, ready] }), "external");
  cell.quota = off;
  cell.settle();
  expect(cell.ready()).toBe("False/Stopped");
});

it("item 4: Available is believed without a pod", () => {
  const cell = new Cell(anInstance({ gates: [], conditions: conditions(runs.slice(0, 3)) }), "external");
  cell.settle();
  expect(cell.ready()).toBe("True/Available");
});

it("T2 R7 a leftover Running goes with the next write, and causes none", () => {
  const cell = new Cell(
    anInstance({ gates: [], conditions: conditions([...runs, "Running=True/Running"]) }),
    "external",
  );
  cell.quota = off;
  expect(cell.settle()).toEqual([]);
  const texts = [...runs.with(2, "Available=False/Stopped: m"), "Running=True/Running"];
  cell.instance = anInstance({ gates: [], conditions: conditions(texts) });
  expect(cell.settle()).toEqual(["status"]);
  expect(cell.instance.status?.conditions?.map(({ type }) => type)).not.toContain("Running");
});

it("a lost pod shows at once, and its replacement is reported after its start", () => {
  const cell = new Cell(anInstance({ gates: [], conditions: conditions(runs) }));
  cell.quota = off;
  cell.pod = readyPod;
  cell.settle();
  cell.pod = undefined;
  cell.nowMs += 60_000;
  expect(cell.settle()).toEqual(["status", "create pod"]);
  expect(cell.ready()).toBe("False/Provisioning");
});

describe("an Instance that is being deleted", () => {
  const deleted = (more: Parameters<typeof anInstance>[0] = {}) => {
    const cell = new Cell(anInstance({ gates: [], conditions: conditions(runs), deleted: true, ...more }));
    cell.pod = readyPod;
    cell.claims.set("instance-w-us-dfw-0", aClaim({ granted: "True/QuotaAvailable" }));
    return cell;
  };

  it("A16 item 18 gives up its pod, then its claim, then both finalizers: 3 requests", () => {
    const cell = deleted();
    expect(cell.settle()).toEqual(["delete pod"]);
    expect(decideInstance(cell.view())).toEqual({ waitsFor: "The end of the pod" });
    cell.pod = undefined;
    expect(cell.settle()).toEqual(["delete claim", "finalizers"]);
    expect(cell.instance).toBeUndefined();
  });

  it("takes 2 requests without quota", () => {
    const cell = deleted();
    cell.quota = off;
    cell.settle();
    cell.pod = undefined;
    cell.settle();
    expect(cell.requests).toEqual(["delete pod", "finalizers"]);
  });

  it("waits for the finalizers of others first", () => {
    const cell = deleted({ finalizers: ["compute.datumapis.com/instance-controller", "other.dev/x"] });
    expect(cell.settle()).toEqual([]);
    expect(decideInstance(cell.view()).waitsFor).toBe("Finalizers other.dev/x");
  });

  it("waits for its claim to be gone", () => {
    const cell = deleted();
    cell.pod = undefined;
    cell.claims.set("instance-w-us-dfw-0", aClaim({ terminating: true }));
    expect(cell.settle()).toEqual([]);
    const { recheckAfterMs, waitsFor } = decideInstance(cell.view());
    expect(recheckAfterMs).toBeLessThanOrEqual(1000);
    expect(waitsFor).toBe("The end of the claim");
  });

  it.each<[string, QuotaSeen, string]>([
    ["cannot be asked", down, "503"],
    ["was not read", { is: "read", project: "", claim: { is: "unknown", because: "not read" } }, "not read"],
  ])("waits while its claim %s", (_, quota, why) => {
    const cell = deleted();
    cell.pod = undefined;
    cell.quota = quota;
    expect(cell.settle()).toEqual([]);
    const { recheckAfterMs, waitsFor } = decideInstance(cell.view());
    expect(recheckAfterMs).toBeLessThanOrEqual(1000);
    expect(waitsFor).toBe(why);
  });

  it("is let go with a Warning when its project is not known", () => {
    const cell = deleted();
    cell.pod = undefined;
    cell.quota = { is: "unresolvable", message: "namespace ns-u names no project" };
    expect(cell.settle()).toEqual(["finalizers"]);
    const message = "namespace ns-u names no project. A claim of this Instance may be left over";
    expect(cell.news).toEqual([{ type: "Warning", reason: "QuotaClaimOrphaned", message }]);
  });

  it("is let go with a Warning when quota was switched off after its grant", () => {
    const cell = deleted({ conditions: conditions([GRANTED]) });
    cell.pod = undefined;
    cell.quota = off;
    expect(cell.settle()).toEqual(["finalizers"]);
    const message = "no quota service is configured. A claim of this Instance may be left over";
    expect(cell.news).toEqual([{ type: "Warning", reason: "QuotaClaimOrphaned", message }]);
    const never = deleted({ conditions: conditions(["QuotaGranted=True/QuotaDisabled"]) });
    Object.assign(never, { pod: undefined, quota: off });
    expect([never.settle(), never.news]).toEqual([["finalizers"], []]);
  });

  it("leaves the claim and the pod of another Instance", () => {
    const cell = deleted();
    cell.pod = { ...readyPod, metadata: { ...readyPod.metadata, ownerReferences: [] } };
    cell.claims.set("instance-w-us-dfw-0", aClaim({ uid: "uid-0" }));
    expect(cell.settle()).toEqual(["finalizers"]);
    expect(cell.claims.get("instance-w-us-dfw-0")?.metadata?.labels?.[labels.instanceUid]).toBe("uid-0");
  });

  it("has nothing of ours left to do without our finalizers", () => {
    expect(deleted({ finalizers: ["other.dev/x"] }).settle()).toEqual([]);
  });
});

it("a claim that stays denied is made again every minute, with no new report", () => {
  const cell = new Cell(anInstance());
  cell.settle();
  cell.answer("False/QuotaExceeded: no room");
  cell.settle();
  cell.requests.length = 0;
  cell.nowMs = BORN + 400_000;
  cell.settle();
  expect(cell.requests).toEqual(["delete claim", "create claim"]);
  cell.answer("False/QuotaExceeded: no room");
  expect(cell.settle()).toEqual([]);
  expect(cell.news).toHaveLength(1);
  cell.answer("True/QuotaAvailable");
  expect(cell.settle()).toEqual(["status", "gates", "create pod"]);
});
