import { findCondition, toTime } from "@berth/runtime";
import * as fc from "fast-check";
import { expect, it } from "vitest";
import { seededRun } from "../../../runtime/src/testing/property.ts";
import type { ResourceClaim } from "../api/quota.ts";
import type { Instance } from "../api/workload.ts";
import { RULES } from "../fleet/testing/rules.ts";
import { relationOf } from "./claim.ts";
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
  noClaim,
  readyPod,
} from "./testing/views.ts";
import type { InstanceDecision, InstanceView, NetworkSeen, QuotaSeen } from "./view.ts";

const run = seededRun(1000, process.env);

const answers = [
  "True/QuotaAvailable: m",
  "False/QuotaExceeded: m",
  "False/ValidationFailed: m",
  "False/PendingEvaluation",
  "Unknown/Odd",
];

const troubles: readonly (QuotaSeen | undefined)[] = [
  undefined,
  { is: "off" },
  { is: "failed", reason: "QuotaBackendUnavailable", message: "503" },
  { is: "failed", reason: "QuotaMisconfigured", message: "403" },
  { is: "unresolvable", message: "no label" },
  { is: "read", project: "web", claim: { is: "unknown", because: "not read" } },
];

const networks: readonly NetworkSeen[] = [
  { is: "off" },
  { is: "on", isReady: false },
  { is: "on", isReady: true },
  { is: "on", isReady: false, failed: condition("Ready=False/NetworkFailedToCreate: m") },
];

const failedPod = { ...readyPod, status: { phase: "Failed", reason: "Evicted" } };
const pods = [undefined, aPod(), readyPod, failedPod, aPod([], BORN + 60_000)];

const written = fc
  .tuple(
    fc.constantFrom("Programmed", "Available", "Running", "Ready", "QuotaGranted", "ReferencedDataReady"),
    fc.constantFrom("True", "False", "Unknown"),
    fc.constantFrom("Pending", "PendingQuota", "Provisioning", "ImageUnavailable", "QuotaAvailable", "Odd"),
  )
  .map(([type, status, reason]) => condition(`${type}=${status}/${reason}`));

type Happening = (cell: Cell) => void;

const put = (cell: Cell, claim: ResourceClaim): void => {
  cell.claims.set(claim.metadata?.name ?? "", claim);
};

const happenings: fc.Arbitrary<Happening> = fc.oneof(
  fc.constantFrom(...answers).map(
    (granted): Happening =>
      (cell) =>
        cell.answer(granted),
  ),
  fc.constantFrom(...troubles).map(
    (quota): Happening =>
      (cell) =>
        (cell.quota = quota),
  ),
  fc.constantFrom(...networks).map(
    (network): Happening =>
      (cell) =>
        (cell.network = network),
  ),
  fc.constantFrom(...pods).map(
    (pod): Happening =>
      (cell) =>
        (cell.pod = pod),
  ),
  fc.constantFrom(50, 1000, 30_000, 300_000).map(
    (ms): Happening =>
      (cell) =>
        (cell.nowMs += ms),
  ),
  fc.constant<Happening>((cell) => cell.claims.clear()),
  fc.constant<Happening>((cell) =>
    put(cell, aClaim({ uid: "uid-0", granted: answers[0] ?? "" }, cell.nowMs)),
  ),
  fc.constant<Happening>((cell) => cell.claim && put(cell, aClaim({ terminating: true }, cell.nowMs))),
  // A provider, or an API server that answers with an older status.
  fc.array(written, { maxLength: 3 }).map(
    (conditions): Happening =>
      (cell) => {
        cell.instance = cell.instance && {
          ...cell.instance,
          status: { ...cell.instance.status, conditions },
        };
      },
  ),
  fc.constant<Happening>((cell) => cell.delete()),
);

const names = ({ spec }: Instance): readonly string[] =>
  spec?.controller?.schedulingGates?.map(({ name }) => name) ?? [];

/** The rules that a decision breaks. */
function broken(
  decision: InstanceDecision,
  { instance, quota, network, provider }: InstanceView,
): readonly string[] {
  const { status, gates, finalizers, claim, pod } = decision;
  const left = gates?.map(({ name }) => name) ?? names(instance);
  const opened = names(instance).filter((name) => !left.includes(name));
  const stored = findCondition(instance.status?.conditions, "QuotaGranted");
  const isGranted =
    stored?.status === "True" && stored.observedGeneration === (instance.metadata?.generation ?? 0);
  const seen = quota.is === "read" && quota.claim.is === "there" ? quota.claim.value : undefined;
  const isOurs =
    seen !== undefined && relationOf(seen, { instance, source: "dfw-01", rules: RULES }, "web") !== "foreign";
  const isDeleting = instance.metadata?.deletionTimestamp !== undefined;
  const runs =
    provider.is === "pods" &&
    provider.pod.is === "there" &&
    provider.pod.value.metadata?.ownerReferences?.[0]?.uid === instance.metadata?.uid;
  const rules: Readonly<Record<string, boolean>> = {
    "a patch of gates opens one": gates === undefined || opened.length > 0,
    "a status is stored before gates go": gates === undefined || status === undefined,
    "gate Quota needs a stored grant": !opened.includes("Quota") || isGranted,
    "gate Network needs a network": !opened.includes("Network") || network.is === "off" || network.isReady,
    "gate ReferencedData is of others": !opened.includes("ReferencedData"),
    "a claim is made where none is":
      claim?.do !== "create" || (quota.is === "read" && quota.claim.is === "none"),
    "a claim of another stays": claim?.do !== "delete" || isOurs,
    "a pod starts without gates only": pod?.do !== "create" || (!isDeleting && names(instance).length === 0),
    "a deleted Instance has no more status": !isDeleting || status === undefined,
    "quota is freed after the pod is gone": !isDeleting || !runs || claim === undefined,
    "it is released without pod and claim": !isDeleting || finalizers === undefined || (!runs && !isOurs),
    "it is not released while quota cannot be asked":
      !isDeleting || finalizers === undefined || quota.is !== "failed",
  };
  return Object.keys(rules).filter((rule) => rules[rule] !== true);
}

it(
  `gates, claims and pods are safe in any history, and each decision settles (${run.name})`,
  run.options,
  () => {
    const cells = fc.record({
      gates: fc.subarray(["Network", "Quota", "ReferencedData"]),
      finalizers: fc.constantFrom(undefined, ["other.dev/x"], []),
    });
    const property = fc.property(
      cells,
      fc.constantFrom("pods" as const, "external" as const),
      fc.array(happenings, { maxLength: 30 }),
      ({ gates, finalizers }, provider, history) => {
        const cell = new Cell(anInstance({ gates, ...(finalizers && { finalizers }) }), provider);
        const faults: string[] = [];
        for (const happen of history) {
          happen(cell);
          cell.settle((decision, view) => void faults.push(...broken(decision, view)));
          expect(faults).toEqual([]);
          expect(cell.claims.size).toBeLessThanOrEqual(1);
          if (cell.instance === undefined) return;
        }
      },
    );
    fc.assert(property, run.parameters);
  },
);

it(
  `H23 what is known of quota never changes Ready of an Instance without gates (${run.name})`,
  run.options,
  () => {
    const readyOf = (instance: Instance, quota: QuotaSeen) => {
      const decision = decideInstance(aView({ instance, quota }));
      const { type, status, reason, message } =
        findCondition((decision.status ?? instance.status)?.conditions, "Ready") ?? {};
      return { type, status, reason, message };
    };
    const seen = fc.oneof(
      fc.constantFrom(...troubles).map((quota) => quota ?? noClaim),
      fc.constantFrom(...answers).map((granted) => claimed(aClaim({ granted }))),
    );
    const property = fc.property(
      fc.uniqueArray(written, { selector: ({ type }) => type }),
      seen,
      (conditions, quota) => {
        const instance = anInstance({ gates: [], conditions });
        expect(readyOf(instance, quota)).toEqual(readyOf(instance, { is: "off" }));
      },
    );
    fc.assert(property, run.parameters);
  },
);

it(`decides about an Instance with any fields missing or odd, and settles (${run.name})`, run.options, () => {
  const text = fc.oneof(
    fc.string(),
    fc.constantFrom(toTime(BORN), "Quota", "Network", "1", "-2Gi", "constructor"),
  );
  const none = { requiredKeys: [] };
  const amounts = fc.dictionary(fc.constantFrom("cpu", "memory"), fc.oneof(text, fc.double()));
  const container = fc.record({ name: text, image: text, resources: fc.record({ limits: amounts }, none) });
  const instances = fc.record(
    {
      metadata: fc.record(
        {
          name: text,
          namespace: text,
          uid: text,
          generation: fc.integer(),
          creationTimestamp: text,
          deletionTimestamp: text,
          finalizers: fc.array(text),
        },
        none,
      ),
      spec: fc.record({
        runtime: fc.record({
          resources: fc.record({ instanceType: text, requests: amounts }, none),
          sandbox: fc.record({ containers: fc.array(container) }),
        }),
        networkInterfaces: fc.constant([]),
        controller: fc.record({ schedulingGates: fc.array(fc.record({ name: text })) }, none),
      }),
      status: fc.record(
        {
          conditions: fc.uniqueArray(
            fc.record({
              type: fc.constantFrom("Ready", "Programmed", "QuotaGranted", "Odd"),
              status: text,
              reason: text,
              message: text,
              lastTransitionTime: text,
              observedGeneration: fc.integer(),
            }),
            { selector: ({ type }) => type },
          ),
          networkInterfaces: fc.array(fc.record({ assignments: fc.record({ networkIP: text }, none) }, none)),
        },
        none,
      ),
    },
    none,
  );
  const property = fc.property(
    instances,
    fc.constantFrom(...troubles),
    fc.constantFrom(...networks),
    fc.constantFrom(...pods),
    (instance, quota, network, pod) => {
      const cell = new Cell(instance as unknown as Instance);
      Object.assign(cell, { quota, network, pod });
      const faults: string[] = [];
      cell.settle((decision, view) => void faults.push(...broken(decision, view)));
      expect(faults).toEqual([]);
    },
  );
  fc.assert(property, run.parameters);
});
