import * as fc from "fast-check";
import { describe, expect, it } from "vitest";
import { annotationKeyProblem } from "../node/validate.ts";
import type { FootprintGroup } from "./document.ts";
import { claimKey, groupOf, type PodGroup } from "./groups.ts";
import { footprintOf } from "./testing/footprints.ts";
import { makeAteom, makePod, type SightInit, sightOf } from "./testing/pods.ts";

const PREFIX = "ate.dev/claim.";
const POOL = { group: "ate.dev", kind: "WorkerPool" };
const BY_LABEL: FootprintGroup = { by: "PodLabel", label: "ate.dev/worker-pool-uid" };

function group(
  by: FootprintGroup,
  pod: Parameters<typeof groupOf>[0],
  { claims = true, ...observations }: SightInit & { readonly claims?: boolean } = {},
): PodGroup {
  const footprint = footprintOf({
    workloads: [{ podSelector: { matchLabels: { a: "b" } } }],
    group: by,
    node: {
      label: { key: "ate.dev/atelet" },
      ...(claims && { claims: { annotationPrefix: PREFIX } }),
    },
  });
  return groupOf(pod, footprint, sightOf(observations));
}

describe("the group of a pod", () => {
  it("is what the footprint groups by", () => {
    const pod = makeAteom("A", "p", { namespace: "team" });
    expect(group({ by: "None" }, pod)).toEqual({ is: "group", name: "" });
    expect(group({ by: "Namespace" }, pod)).toEqual({ is: "group", name: "team" });
    expect(group({ by: "Pod" }, pod)).toEqual({ is: "group", name: "uid-p" });
    expect(group({ by: "OwnerUID", owner: POOL }, pod)).toEqual({ is: "group", name: "A" });
    expect(group(BY_LABEL, pod)).toEqual({ is: "group", name: "A" });
  });

  it("is none without what it is grouped by", () => {
    expect(group({ by: "Namespace" }, {})).toEqual({ is: "none" });
    expect(group({ by: "Pod" }, {})).toEqual({ is: "none" });
    expect(group(BY_LABEL, makePod("p"))).toEqual({ is: "none" });
    expect(group(BY_LABEL, makeAteom("", "p"))).toEqual({ is: "none" });
    expect(group({ by: "PodLabel", label: "constructor" }, makePod("p"))).toEqual({ is: "none" });
  });

  it("F-E9 is left open when its label names another owner than its own, and refused when no claim can", () => {
    const verified = { ...BY_LABEL, owner: POOL };
    const forged = makeAteom("A", "p", { owners: ["ate.dev/WorkerPool B"] });
    expect(group(verified, forged)).toMatchObject({
      is: "ownerless",
      name: "A",
      why: expect.stringContaining("WorkerPool-B") as string,
    });
    expect(group(verified, makeAteom("x".repeat(63), "p"))).toMatchObject({ is: "refused" });
    expect(group(verified, makeAteom("A", "p"))).toEqual({ is: "group", name: "A" });
    expect(group({ ...verified, verifyOwner: false }, forged)).toEqual({ is: "group", name: "A" });
    expect(group(BY_LABEL, forged)).toEqual({ is: "group", name: "A" });
  });

  it("may be of any length where there are no claims", () => {
    const long = "x".repeat(63);
    expect(group(BY_LABEL, makeAteom(long, "p"), { claims: false })).toEqual({ is: "group", name: long });
  });

  it("is not known before its owners are, and left open when there is none of the kind", () => {
    const verified = { ...BY_LABEL, owner: POOL };
    const observations = { ownersUnknown: new Set(["p"]) };
    expect(group(verified, makeAteom("A", "p"), observations)).toEqual({ is: "unknown" });
    expect(group({ by: "OwnerUID", owner: POOL }, makeAteom("A", "p"), observations)).toEqual({
      is: "unknown",
    });
    const bare = makeAteom("A", "p", { owners: ["apps/ReplicaSet rs"] });
    const why = "it has no owner of the kind that forms groups";
    expect(group(verified, bare)).toEqual({ is: "ownerless", name: "A", why });
    expect(group({ by: "OwnerUID", owner: POOL }, bare)).toEqual({ is: "ownerless", why });
  });
});

describe("the annotation of a group", () => {
  it("is prefix and group, byte for byte, where that is a key", () => {
    const uid = "0b5e9c5e-3f1d-4a6e-9a55-1c1f0d9e7a11";
    expect(claimKey(PREFIX, uid)).toBe(`ate.dev/claim.${uid}`);
  });

  it("is a key for any group, and another for each", () => {
    const label = fc.stringMatching(/^[a-z0-9]([-_.A-Za-z0-9]{0,61}[a-z0-9])?$/);
    const anything = fc.oneof(label, fc.string());
    const prefix = fc.constantFrom(PREFIX, "example.com/", `example.com/${"p".repeat(27)}`);
    fc.assert(
      fc.property(prefix, anything, anything, (prefix, one, other) => {
        expect(annotationKeyProblem(claimKey(prefix, one))).toBeUndefined();
        expect(claimKey(prefix, one).startsWith(prefix)).toBe(true);
        expect(claimKey(prefix, one) === claimKey(prefix, other)).toBe(one === other);
      }),
    );
  });
});
