import { expect, it } from "vitest";
import { documentWarnings } from "./document-warnings.ts";
import type { AdmissionEnv, BoundRules, ReviewIo } from "./rules.ts";
import { INSTALLED } from "./testing/shapes.ts";

const env: AdmissionEnv = { ...INSTALLED, spec: { failurePolicy: "Fail" } };
const resourceOf = (plural: string) => ({ group: "berth.dev", version: "v1", plural });
const rulesOf = (isServed: boolean | undefined): BoundRules =>
  documentWarnings(
    [
      { resource: resourceOf("gates"), remarksOn: ({ metadata }) => [`GateNeverOpens: ${metadata?.name}`] },
      { resource: resourceOf("rules"), remarksOn: () => [] },
    ],
    () => isServed,
  );

it.each([
  [true, "read", { timeoutSeconds: 2, matchConditions: [expect.objectContaining({ name: "changed" })] }],
  [false, "read", undefined],
  [undefined, "reading", undefined],
])("asks only while the API server asks about anything else: %j", (isServed, read, when) => {
  const { reviews, ...rules } = rulesOf(isServed);
  const [review] = reviews;
  expect(rules.read()).toBe(read);
  expect(review?.when(env)).toEqual(when);
  expect(review).toMatchObject({ rule: { apiGroups: ["berth.dev"], resources: ["gates", "rules"] } });
  expect(review?.failurePolicy(env)).toBe("Ignore");
});

it.each([
  ["gates", { metadata: { name: "a" } }, ["GateNeverOpens: a"]],
  ["rules", { metadata: { name: "a" } }, []],
  ["others", { metadata: { name: "a" } }, []],
  ["gates", undefined, []],
  ["gates", null, []],
  ["gates", { metadata: "a" }, []],
  ["gates", { metadata: { name: 1 } }, []],
  ["gates", { metadata: { name: "a", annotations: 1 }, status: 1 }, ["GateNeverOpens: a"]],
])("allows all, and warns: %s %j", async (plural, object, warnings) => {
  expect(await answerTo(plural, object)).toEqual({ allowed: true, warnings });
});

it.each([
  [16_000, ["GateNeverOpens: a"]],
  [17_000, []],
])("S-6 reads no document of more than 16 KiB: %i", async (length, warnings) => {
  const object = { metadata: { name: "a" }, spec: { text: "x".repeat(length) } };
  expect(await answerTo("gates", object)).toEqual({ allowed: true, warnings });
});

function answerTo(plural: string, object: unknown) {
  const resource = { ...resourceOf(plural), resource: plural };
  const kind = { group: "berth.dev", version: "v1", kind: "K" };
  const request = { uid: "u", kind, resource, operation: "CREATE", object } as const;
  return rulesOf(true).reviews[0]?.answer(request, {} as ReviewIo);
}
