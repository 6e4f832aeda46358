import * as fc from "fast-check";
import { describe, expect, it } from "vitest";
import { seededRun } from "../../../runtime/src/testing/property.ts";
import type { Instance, InstanceTemplate } from "../api/workload.ts";
import { canonicalJson, isCurrent, templateHash } from "./template-hash.ts";
import { aDeployment, anInstance, aTemplate } from "./testing/fixtures.ts";

/** A template as JSON, with these fields merged into its container. */
function container(fields: object): InstanceTemplate {
  const { spec } = aTemplate();
  const [first] = spec.runtime.sandbox?.containers ?? [];
  const sandbox = { containers: [{ name: "app", image: "app:1", ...first, ...fields }] };
  return { ...aTemplate(), spec: { ...spec, runtime: { ...spec.runtime, sandbox } } };
}

describe("the hash of a template", () => {
  it("stays the same from release to release: another one would roll every fleet", () => {
    const template = container({
      env: [{ name: "A", value: "1" }, { name: "B", valueFrom: { resourceFieldRef: { divisor: "1k" } } }, {}],
      resources: { limits: { cpu: "500m", other: "many" }, requests: { memory: "1Gi" } },
      ports: [{ name: "p", port: 80, protocol: "UDP" }],
    });
    const metadata = { labels: { b: "", a: "1" }, annotations: { z: "", y: "TCP" } };
    expect(templateHash({ ...template, metadata })).toBe("v1-6a817ef1ccc614b0");
    const spec = {
      b: [null, "", "x", {}],
      a: { cpu: {} },
      divisor: "2",
      type: "tape",
      limits: { cpu: null },
    };
    expect(canonicalJson(spec)).toBe('{"b":[null,null,"x",null],"divisor":"2000000000","type":"tape"}');
    expect(canonicalJson({ a: {} })).toBe("null");
  });

  it("is computed once for a template, and so is the text of any object", () => {
    let reads = 0;
    const template = {
      get spec() {
        reads += 1;
        return aTemplate().spec;
      },
    };
    expect([templateHash(template), canonicalJson(template)]).toEqual([
      templateHash(template),
      canonicalJson(template),
    ]);
    expect(reads).toBe(2);
  });

  it.each<[string, object, object]>([
    [
      "quantities of one amount",
      { resources: { limits: { cpu: "1000m" } } },
      { resources: { limits: { cpu: 1 } } },
    ],
    ["an empty list and none", { ports: [] }, {}],
    ["an empty object and none", { resources: { limits: {} } }, {}],
    ["an empty text and none", { env: [{ name: "A", value: "" }] }, { env: [{ name: "A" }] }],
    ["null and none", { ports: null }, {}],
    [
      "the default of a port and none",
      { ports: [{ name: "p", port: 80, protocol: "TCP" }] },
      { ports: [{ name: "p", port: 80 }] },
    ],
    ["the same keys in another order", { image: "a", name: "b" }, { name: "b", image: "a" }],
  ])("is equal for %s", (_, one, other) => {
    expect(templateHash(container(one))).toBe(templateHash(container(other)));
  });

  it.each<[string, InstanceTemplate, InstanceTemplate]>([
    ["images", aTemplate("app:1"), aTemplate("app:2")],
    [
      "orders of a list",
      container({ env: [{ name: "A" }, { name: "B" }] }),
      container({ env: [{ name: "B" }, { name: "A" }] }),
    ],
    [
      "amounts",
      container({ resources: { limits: { cpu: 1 } } }),
      container({ resources: { limits: { cpu: "1001m" } } }),
    ],
    [
      "numbers and texts outside of resources",
      container({ env: [{ name: "A", value: "1" }] }),
      container({ env: [{ name: "A", value: "1.0" }] }),
    ],
    ["an empty label and none", aTemplate("app:1", { labels: { a: "" } }), aTemplate("app:1")],
    [
      "a label with the value of a default and none",
      aTemplate("app:1", { labels: { protocol: "TCP" } }),
      aTemplate("app:1"),
    ],
    [
      "A11 values of restartedAt",
      aTemplate("app:1", { annotations: { "compute.datumapis.com/restartedAt": "2026-01-01T00:00:00Z" } }),
      aTemplate("app:1"),
    ],
  ])("differs for %s", (_, one, other) => {
    expect(templateHash(one)).not.toBe(templateHash(other));
  });

  it("A11 is the same for the same value of restartedAt", () => {
    const template = aTemplate("app:1", {
      annotations: { "compute.datumapis.com/restartedAt": "2026-01-01T00:00:00Z" },
    });
    expect(templateHash(structuredClone(template))).toBe(templateHash(template));
  });

  it.each(["__proto__", "constructor", "toString"])("has all of the key %s", (key) => {
    const named = (value: unknown): InstanceTemplate =>
      container({ env: [JSON.parse(`{ "${key}": ${JSON.stringify(value)} }`)] });
    expect(templateHash(named({ a: "b" }))).not.toBe(templateHash(named({ a: "c" })));
    expect(templateHash(named({ a: "b" }))).not.toBe(templateHash(container({ env: [{}] })));
    const label = (value: string): InstanceTemplate => aTemplate("app:1", { labels: { [key]: value } });
    expect(templateHash(label("a"))).not.toBe(templateHash(label("b")));
  });

  it("takes no part of controller, location and other metadata", () => {
    const template = aTemplate();
    const other = {
      metadata: { name: "x", labels: {} },
      spec: { ...template.spec, location: { name: "l", namespace: "n" }, controller: { templateHash: "x" } },
    };
    expect(templateHash(other)).toBe(templateHash(template));
  });

  const run = seededRun(300, process.env);
  it(`has one text for any order of keys (${run.name})`, run.options, () => {
    const reversed = (value: unknown): unknown => {
      if (Array.isArray(value)) return value.map(reversed);
      return typeof value === "object" && value !== null ? reversedKeys(value) : value;
    };
    const reversedKeys = (value: object): object =>
      Object.fromEntries(
        Object.entries(value)
          .toReversed()
          .map(([key, child]) => [key, reversed(child)]),
      );
    fc.assert(
      fc.property(fc.dictionary(fc.string(), fc.jsonValue()), (value) => {
        expect(canonicalJson(reversedKeys(value))).toBe(canonicalJson(value));
      }),
      run.parameters,
    );
  });
});

describe("whether an Instance is of the template", () => {
  const template = aTemplate("app:1", { labels: { team: "a" }, annotations: { note: "b" } });
  const hash = templateHash(template);
  const made = anInstance(aDeployment({ template }), 0);
  const as = (templateHashOf: string, change: Partial<Instance> = {}): Instance => ({
    ...made,
    ...change,
    ...(made.spec && {
      spec: { ...made.spec, ...change.spec, controller: { templateHash: templateHashOf } },
    }),
  });

  it("by its hash alone, when the hash is ours", () => {
    expect(isCurrent(as(hash), template, hash)).toBe(true);
    expect(isCurrent(as("v1-0123456789abcdef"), template, hash)).toBe(false);
  });

  it("T1 by its content, when the hash is of another program", () => {
    const ports = (protocol?: "TCP") =>
      container({ ports: [{ name: "p", port: 80, ...(protocol && { protocol }) }] });
    const wanted = { ...template, spec: ports().spec };
    const running = as("b7d9x2", { spec: { ...ports("TCP").spec, location: { name: "l", namespace: "n" } } });
    expect(isCurrent(running, wanted, templateHash(wanted))).toBe(true);
    expect(isCurrent(running, { ...wanted, spec: aTemplate("app:2").spec }, hash)).toBe(false);
  });

  it("T1 by its content with the defaults of the CRDs, such as pd-standard, and by no other type", () => {
    const disk = (type?: string) => ({
      ...template.spec,
      volumes: [{ name: "d", disk: { template: { spec: { ...(type && { type }) } } } }],
    });
    const wanted = { ...template, spec: disk() };
    const of = (type: string): Instance => as("b7d9x2", { spec: disk(type) });
    expect(isCurrent(of("pd-standard"), wanted, templateHash(wanted))).toBe(true);
    expect(isCurrent(of("pd-ssd"), wanted, templateHash(wanted))).toBe(false);
  });

  it.each<[string, Instance]>([
    ["label", as("b7d9x2", { metadata: { ...made.metadata, labels: { team: "z" } } })],
    ["annotation", as("b7d9x2", { metadata: { ...made.metadata, annotations: {} } })],
  ])("T1 not when a %s of the template differs", (_, instance) => {
    expect(isCurrent(as("b7d9x2"), template, hash)).toBe(true);
    expect(isCurrent(instance, template, hash)).toBe(false);
  });

  it("R17 not without a controller or a spec", () => {
    const { controller: _controller, ...spec } = made.spec ?? aTemplate().spec;
    expect(isCurrent({ ...made, spec }, template, hash)).toBe(false);
    expect(isCurrent({ metadata: { name: "x" } }, template, hash)).toBe(false);
  });
});
