import type { PodSpec } from "@berth/kube";
import * as fc from "fast-check";
import { describe, expect, it } from "vitest";
import type { Reason } from "../api/reasons.ts";
import type { PodVerdict } from "./pod-view.ts";
import {
  type Case,
  Closed,
  Fallback,
  Keep,
  NOW,
  requiring,
  S390,
  short,
  termOf,
  verdictOf,
} from "./testing/judging.ts";
import { type KnownImages } from "./testing/observations.ts";
import { type PolicyInit } from "./testing/policies.ts";
import { recheckAfter, wantsOf } from "./verdict.ts";

describe("S-2 a pod whose affinity takes more than 20,000 comparisons with architectures", () => {
  const platforms = Array.from({ length: 64 }, (_, at) => `a${at}`);
  const images = { "x:1": platforms };
  const asking = (terms: number): Partial<PodSpec> =>
    requiring(
      ...Array.from({ length: terms }, (_, at) => termOf(["kubernetes.io/arch", "In", [`none${at}`]])),
    );

  it.each<readonly [string, Partial<Case>, string]>([
    ["is judged with a few less", { spec: asking(155) }, "impossible RequiredArchitectureConflict"],
    ["may run anywhere", { spec: asking(156) }, "any TooManyImages"],
    ["stays pending", { spec: asking(156), policy: Closed }, "unresolvable TooManyImages"],
    ["by those of its annotation", { spec: asking(9_999), annotation: "amd64 arm64" }, "any TooManyImages"],
    [
      "by many values",
      {
        spec: requiring(
          termOf(["kubernetes.io/arch", "In", Array.from({ length: 312 }, (_, at) => `${at}`)]),
        ),
      },
      "any TooManyImages",
    ],
  ])("%s", (_, more, expected) => {
    expect(short(verdictOf({ images, ...more }))).toBe(expected);
  });
});

describe("S-2 a pod with more than 64 different images", () => {
  const pod = Array.from({ length: 65 }, (_, at) => `registry.example/x:${at}`);
  const says = "it names 65 different images, and no more than 64 of one pod are looked up: it";
  const given = "it runs on arm64, by its annotation berth.dev/architectures";

  it.each<readonly [string, Partial<Case>, string, string]>([
    ["may run anywhere", {}, "any TooManyImages", `${says} may run anywhere, by the policy`],
    [
      "stays pending",
      { policy: Closed },
      "unresolvable TooManyImages",
      `${says} stays pending, by the policy`,
    ],
    [
      "keeps to the fallback",
      { policy: S390 },
      "fits s390x TooManyImages",
      `${says} may run on s390x, by the policy`,
    ],
    ["runs where its annotation says", { annotation: "arm64" }, "fits arm64 ArchitecturesGiven", given],
  ])("%s, and none is looked up", (_, more, expected, message) => {
    const verdict = verdictOf({ images: { "registry.example/x:1": ["s390x"] }, pod, ...more });
    expect([short(verdict), verdict.message]).toEqual([expected, message]);
    expect(wantsOf(verdict)).toEqual([]);
  });

  it("is not one with 64, however often it names them", () => {
    const verdict = verdictOf({ images: {}, pod: [...pod.slice(1), ...pod.slice(1)], heldMs: 0 });
    expect(wantsOf(verdict)).toHaveLength(64);
  });
});

describe("a pod whose images are known", () => {
  const three = { a: ["amd64", "arm64"], b: ["amd64"], c: ["arm64"] };

  it.each<readonly [string, Case, string]>([
    ["A-P5 an index and a single image", { images: { i: ["amd64", "arm"], s: ["amd64"] } }, "fits amd64"],
    ["one image for two", { images: { i: ["amd64", "arm64"] } }, "fits amd64,arm64"],
    ["A-P11 none in common", { images: { a: ["arm64"], b: ["amd64"] } }, "impossible"],
    ["A-B1 three of which only two agree at a time", { images: three }, "impossible"],
    ["variants of one architecture, once", { images: { a: ["linux/arm/v6", "linux/arm/v7"] } }, "fits arm"],
    ["A-B6 images of Windows beside", { images: { a: ["amd64", "windows/arm64"] } }, "fits amd64"],
  ])("%s: %s", (_, input, expected) => {
    const verdict = verdictOf(input);
    const reason: Reason = verdict.kind === "impossible" ? "NoCommonArchitecture" : "ArchitecturesResolved";
    expect(short(verdict)).toBe(`${expected} ${reason}`);
    expect(verdict.kind === "fits" ? verdict.os : "linux").toBe("linux");
  });

  it("A-B1 the containers are named, and what each runs on", () => {
    const two = verdictOf({ images: { "ghcr.io/x:1": ["amd64"], "ghcr.io/y:2": ["arm64"] } });
    expect(two.message).toBe(
      "container a (ghcr.io/x:1) runs on amd64, container b (ghcr.io/y:2) on arm64: no architecture runs both",
    );
    expect(verdictOf({ images: three }).message).toBe(
      "container a (docker.io/library/a:latest) runs on amd64, arm64, container b (docker.io/library/b:latest) on amd64, container c (docker.io/library/c:latest) on arm64: no architecture runs all of them",
    );
  });

  it("of many images eight are named, those that restrict most", () => {
    const wide = Object.fromEntries("abcdefghij".split("").map((it) => [it, ["amd64", "arm64"]]));
    const { message } = verdictOf({ images: { ...wide, x: ["amd64"], y: ["arm64"] } });
    expect(message).toMatch(/^container k \(.*\) runs on amd64, container l \(.*\) on arm64, container a /);
    expect(message.match(/container /g)).toHaveLength(8);
    expect(message).toContain("and 4 more: no architecture runs all of them");
  });

  it("A-B6 of Windows: by the pod, its node selector, or its images", () => {
    const images = { a: ["amd64", "arm64", "windows/amd64"] };
    const os = (spec: Partial<PodSpec>, known: KnownImages = images): unknown => {
      const verdict = verdictOf({ images: known, spec });
      return verdict.kind === "fits" ? [verdict.os, ...verdict.architectures] : verdict.kind;
    };
    expect(os({})).toEqual(["linux", "amd64", "arm64"]);
    expect(os({}, { a: ["amd64", "windows/amd64"], b: ["windows/amd64"] })).toEqual(["windows", "amd64"]);
    const term = (...values: readonly string[]): object =>
      termOf(["gpu", "DoesNotExist"], ["kubernetes.io/os", "In", values]);
    const byName = { matchFields: [{ key: "metadata.name", operator: "In", values: ["n"] }] };
    for (const spec of [
      { os: { name: "windows" } },
      { nodeSelector: { "kubernetes.io/os": "windows" } },
      { nodeSelector: { "beta.kubernetes.io/os": "windows" } },
      { nodeSelector: { "node.kubernetes.io/windows-build": "10.0.20348" } },
      requiring(term("windows")),
      requiring(term("windows"), {}, term("windows")),
    ])
      expect(os(spec)).toEqual(["windows", "amd64"]);
    for (const terms of [
      [term("windows"), byName],
      [term("windows"), term("linux")],
      [term("windows", "linux")],
      [{}],
      [],
    ])
      expect(os(requiring(...terms))).toEqual(["linux", "amd64", "arm64"]);
    expect(os({}, { a: ["amd64"], b: ["windows/amd64"] })).toBe("impossible");
    expect(verdictOf({ images: { a: ["amd64"] }, spec: { os: { name: "windows" } } }).message).toBe(
      "container a (docker.io/library/a:latest) runs on linux/amd64, and the pod is for windows",
    );
  });

  it("A-B3 init containers, ephemeral containers and image volumes count as well", () => {
    const images = { app: ["amd64", "arm64"], narrow: ["arm64"], artifact: [] };
    const kind = (spec: Partial<PodSpec>): string => short(verdictOf({ images, pod: ["app"], spec }));
    const container = { name: "x", image: "narrow" };
    const volumes = (reference: string): Partial<PodSpec> => ({
      volumes: [{ name: "v", image: { reference } }],
    });
    const artifact = volumes("artifact");
    for (const spec of [{}, artifact]) expect(kind(spec)).toBe("fits amd64,arm64 ArchitecturesResolved");
    for (const spec of [
      { initContainers: [container] },
      { ephemeralContainers: [container] },
      volumes("narrow"),
    ])
      expect(kind(spec)).toBe("fits arm64 ArchitecturesResolved");
    expect(short(verdictOf({ images, pod: [], spec: artifact }))).toBe("any ArchitectureUnrestricted");
    expect(short(verdictOf({ images, pod: ["artifact"] }))).toBe("any ImageWithoutPlatform");
  });
});

describe("whoever says it before the images do", () => {
  it("A-B8 the pod, by its annotation", () => {
    const images = { a: ["amd64"], b: ["arm64"] };
    const said = (annotation: string): string => short(verdictOf({ images, annotation }));
    expect(said("arm64, amd64,arm64")).toBe("fits amd64,arm64 ArchitecturesGiven");
    expect(said("*")).toBe("any ArchitecturesGiven");
    for (const unreadable of ["", " , ", "Intel!", "*,amd64", "a".repeat(3000)]) {
      expect(said(unreadable)).toBe("impossible NoCommonArchitecture");
      expect(verdictOf({ images, annotation: unreadable }).message).toContain("cannot be read");
    }
    expect(wantsOf(verdictOf({ images: {}, pod: ["unknown"], annotation: "arm64" }))).toEqual([]);
  });

  it("nobody, where no policy governs it", () => {
    expect(short(verdictOf({ images: { a: ["amd64"] }, policy: null }))).toBe("any ArchitectureOptedOut");
  });

  it("A-B4 the policy, for an image: without asking, and also where asking fails", () => {
    const policy = { images: [{ image: "a", architectures: ["s390x", "amd64"] }] };
    const unasked = verdictOf({ images: {}, pod: ["a"], policy });
    expect(short(unasked)).toBe("fits amd64,s390x ArchitecturesResolved");
    const failed = verdictOf({ images: { a: { failed: "ImageNotFound" }, b: ["amd64"] }, policy });
    expect(short(failed)).toBe("fits amd64 ArchitecturesResolved");
    expect(wantsOf(failed).map(({ image }) => image)).toEqual(["b"]);
    expect(failed.images.map(({ source }) => source)).toEqual(["policy", "registry"]);
  });
});

describe("I-11 a pod that requires architectures itself", () => {
  const KEY = "kubernetes.io/arch";
  const selecting = (value: string, key = KEY): Partial<PodSpec> => ({ nodeSelector: { [key]: value } });
  const term = termOf;
  const arm = term([KEY, "In", ["arm64"]]);
  const zone = term(["zone", "In", ["a"]]);
  const none = "impossible RequiredArchitectureConflict";
  const fits = "fits amd64 ArchitecturesResolved";

  it.each<readonly [string, Partial<PodSpec>, string]>([
    ["its node selector", selecting("arm64"), none],
    ["its node selector, by the former label", selecting("arm64", "beta.kubernetes.io/arch"), none],
    ["its node selector, and the image has it", selecting("amd64"), fits],
    ["its one term", requiring(arm), none],
    ["each of its terms", requiring(arm, term([KEY, "NotIn", ["amd64", "s390x"]], ["zone", "Exists"])), none],
    ["one of its terms, and the other leaves it open", requiring(arm, zone), fits],
    ["one of its terms, and the other selects nothing", requiring(arm, {}), none],
    ["a term that has the image's as well", requiring(term([KEY, "In", ["arm64", "amd64"]])), fits],
    ["a term for any", requiring(term([KEY, "Exists"])), fits],
    ["a term for none", requiring(term([KEY, "DoesNotExist"])), none],
    ["both, of which one excludes it", { ...selecting("amd64"), ...requiring(arm) }, none],
  ])("by %s: %j", (_, spec, expected) => {
    expect(short(verdictOf({ images: { a: ["amd64"] }, spec }))).toBe(expected);
  });

  it("and an image that does not run there: the message names both", () => {
    const images = { a: ["amd64"], both: ["amd64", "arm64"] };
    expect(verdictOf({ images, spec: selecting("arm64") }).message).toBe(
      "container a (docker.io/library/a:latest) runs on amd64, and the pod requires kubernetes.io/arch=arm64: no node fits both",
    );
    const apart = { a: ["amd64", "arm64"], b: ["amd64", "s390x"] };
    const either = requiring(arm, term([KEY, "In", ["s390x"]]));
    expect(verdictOf({ images: apart, spec: either }).message).toBe(
      "its images have only amd64 in common, and the pod requires kubernetes.io/arch=arm64 or kubernetes.io/arch=s390x: no node fits both",
    );
    const long = requiring(term([KEY, "In", Array.from({ length: 9999 }, (_, at) => `a${at}`)]));
    expect(verdictOf({ images, spec: long }).message.length).toBeLessThan(1000);
  });

  it("counts against what is known already, the annotation, and the policy's own word on an image", () => {
    const spec = selecting("arm64");
    expect(short(verdictOf({ images: { a: ["amd64"] }, pod: ["a", "new"], spec }))).toBe(none);
    expect(short(verdictOf({ images: {}, annotation: "amd64", spec }))).toBe(none);
    expect(short(verdictOf({ images: {}, annotation: "*", spec }))).toBe("any ArchitecturesGiven");
    const policy = { images: [{ image: "a", architectures: ["amd64"] }] };
    expect(short(verdictOf({ images: { a: ["arm64"] }, policy, spec }))).toBe(none);
  });

  it("is not sent elsewhere by the fallback of the policy", () => {
    const policy = { unresolvable: "Open", fallbackArchitectures: ["amd64"] } as const;
    const images = { gone: { failed: "ImageNotFound" } } as const;
    expect(short(verdictOf({ images, policy }))).toBe("fits amd64 ImageNotFound");
    expect(short(verdictOf({ images, policy, spec: selecting("arm64") }))).toBe("any ImageNotFound");
  });

  it("is left alone by the preset multiarch-tuning-operator, as that operator does, and no registry is asked", () => {
    const policy = { preset: "multiarch-tuning-operator" } as const;
    const said = (spec: Partial<PodSpec>): PodVerdict => verdictOf({ images: {}, pod: ["a"], spec, policy });
    for (const spec of [selecting("arm64"), requiring(arm), requiring(arm, term([KEY, "Exists"]))]) {
      expect(short(said(spec))).toBe("any ArchitectureLeftToPod");
      expect(wantsOf(said(spec))).toEqual([]);
    }
    expect(said(selecting("arm64")).message).toBe(
      "it requires kubernetes.io/arch=arm64 itself, and the policy leaves such pods alone",
    );
    for (const spec of [{}, requiring(zone), requiring(arm, zone)])
      expect(short(said(spec))).toBe("waiting ImagesPending");
  });

  const FORMER = "beta.kubernetes.io/arch";
  it.each<readonly [string, Partial<PodSpec>, boolean]>([
    ["is named in one term, and another term is empty", requiring(arm, {}), false],
    ["is named in one term, and another term has fields only", requiring(arm, { matchFields: [] }), false],
    ["has its former label in the node selector", { nodeSelector: { [FORMER]: "arm64" } }, false],
    ["has its former label in a term", requiring(term([FORMER, "In", ["arm64"]])), false],
    ["has an empty value in the node selector", selecting(""), true],
    [
      "has a value in the node selector, and no term names it",
      { ...selecting("arm64"), ...requiring(zone) },
      true,
    ],
  ])("C24 an architecture that %s is stated as for that operator", (_, spec, isLeft) => {
    const policy = { preset: "multiarch-tuning-operator" } as const;
    const { reason } = verdictOf({ images: {}, pod: ["a"], spec, policy });
    expect(reason === "ArchitectureLeftToPod").toBe(isLeft);
  });

  it("C24 that is empty in the node selector fits no image", () => {
    expect(short(verdictOf({ images: { a: ["arm64"] }, spec: selecting("") }))).toBe(none);
  });
});

describe("I-11 an operator bundle", () => {
  it("does not restrict its pod, whatever its platform", () => {
    const bundle = { bundle: ["amd64"] };
    expect(short(verdictOf({ images: { bundle } }))).toBe("any ArchitectureUnrestricted");
    expect(short(verdictOf({ images: { bundle, opm: ["arm64"] } }))).toBe("fits arm64 ArchitecturesResolved");
    const windows = { bundle: { bundle: ["windows/amd64"] }, opm: ["arm64", "windows/arm64"] };
    expect(verdictOf({ images: windows })).toMatchObject({ kind: "fits", os: "linux" });
  });
});

const unknown: Case = { images: { k: ["amd64"] }, pod: ["k", "u"] };
const lasting: Case = { images: { k: ["amd64"], f: { failed: "ImageNotFound", retryAt: NOW + 9 } } };
const passing: Case = { images: { k: ["amd64"], f: { failed: "RegistryUnreachable", retryAt: NOW + 9 } } };
const all = (input: Case, image: string, policy: PolicyInit = {}): Case => ({
  ...input,
  pod: [image],
  policy,
});
describe("A-B8 a pod with an image that is not known", () => {
  const late = 30_000;
  const both = { ...lasting, pod: ["f", "u"] };
  const conflict = { images: { a: ["amd64"], b: ["arm64"] }, pod: ["a", "b", "u"] };
  it.each<readonly [string, Case, number | undefined, string]>([
    ["not looked at, at admission", unknown, undefined, "waiting ImagesPending"],
    ["not looked at, in time", unknown, 29_999, "waiting ImagesPending"],
    ["in vain: runs where the others do", unknown, late, "fits amd64 HoldExpired"],
    ["in vain, nothing known: runs anywhere", all(unknown, "u"), late, "any HoldExpired"],
    ["in vain: release knows no fallback", all(unknown, "u", S390), late, "any HoldExpired"],
    ["in vain, with a fallback", all(unknown, "u", Fallback), late, "fits amd64,arm64 HoldExpired"],
    [
      "in vain, a fallback and others known",
      { ...unknown, policy: Fallback },
      late,
      "fits amd64 HoldExpired",
    ],
    ["in vain, kept", { ...unknown, policy: Keep }, 9e9, "waiting HoldExpired"],
    ["as long as the policy says", { ...unknown, policy: { maxHold: "5s" } }, 5000, "fits amd64 HoldExpired"],
    ["not there, at admission", lasting, undefined, "fits amd64 ImageNotFound"],
    ["not there, nothing else known", all(lasting, "f"), undefined, "any ImageNotFound"],
    ["not there, with a fallback", all(lasting, "f", S390), undefined, "fits s390x ImageNotFound"],
    [
      "not there, with one others exclude",
      { ...lasting, policy: S390 },
      undefined,
      "fits amd64 ImageNotFound",
    ],
    ["not there, closed", { ...lasting, policy: Closed }, undefined, "unresolvable ImageNotFound"],
    ["not there, another not looked at", both, undefined, "waiting ImagesPending"],
    ["the same, closed", { ...both, policy: Closed }, undefined, "unresolvable ImageNotFound"],
    ["registry away, at admission", passing, undefined, "waiting ImagesPending"],
    ["registry away, in time, closed", { ...passing, policy: Closed }, 10, "waiting ImagesPending"],
    ["registry away for long", passing, late, "fits amd64 RegistryUnreachable"],
    ["registry away, closed", { ...passing, policy: Closed }, late, "unresolvable RegistryUnreachable"],
    ["not looked at, for long, closed", { ...unknown, policy: Closed }, late, "unresolvable HoldExpired"],
    ["registry away for long, kept", { ...passing, policy: Keep }, late, "waiting RegistryUnreachable"],
    ["registry away, with a fallback", all(passing, "f", S390), late, "fits s390x RegistryUnreachable"],
    ["impossible with what is known", conflict, undefined, "impossible NoCommonArchitecture"],
  ])("%s", (_, input, heldMs, expected) => {
    expect(short(verdictOf({ ...input, ...(heldMs !== undefined && { heldMs }) }))).toBe(expected);
  });

  it.each<readonly [string, string, readonly Reason[]]>([
    [
      "pass, so they are waited for",
      "waiting",
      ["RegistryUnreachable", "RegistryRateLimited", "RegistryFailed"],
    ],
    [
      "pass, so they are waited for",
      "waiting",
      ["RegistrySuspended", "PullSecretUnreadable", "CredentialProviderFailed"],
    ],
    ["last, so the policy counts at once", "any", ["ImageNameInvalid", "ImageNotFound", "ImageMalformed"]],
    ["last, so the policy counts at once", "any", ["RegistryNotAllowed", "RegistryUnauthorized"]],
    ["last, so the policy counts at once", "any", ["RegistryForbidden"]],
  ])("these failures %s: %s %j", (_, expected, failures) => {
    for (const failed of failures) {
      const reason = expected === "any" ? failed : "ImagesPending";
      expect(short(verdictOf({ images: { a: { failed } } }))).toBe(`${expected} ${reason}`);
    }
  });

  it("its message names image and failure, in bounded length", () => {
    expect(verdictOf(unknown).message).toBe("container b (docker.io/library/u:latest) is being looked up");
    expect(verdictOf({ ...lasting, policy: Closed }).message).toBe(
      "container b (docker.io/library/f:latest) cannot be read: ImageNotFound; it stays pending, by the policy",
    );
    const passing = { images: { a: { failed: "RegistryUnreachable" } }, heldMs: 60_000 } as const;
    expect(verdictOf(passing).message).toBe(
      "container a (docker.io/library/a:latest) cannot be read: RegistryUnreachable; after 30s it may run anywhere, by the policy",
    );
    const long = "x".repeat(100_000);
    const many = Array.from({ length: 100 }, (_, at) => `${long}${at}`);
    expect(verdictOf({ images: {}, pod: many }).message.length).toBeLessThan(4000);
  });

  it("is looked at again when time can change the verdict", () => {
    const again = (input: Case): number | undefined =>
      recheckAfter(verdictOf(input), { now: NOW, expiresAt: NOW + 1000 });
    expect(again({ images: { a: ["amd64"] } })).toBeUndefined();
    expect(again(lasting)).toBeUndefined();
    expect(again(unknown)).toBe(1000);
    expect(again({ images: { a: { failed: "RegistryFailed", retryAt: NOW + 400 } } })).toBe(400);
    expect(again({ images: { a: { failed: "RegistryFailed", retryAt: NOW + 4 } } })).toBe(50);
    const overdue = { failed: "ImageNotFound", retryAt: NOW - 4 } as const;
    expect(again({ images: { a: overdue }, policy: Closed })).toBe(300_000);
    const later = { failed: "ImageNotFound", retryAt: NOW + 4000 } as const;
    expect(again({ images: { a: later }, policy: Closed })).toBe(4000);
    expect(again({ images: { a: ["amd64"], b: ["arm64"] } })).toBe(300_000);
  });

  it("asks for what is not known or may have changed, each question once", () => {
    const images = { "a@sha256:1": ["amd64"], b: ["amd64"], c: { failed: "ImageNotFound" } } as const;
    const verdict = verdictOf({ images, pod: ["a@sha256:1", "b", "c", "d", "d"] });
    expect(wantsOf(verdict).map(({ image }) => image)).toEqual(["b", "c", "d"]);
  });

  it("asks for fresh facts when it can run nowhere: a tag may have been mended", () => {
    const pulls = (images: KnownImages): readonly unknown[] =>
      wantsOf(verdictOf({ images })).map(({ image, pull }) => [image, pull]);
    expect(pulls({ "a:1": ["amd64"] })).toEqual([["a:1", "IfNotPresent"]]);
    expect(pulls({ "a:1": ["amd64"], "b:1": ["arm64"] })).toEqual([
      ["a:1", "Always"],
      ["b:1", "Always"],
    ]);
  });
});

describe("whatever is known of the images", () => {
  const known = fc.oneof(
    fc.subarray(["amd64", "arm64", "s390x"], { minLength: 1 }),
    fc.constant(undefined),
    fc.constantFrom<Reason>("ImageNotFound", "RegistryUnreachable").map((failed) => ({ failed })),
  );
  const someImages = fc.array(known, { minLength: 1, maxLength: 4 });
  const spec = fc.record<PolicyInit>({
    unresolvable: fc.constantFrom("Open", "Closed"),
    afterMaxHold: fc.constantFrom("Fallback", "Release", "Keep"),
    fallbackArchitectures: fc.subarray(["amd64", "arm64"], { minLength: 1 }),
  });

  it("a pod is never let run where an image is known not to, nor kept from where all do", () => {
    fc.assert(
      fc.property(someImages, spec, fc.nat(60_000), (list, policy, heldMs) => {
        const pod = list.map((_, at) => `i${at}`);
        const entries = list.map((it, at) => [`i${at}`, it] as const);
        const images = Object.fromEntries(entries.filter(([, it]) => it !== undefined)) as KnownImages;
        const verdict = verdictOf({ images, pod, policy, heldMs });
        const sets = list.filter((it) => Array.isArray(it));
        const common = ["amd64", "arm64", "s390x"].filter((it) => sets.every((set) => set.includes(it)));
        const isComplete = sets.length === list.length;
        expect(verdict.kind === "impossible").toBe(common.length === 0);
        const allowed = verdict.kind === "fits" ? verdict.architectures : [];
        expect(allowed.length > 0).toBe(verdict.kind === "fits");
        expect(sets.length === 0 || allowed.every((it) => common.includes(it))).toBe(true);
        expect(verdict.kind === "any" && sets.length > 0).toBe(false);
        expect(isComplete && common.length > 0 ? allowed : common).toEqual(common);
      }),
    );
  });
});
