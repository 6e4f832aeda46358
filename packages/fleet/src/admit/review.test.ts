import type { ReviewIo } from "@berth/host";
import type { AdmissionRequest } from "@berth/runtime";
import { describe, expect, it } from "vitest";
import { fleetKind } from "../fleet/document.ts";
import { type FleetInForce, fleetAdmission } from "./review.ts";
import { changed, machineWorkload, sandboxWorkload } from "./testing/workloads.ts";

const spec = fleetKind.spec.parse({ mode: "single" });
const inForce: FleetInForce = {
  policy: {},
  spec,
  self: "berth",
  networking: () => true,
  cities: () => ["DFW"],
};
const env = {
  product: { name: "berth", domain: "berth.dev" },
  installation: "berth",
  spec: { failurePolicy: "Ignore", podFailurePolicy: "Ignore" },
} as const;
const [workloads, managed] = fleetAdmission.reviews;

const request = (object: object): AdmissionRequest => ({
  uid: "u",
  kind: { group: "compute.datumapis.com", version: "v1alpha", kind: "Workload" },
  resource: { group: "compute.datumapis.com", version: "v1alpha", resource: "workloads" },
  operation: "CREATE",
  namespace: "default",
  object,
  userInfo: { username: "alice", uid: "u1", groups: ["dev"], extra: { a: ["b"] } },
});

/** Answers `denied` for the network `red`, and notes what is asked. */
function accessOf(asked: unknown[] = []): ReviewIo {
  return {
    accessReview: (question) => {
      asked.push(question);
      const isDenied = question.resourceAttributes?.name === "red";
      return Promise.resolve(isDenied ? { kind: "denied" } : { kind: "allowed" });
    },
    namespaceLabels: () => Promise.resolve(undefined),
  };
}

const networks = (...names: readonly string[]): object =>
  changed(sandboxWorkload, { "S/networkInterfaces": names.map((name) => ({ network: { name } })) });

describe("the review of a Workload", () => {
  it("A7 asks once about each network, and denies with a cause for each interface", async () => {
    const asked: unknown[] = [];
    const answer = await workloads?.answer(inForce, request(networks("red", "blue", "red")), accessOf(asked));
    expect(asked).toMatchObject([
      { user: "alice", uid: "u1", groups: ["dev"], extra: { a: ["b"] }, resourceAttributes: { name: "red" } },
      { resourceAttributes: { name: "blue" } },
    ]);
    const cause = (at: number): object => ({
      reason: "FieldValueForbidden",
      field: `spec.template.spec.networkInterfaces[${at}].network`,
      message: "Forbidden: you may not use network red",
    });
    expect(answer).toEqual({ allowed: false, causes: [cause(0), cause(2)] });
  });

  it("rule 49 asks nothing about an object that is invalid already", async () => {
    const asked: unknown[] = [];
    const broken = changed(networks("red", "blue"), { "P/cityCodes": ["XXX"] });
    const answer = await workloads?.answer(inForce, request(broken), accessOf(asked));
    expect(answer?.causes?.map(({ field }) => field)).toEqual(["spec.placements[0].cityCodes[0]"]);
    expect(asked).toEqual([]);
  });

  it("asks one question at a time, and tells the user to ask again when too many are open", async () => {
    const asked: unknown[] = [];
    let open = 0;
    const io: ReviewIo = {
      ...accessOf(),
      async accessReview(question) {
        asked.push(question.resourceAttributes?.name);
        open += 1;
        expect(open).toBe(1);
        await Promise.resolve();
        open -= 1;
        return { kind: asked.length === 3 ? "busy" : "allowed" };
      },
    };
    const answer = await workloads?.answer(inForce, request(networks("a", "b", "c", "d")), io);
    expect(asked).toEqual(["a", "b", "c"]);
    expect(answer).toEqual({
      allowed: false,
      message: expect.stringMatching(/try again$/),
      retryAfterSeconds: 1,
    });
  });

  it("asks about no network while networking is off", async () => {
    const off = { ...inForce, networking: () => false };
    const asked: unknown[] = [];
    expect(await workloads?.answer(off, request(sandboxWorkload), accessOf(asked))).toEqual({
      allowed: true,
    });
    expect(asked).toEqual([]);
  });

  it("takes any city where none are listed, and no text that is no city", async () => {
    const unlisted = { ...inForce, cities: () => undefined };
    const anywhere = changed(sandboxWorkload, { "P/cityCodes": ["TIMBUKTU", "not a city"] });
    const { causes = [] } = (await workloads?.answer(unlisted, request(anywhere), accessOf())) ?? {};
    expect(causes.map(({ field }) => field)).toEqual(["spec.placements[0].cityCodes[1]"]);
    expect(await workloads?.answer(inForce, request(anywhere), accessOf())).toMatchObject({ allowed: false });
  });

  it.each([
    [["DFW"], undefined],
    [
      ["XXX", "DFW", "YYY"],
      ['CityWithoutCell: no cell serves "XXX", "YYY" yet: nothing runs there until one does'],
    ],
  ])("takes a city without a cell, with a warning: %j", async (cityCodes, warnings) => {
    const hub = { ...inForce, cities: () => undefined, served: () => new Set(["DFW"]) };
    const object = changed(sandboxWorkload, { "P/cityCodes": cityCodes });
    expect(await workloads?.answer(hub, request(object), accessOf())).toEqual({ allowed: true, warnings });
    const metadata = { annotations: { "berth.dev/silence": "Other, CityWithoutCell" } };
    const silent = Object.assign({}, object, { metadata: { namespace: "default", name: "w", ...metadata } });
    expect(await workloads?.answer(hub, request(silent), accessOf())).toEqual({ allowed: true });
    const unread = { ...hub, served: () => undefined };
    expect(await workloads?.answer(unread, request(object), accessOf())).toEqual({ allowed: true });
  });

  it("says nothing more when it shows all faults", async () => {
    const object = changed(sandboxWorkload, { "P/name": "" });
    const answer = await workloads?.answer(inForce, request(object), accessOf());
    expect(Object.keys(answer ?? {})).toEqual(["allowed", "causes"]);
  });

  it("warns when it does not show all faults", async () => {
    const annotations = { "compute.datumapis.com/ssh-keys": "a\n".repeat(1000) };
    const object = changed(machineWorkload, { "T/metadata/annotations": annotations });
    const answer = await workloads?.answer(inForce, request(object), accessOf());
    expect(answer?.causes).toHaveLength(200);
    expect(answer?.warnings).toEqual(["only the first 200 faults of the Workload are shown"]);
  });
});

describe("8.7 the API server", () => {
  const asks = (given: Partial<FleetInForce>): readonly boolean[] =>
    fleetAdmission.reviews.map((review) => review.when({ ...inForce, ...given }, env) !== undefined);

  it("8.7 asks in mode single", () => {
    expect(asks({})).toEqual([true, true]);
  });

  it("8.7 asks in mode management where Workloads are in its own cluster", () => {
    const hub = { ...spec, mode: "management", hub: "self" } as const;
    expect(asks({ spec: { ...hub, projects: "self" } })).toEqual([true, true]);
    expect(asks({ spec: { ...hub, projects: { milo: { kubeconfig: "m" } } } })).toEqual([false, false]);
  });

  it("8.7 asks about nothing in a cell", () => {
    expect(asks({ spec: { ...spec, mode: "cell", cell: "dfw-01" } })).toEqual([false, false]);
  });

  it("waits 5 s for the answer, and refuses without one", () => {
    for (const review of fleetAdmission.reviews) {
      expect(review.when(inForce, env)?.timeoutSeconds).toBe(5);
      expect(review.failurePolicy?.(env)).toBe("Fail");
    }
  });

  it("asks about a Workload when its spec changes, and about what Berth manages when others write it", () => {
    const conditions = (at: number) => fleetAdmission.reviews[at]?.when(inForce, env)?.matchConditions ?? [];
    expect(conditions(0)).toEqual([
      {
        name: "spec-changed",
        expression: 'request.operation != "UPDATE" || object.?spec != oldObject.?spec',
      },
    ]);
    expect(conditions(1)[0]?.expression).toContain('"berth"');
  });

  it("does not ask about what Berth manages before Berth knows its own name", () => {
    expect(asks({ self: undefined })).toEqual([true, false]);
  });
});

it("3.3 a write of a user is denied without causes, so it is a 403", async () => {
  const instance = { ...request({}), operation: "DELETE" } as const;
  const answer = await managed?.answer(inForce, instance, accessOf());
  expect(answer).toEqual({ allowed: false, message: expect.stringMatching(/^managed by compute/) });
});
