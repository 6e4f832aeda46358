import * as fc from "fast-check";
import { describe, expect, it } from "vitest";
import {
  bindingName,
  claimName,
  deploymentName,
  deploymentOfBinding,
  deploymentOfInstance,
  encodeCluster,
  instanceName,
  instanceOfClaim,
  ordinalOf,
  projectMarks,
  projectOf,
  projectOfNamespace,
} from "./keys.ts";

describe("8.1 the label of a project", () => {
  it.each([
    ["web", "cluster-web"],
    ["acme/web", "cluster-acme_web"],
    ["/web", "cluster-_web"],
    ["datum-cloud", "cluster-datum-cloud"],
  ])("of %s is %s", (path, label) => {
    expect(encodeCluster(path)).toBe(label);
  });

  it("of no project is refused", () => {
    expect(() => encodeCluster("")).toThrow(RangeError);
  });

  it.each([
    ["cluster-web", "web"],
    ["cluster-acme_web", "web"],
    ["cluster-_web", "web"],
    ["cluster-datum-cloud", "datum-cloud"],
    ["", undefined],
    ["cluster-", undefined],
    ["cluster-acme_", undefined],
    ["web", undefined],
  ])("%o names project %s", (label, project) => {
    expect(projectOf(label)).toBe(project);
  });
});

describe("8.1 a path that is too long for a label", () => {
  const long = `${"o".repeat(40)}/${"p".repeat(40)}`;

  it("is in an annotation, and the label is its hash", () => {
    const marks = projectMarks(long);
    expect(Object.values(marks.labels)[0]).toMatch(/^sha256-[0-9a-f]{56}$/);
    expect(Object.values(marks.annotations)).toEqual([`cluster-${long.replace("/", "_")}`]);
    expect(projectOfNamespace({ metadata: marks })).toBe("p".repeat(40));
  });

  it("names no project when the annotation is not that of the label", () => {
    const { labels } = projectMarks(long);
    const { annotations } = projectMarks(`${long}x`);
    expect(projectOfNamespace({ metadata: { labels, annotations } })).toBeUndefined();
    expect(projectOfNamespace({ metadata: { labels } })).toBeUndefined();
    const forged = { labels: projectMarks("web").labels, annotations };
    expect(projectOfNamespace({ metadata: forged })).toBe("web");
  });

  it("is in the label alone up to 63 characters", () => {
    expect(projectMarks("p".repeat(55)).annotations).toEqual({});
    expect(projectMarks("p".repeat(56)).annotations).not.toEqual({});
  });
});

const dnsLabel = fc.stringMatching(/^[a-z0-9](?:[-a-z0-9]{0,8}[a-z0-9])?$/);
const cityCode = fc.stringMatching(/^[A-Za-z0-9-]{1,4}$/);

it("R14 H8 the label of a path names the last segment of that path", () => {
  fc.assert(
    fc.property(fc.array(dnsLabel, { minLength: 1, maxLength: 3 }), (segments) => {
      expect(projectOf(encodeCluster(segments.join("/")))).toBe(segments.at(-1));
    }),
  );
});

describe("8.2 the ordinal of an Instance", () => {
  it.each([
    ["my-instance-0", 0],
    ["my-instance-999", 999],
    ["my-instance-foo", -1],
    ["myinstance", -1],
    ["a-007", -1],
    ["a-", -1],
    ["a-1.5", -1],
    ["a-99999999999", -1],
  ])("%s has %d", (name, ordinal) => {
    expect(ordinalOf(name)).toBe(ordinal);
  });

  it("is the one that its name was made from", () => {
    fc.assert(
      fc.property(dnsLabel, fc.nat(), (deployment, ordinal) => {
        expect(ordinalOf(instanceName(deployment, ordinal))).toBe(ordinal);
      }),
    );
  });
});

describe("H9 the name of a deployment", () => {
  it("is the same for different Workloads, so a second Workload must not adopt it", () => {
    expect(deploymentName("a", "b-c", "x")).toBe(deploymentName("a-b", "c", "x"));
  });

  it("H10 has the city in lower case, so two spellings are one deployment", () => {
    fc.assert(
      fc.property(dnsLabel, dnsLabel, cityCode, (workload, placement, city) => {
        const name = deploymentName(workload, placement, city);
        expect(name).toBe(deploymentName(workload, placement, city.toUpperCase()));
        expect(name).toBe(name.toLowerCase());
      }),
    );
  });
});

describe("R5 the name of a claim", () => {
  it("leads back to its Instance, and is never the name of that Instance", () => {
    fc.assert(
      fc.property(dnsLabel, (instance) => {
        expect(instanceOfClaim(claimName(instance))).toBe(instance);
        expect(claimName(instance)).not.toBe(instance);
      }),
    );
  });

  it("of another resource leads nowhere", () => {
    expect(instanceOfClaim("w-us-dfw-0")).toBeUndefined();
  });
});

it("leads from the name of an Instance to its deployment", () => {
  expect(deploymentOfInstance("w-us-dfw-10")).toBe("w-us-dfw");
  expect(["w-us-dfw-x", "w-us-dfw-01", "w"].map(deploymentOfInstance)).toEqual([
    undefined,
    undefined,
    undefined,
  ]);
});

it("names the NetworkBinding of an interface by its place", () => {
  expect(bindingName("w-us-dfw", 1)).toBe("w-us-dfw-net-1");
  expect(deploymentOfBinding(bindingName("w-net-0-dfw", 15))).toBe("w-net-0-dfw");
  expect(deploymentOfBinding("w-us-dfw-net")).toBeUndefined();
});
