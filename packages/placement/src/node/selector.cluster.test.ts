/** The API server as the judge: it selects by our text what we select ourselves. */

import type { SelectorRequirement } from "@berth/host";
import { configMaps, type KubeClient } from "@berth/kube";
import { sharedTestCluster } from "@berth/testcluster";
import * as fc from "fast-check";
import { beforeAll, describe, expect, it } from "vitest";
import { matchesSelector, selectorText } from "./selector.ts";

const NAMESPACE = "default";
const MARK = "selector-test.example.com/run";

const values = [undefined, "", "x", "y"] as const;

/** Every combination of three labels, by the name of the object that has it. */
const objects: ReadonlyMap<string, Readonly<Record<string, string>>> = new Map(
  values.flatMap((a) =>
    values.flatMap((b) =>
      values.map((c) => {
        const entries = Object.entries({ a, "b.example.com/B_1": b, c }).filter(([, it]) => it !== undefined);
        const name = `selector-${[a, b, c].map((it) => (it === "" ? "empty" : (it ?? "none"))).join("-")}`;
        return [name, { ...(Object.fromEntries(entries) as Record<string, string>), [MARK]: "1" }] as const;
      }),
    ),
  ),
);

let client: KubeClient;

beforeAll(async () => {
  ({ client } = await sharedTestCluster());
  for (const [name, labels] of objects) {
    await client.create(configMaps, { metadata: { name, namespace: NAMESPACE, labels } });
  }
});

const key = fc.constantFrom("a", "b.example.com/B_1", "c");
const value = fc.constantFrom("", "x", "y", "other");
const requirement: fc.Arbitrary<SelectorRequirement> = fc.oneof(
  fc.record({
    key,
    operator: fc.constantFrom("In" as const, "NotIn" as const),
    values: fc.array(value, { maxLength: 3 }),
  }),
  fc.record({ key, operator: fc.constantFrom("Exists" as const, "DoesNotExist" as const) }),
);
const selectors = fc.record(
  {
    matchLabels: fc.dictionary(key, value, { maxKeys: 2 }),
    matchExpressions: fc.array(requirement, { maxLength: 3 }),
  },
  { requiredKeys: [] },
);

describe("a selector on the real API server", () => {
  it("selects what we select ourselves", async () => {
    const property = fc.asyncProperty(selectors, async (selector) => {
      const text = selectorText(selector);
      const labelSelector = text === "" ? `${MARK}=1` : `${text},${MARK}=1`;
      const { items } = await client.list(configMaps, { namespace: NAMESPACE, labelSelector });
      const ours = [...objects].filter(([, labels]) => matchesSelector(selector, labels));
      expect(items.map(({ metadata }) => metadata?.name ?? "").sort()).toEqual(
        ours.map(([name]) => name).sort(),
      );
    });
    await fc.assert(property, { numRuns: 300 });
  });
});
