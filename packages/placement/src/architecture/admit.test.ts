import { applyPatch } from "@berth/host";
import type { DaemonSet, Pod } from "@berth/kube";
import { aPod, type PodBuilder } from "@berth/testcluster";
import * as fc from "fast-check";
import { describe, expect, it } from "vitest";
import { cpuMsOf } from "../../../runtime/src/testing/cpu-cost.ts";
import { wantedFor } from "./admission-trace.ts";
import {
  type ArchitectureAnswer,
  type ArchitectureQuestion,
  admitDaemonSet,
  admitImage,
  admitPod,
} from "./admit.ts";
import {
  admit,
  after,
  both,
  type Context,
  contextOf,
  holding,
  IMAGES,
  POD,
  patchOf,
  type Setting,
  taint,
} from "./testing/admitting.ts";
import { sightOf } from "./testing/observations.ts";
import { type PolicyInit } from "./testing/policies.ts";
import { arch, GATE, gatedBy, os, requiring, requiringTerms, tolerating } from "./testing/specs.ts";

describe("a running pod gets a new image", () => {
  const said = (pod: PodBuilder, setting: Setting = {}, operation: "CREATE" | "UPDATE" = "UPDATE") =>
    admitImage(contextOf(setting), { kind: POD, operation, object: pod.build() });
  const warning =
    "ImageNotForNode: container main (docker.io/library/amd:latest) runs on amd64, and the node n is arm64";

  it("and its author is warned where it does not run on the node of the pod", () => {
    const answer = { allowed: true, patch: [], warnings: [warning] };
    expect(said(aPod("p").image("amd").container("side", "arm").on("n"))).toEqual(answer);
  });

  it.each<[string, PodBuilder, Setting?]>([
    ["it runs there", aPod("p").image("multi").on("n")],
    ["it is not known yet", aPod("p").image("new").on("n")],
    ["the node does not say what it is", aPod("p").image("amd").on("other")],
    ["the namespace is not known", aPod("p").image("amd").on("n"), { labels: null }],
    ["no policy governs it", aPod("p").image("amd").on("n"), { policies: {} }],
    ["it is silenced", aPod("p").image("amd").on("n").annotated({ "berth.dev/silence": "ImageNotForNode" })],
  ])("and nothing is said where %s", (_, pod, setting) => {
    expect(said(pod, setting)).toEqual({ allowed: true, patch: [] });
  });

  it("and is created otherwise", () => {
    expect(said(aPod("p").image("amd").on("n"), {}, "CREATE")).toEqual({ allowed: true, patch: [] });
    expect(admitImage(contextOf({}), { kind: POD, operation: "UPDATE", object: 1 })).toMatchObject({
      patch: [],
    });
  });
});

describe("a pod is created whose images are known", () => {
  it("A-B11 its affinity is narrowed in one patch, and there is no gate", () => {
    const { spec } = after(aPod("p").image("multi").container("side", "amd"));
    expect(spec?.affinity).toEqual(requiring(arch("amd64"), os));
    expect(spec?.schedulingGates).toBeUndefined();
    expect(spec?.tolerations).toBeUndefined();
  });

  it("A-P4 A-P5 with taints: it tolerates what all its images run on", () => {
    expect(after(aPod("p").image("multi"), taint).spec?.tolerations).toEqual(
      ["amd64", "arm64"].map(tolerating),
    );
    const { spec } = after(aPod("p").image("multi").container("side", "amd").tolerating({ key: "x" }), taint);
    expect(spec?.tolerations).toEqual([{ key: "x" }, tolerating("amd64")]);
    expect(spec?.affinity).toBeUndefined();
  });

  it("A-P7 tolerating it already, it stays as it is", () => {
    for (const toleration of [tolerating("amd64"), { operator: "Exists" }]) {
      expect(patchOf(admit(aPod("p").image("amd").tolerating(toleration), taint))).toEqual([]);
    }
  });

  it("A-P11 none in common: no toleration; where affinity holds, refused with both containers named", () => {
    const pod = aPod("p").image("amd").container("side", "arm");
    expect(patchOf(admit(pod, taint))).toEqual([]);
    const answer = admit(pod);
    if (answer.allowed) throw new Error("it was let through");
    expect(answer.message).toBe(
      "container main (docker.io/library/amd:latest) runs on amd64, container side (docker.io/library/arm:latest) on arm64: no architecture runs both (architecture policy p; the annotation berth.dev/architectures of the pod overrides it)",
    );
    expect(admit(pod, { policies: { p: { mode: "Taint", impossible: "Refuse" } } }).allowed).toBe(false);
    const held = after(pod, holding);
    expect(held.spec?.schedulingGates).toEqual([GATE]);
    expect(held.spec?.affinity).toBeUndefined();
  });

  it("I-11 required architecture that an image does not have: refused or held, with image and requirement named", () => {
    const pod = aPod("p").image("amd").selecting({ "kubernetes.io/arch": "arm64" });
    const answer = admit(pod);
    if (answer.allowed) throw new Error("it was let through");
    expect(answer.message).toContain("runs on amd64, and the pod requires kubernetes.io/arch=arm64");
    expect(patchOf(admit(pod, taint))).toEqual([]);
    const held = after(pod, holding);
    expect(held.spec).toMatchObject({ schedulingGates: [GATE] });
    expect(held.spec?.affinity).toBeUndefined();
  });

  it("I-11 preset multiarch-tuning-operator: it is as it was sent, and nothing is refused", () => {
    const preset = { mode: "Affinity", preset: "multiarch-tuning-operator" } as const;
    const setting: Setting = { policies: { p: preset } };
    expect(
      patchOf(admit(aPod("p").image("amd").selecting({ "kubernetes.io/arch": "arm64" }), setting)),
    ).toEqual([]);
    const impossible = aPod("p").image("amd").container("side", "arm");
    expect(after(impossible, setting).spec?.schedulingGates).toEqual([GATE]);
    const strict = { policies: { p: { ...preset, impossible: "Refuse" } } } as const;
    expect(admit(impossible, strict).allowed).toBe(false);
  });

  it("is refused only by fresh facts: with tags that may have moved it is held, and these are looked up", () => {
    const pod = aPod("p").image("amd").container("side", "arm").build();
    const known = sightOf(IMAGES);
    const stale: Context["observations"] = {
      look: (question) =>
        question.pull === "Always" && question.image === "arm"
          ? { state: "unknown", name: "arm" }
          : known.look(question),
    };
    const pulled = (image: string) => ({ name: image, image, imagePullPolicy: "IfNotPresent" });
    const object = { ...pod, spec: { containers: [pulled("amd"), pulled("arm")] } };
    const question = { kind: POD, operation: "CREATE", object, namespace: "default" };
    expect(admitPod(contextOf({}), question)).toMatchObject({ allowed: false });
    expect(admitPod({ ...contextOf({}), observations: stale }, question)).toMatchObject({
      patch: [{ op: "add", path: "/spec/schedulingGates", value: [GATE] }],
    });
    const held = gatedBy(
      aPod("p").with((it) => ({ ...it, spec: object.spec })),
      GATE,
    );
    expect(wantedFor({ ...contextOf({}), observations: stale }, held.build())).toMatchObject([
      { image: "amd", pull: "Always" },
      { image: "arm", pull: "Always" },
    ]);
  });

  it("both ways at once, for moving from one to the other", () => {
    const { spec } = after(aPod("p").image("amd"), both);
    expect(spec?.tolerations).toEqual([tolerating("amd64")]);
    expect(spec?.affinity).toEqual(requiring(arch("amd64"), os));
  });

  it("tolerates the taints of policies that do not govern it", () => {
    const key = "kubernetes.io/arch";
    const policies: Setting["policies"] = {
      affine: { mode: "Affinity", priority: 1, podSelector: { matchLabels: { app: "a" } } },
      other: { mode: "Taint", podSelector: { matchLabels: { app: "b" } }, taint: { key } },
    };
    const spec = (app: string): unknown => after(aPod("p").image("amd").labelled({ app }), { policies }).spec;
    expect(spec("a")).toMatchObject({
      tolerations: [{ key, value: "amd64", effect: "NoSchedule" }],
      affinity: requiring(arch("amd64"), os),
    });
    const exists = { key, operator: "Exists", effect: "NoSchedule" };
    expect(spec("c")).toMatchObject({ tolerations: [exists] });
    expect(spec("c")).not.toHaveProperty("affinity");
  });
});

describe("a pod is created whose images are not all known", () => {
  it("is gated where affinity holds, behind the gates of others; once it is stored its images are looked up", () => {
    const pod = aPod("p").image("amd").container("new", "new");
    expect(wantedFor(contextOf({}), after(pod))).toMatchObject([{ image: "amd" }, { image: "new" }]);
    expect(wantedFor(contextOf({ labels: null }), after(pod))).toEqual([]);
    expect(wantedFor(contextOf({}), after(pod.on("n")))).toEqual([]);
    expect(after(pod).spec?.schedulingGates).toEqual([GATE]);
    const gated = gatedBy(pod, { name: "kueue.x-k8s.io/admission" });
    expect(after(gated).spec?.schedulingGates).toEqual([{ name: "kueue.x-k8s.io/admission" }, GATE]);
    expect(after(gated).spec?.affinity).toBeUndefined();
  });

  it("with taints alone there is nothing to hold it for", () => {
    expect(patchOf(admit(aPod("p").image("new"), taint))).toEqual([]);
    expect(wantedFor(contextOf(taint), aPod("p").image("new").build())).toMatchObject([{ image: "new" }]);
  });

  it("A-B8 one that cannot be resolved: open it runs, closed it is held", () => {
    expect(patchOf(admit(aPod("p").image("gone")))).toEqual([]);
    const closed: Setting = { policies: { p: { mode: "Affinity", unresolvable: "Closed" } } };
    expect(after(aPod("p").image("gone"), closed).spec?.schedulingGates).toEqual([GATE]);
    const beside = after(aPod("p").image("amd").container("side", "gone"));
    expect(beside.spec?.affinity).toEqual(requiring(arch("amd64"), os));
  });

  it("in a namespace that is not known yet: held only if it may come to be narrowed", () => {
    const unknown = { labels: null };
    expect(after(aPod("p").image("amd"), unknown).spec).toMatchObject({ schedulingGates: [GATE] });
    expect(patchOf(admit(aPod("p").image("amd"), { ...taint, ...unknown }))).toEqual([]);
    const excluded: Setting = { policies: { p: { mode: "Affinity", excludedNamespaces: ["default"] } } };
    expect(patchOf(admit(aPod("p"), { ...excluded, ...unknown }))).toEqual([]);
  });
});

describe("a pod that is left alone", () => {
  it.each<readonly [string, PodBuilder | Pod]>([
    ["has its node", aPod("p").image("amd").on("n")],
    ["is static", aPod("p").image("amd").annotated({ "kubernetes.io/config.mirror": "hash" })],
  ])("%s", (_, pod) => {
    expect(admit(pod, both)).toEqual({ allowed: true, patch: [] });
  });

  it("of a DaemonSet or of kube-system: gets tolerations, and neither affinity nor a refusal", () => {
    for (const pod of [aPod("p").ofDaemonSet("ds"), aPod("p").in("kube-system")]) {
      const { spec } = after(pod.image("amd"), both);
      expect(spec).toMatchObject({ tolerations: [tolerating("amd64")] });
      expect(spec?.affinity).toBeUndefined();
      expect(patchOf(admit(pod.image("new"), both))).toEqual([]);
      expect(patchOf(admit(pod.image("amd").container("b", "arm"), both))).toEqual([]);
    }
  });

  it("opted out: tolerates everything, where there are taints", () => {
    const exists = { key: "supported-arch", operator: "Exists", effect: "NoSchedule" };
    const optedOut = { labels: { "berth.dev/architecture": "ignore" } };
    expect(after(aPod("p").image("amd"), { ...both, ...optedOut }).spec?.tolerations).toEqual([exists]);
    expect(after(aPod("p").in("berth-system").image("amd"), both).spec?.tolerations).toEqual([exists]);
    expect(patchOf(admit(aPod("p").image("amd"), optedOut))).toEqual([]);
    expect(patchOf(admit(aPod("p").image("amd"), { policies: {} }))).toEqual([]);
  });

  it("A-B8 names its architectures itself", () => {
    const pod = aPod("p").image("amd").annotated({ "berth.dev/architectures": "s390x" });
    expect(after(pod).spec?.affinity).toEqual(requiring(arch("s390x"), os));
    expect(patchOf(admit(aPod("p").image("new").annotated({ "berth.dev/architectures": "*" })))).toEqual([]);
  });

  it("is no Pod, or not created", () => {
    const object = aPod("p").image("amd").build();
    const context = contextOf(both);
    const questions: readonly ArchitectureQuestion[] = [
      { kind: { kind: "Node" }, operation: "CREATE", object },
      { kind: POD, operation: "UPDATE", object },
      { kind: POD, operation: "CREATE", object, subResource: "binding" },
      { kind: POD, operation: "CREATE" },
    ];
    for (const question of questions) expect(admitPod(context, question)).toMatchObject({ patch: [] });
  });
});

describe("whatever pod is created", () => {
  const container = fc.record({
    name: fc.constantFrom("a", "b"),
    image: fc.constantFrom("amd", "multi", "new", "gone"),
  });
  const pod = fc.record(
    {
      containers: fc.array(container, { minLength: 1, maxLength: 3 }),
      initContainers: fc.array(fc.constant({ restartPolicy: "Always", image: "amd" })),
      schedulingGates: fc.subarray([{ name: "a" }, GATE, { name: "b" }]),
      tolerations: fc.subarray([{ operator: "Exists" }, { key: "x" }, tolerating("amd64")]),
      hostUsers: fc.boolean(),
      fieldOfTheFuture: fc.anything({ maxDepth: 2 }),
    },
    { requiredKeys: ["containers"] },
  );
  const setting = fc.record({
    mode: fc.constantFrom<PolicyInit["mode"]>("Taint", "Affinity", "Both"),
    unresolvable: fc.constantFrom<PolicyInit["unresolvable"]>("Open", "Closed"),
    preferences: fc.constantFrom([], [{ architecture: "arm64", weight: 5 }]),
  });

  it("asked twice, the webhook says nothing new; every other byte stays, and earlier entries keep their order", () => {
    fc.assert(
      fc.property(pod, setting, (spec, policy) => {
        const text = JSON.stringify({ metadata: { namespace: "n", extra: 1 }, spec, more: [1] });
        const object = JSON.parse(text) as Pod;
        const policies = { policies: { p: policy as PolicyInit } };
        const once = applyPatch(object, patchOf(admit(object, policies))) as Pod;
        expect(patchOf(admit(once, policies))).toEqual([]);
        const [now, before] = [once.spec ?? { containers: [] }, object.spec ?? { containers: [] }];
        const { tolerations = [], schedulingGates = [], affinity: _, ...rest } = now;
        const { tolerations: had = [], schedulingGates: gates = [], ...others } = before;
        expect(rest).toEqual(others);
        expect({ ...once, spec: 0 }).toEqual({ ...object, spec: 0 });
        expect(tolerations.slice(0, had.length)).toEqual(had);
        const foreign = (it: { readonly name: string }): boolean => it.name !== GATE.name;
        expect(schedulingGates.filter(foreign)).toEqual(gates.filter(foreign));
      }),
      { numRuns: 300 },
    );
  });

  it("a second webhook adds a container: what is in common gets less, and the gate comes or goes with the facts", () => {
    const first = after(aPod("p").image("multi"));
    const containers = [...(first.spec?.containers ?? []), { name: "mesh", image: "arm" }];
    const injected: Pod = { ...first, spec: { ...first.spec, containers } };
    const second = applyPatch(injected, patchOf(admit(injected))) as Pod;
    expect(second.spec?.affinity).toEqual(requiring(arch("amd64", "arm64"), os, arch("arm64")));
    const gated = after(aPod("p").image("new"));
    const known = { images: { new: ["arm64"] } };
    const third = applyPatch(gated, patchOf(admit(gated, known))) as Pod;
    expect(third.spec).toMatchObject({ schedulingGates: [], affinity: requiring(arch("arm64"), os) });
  });

  it("the webhook never fails", () => {
    const part = fc.oneof(fc.anything({ withNullPrototype: true }), fc.array(fc.anything()));
    const lists = { containers: part, tolerations: part, schedulingGates: part };
    const parts = { ...lists, nodeSelector: part, os: part, template: part };
    const some = { requiredKeys: [] };
    const hostile = fc.oneof(
      part,
      fc.record({
        metadata: fc.record({ labels: part, annotations: part, ownerReferences: part, namespace: part }),
        spec: fc.record({ ...parts, affinity: fc.oneof(part, fc.record({ nodeAffinity: part })) }, some),
      }),
    );
    fc.assert(
      fc.property(hostile, (object) => {
        const context = contextOf(both);
        const asked = { operation: "CREATE", object, namespace: "n" };
        expect(admitPod(context, { ...asked, kind: POD }).allowed).toBe(true);
        expect(admitDaemonSet(context, { ...asked, kind: { kind: "DaemonSet" } }).allowed).toBe(true);
      }),
      { numRuns: 500 },
    );
  });
});

describe("a DaemonSet", () => {
  const kind = { kind: "DaemonSet" };
  const path = "/spec/template/spec/tolerations";
  const record = { path: "/metadata/annotations" };
  const daemonSet = (image: string, more: object = {}): object => ({
    metadata: { namespace: "default" },
    spec: { template: { spec: { containers: [{ name: "a", image }], ...more } } },
  });
  const admitted = (question: Partial<ArchitectureQuestion>, setting = taint): ArchitectureAnswer =>
    admitDaemonSet(contextOf(setting), { kind, operation: "CREATE", ...question });

  it("is created: its pods tolerate where its images run", () => {
    expect(admitted({ object: daemonSet("amd") })).toMatchObject({
      patch: [{ op: "add", path, value: [tolerating("amd64")] }, record],
    });
    const standing = { tolerations: [{ key: "x" }] };
    expect(admitted({ object: daemonSet("amd", standing) })).toMatchObject({
      patch: [{ op: "add", path: `${path}/-`, value: tolerating("amd64") }, record],
    });
    expect(admitted({ object: daemonSet("new") })).toMatchObject({ patch: [] });
    expect(admitted({ object: daemonSet("amd") }, {})).toMatchObject({ patch: [] });
  });

  it("is updated: only when its template changes anyway", () => {
    const [old, object] = [daemonSet("multi"), daemonSet("amd")];
    expect(admitted({ operation: "UPDATE", object, oldObject: object })).toMatchObject({ patch: [] });
    expect(admitted({ operation: "UPDATE", object, oldObject: old })).toMatchObject({
      patch: [{ op: "add", path, value: [tolerating("amd64")] }, record],
    });
    expect(admitted({ operation: "DELETE", oldObject: object })).toMatchObject({ patch: [] });
    expect(admitted({ kind: POD, object })).toMatchObject({ patch: [] });
  });

  it("for want of facts gets nothing beyond what it was given with facts", () => {
    const object = daemonSet("gone", { tolerations: [tolerating("amd64")] });
    const changed = admitted({ operation: "UPDATE", object, oldObject: daemonSet("amd") });
    expect(changed).toMatchObject({ patch: [] });
    expect(admitted({ object: daemonSet("gone") })).toMatchObject({
      patch: [{ value: [{ key: "supported-arch", operator: "Exists" }] }, record],
    });
  });

  it.each([
    ["facts are lost", "new", taint],
    ["its image cannot be had any more", "gone", taint],
    ["its namespace is not known", "amd", { ...taint, labels: null }],
  ] as const)(
    "sent as its owner keeps it while %s: keeps what it was given, and so rolls out nothing",
    (_, image, setting) => {
      const given = [{ key: "own" }, tolerating("amd64")];
      const oldObject = daemonSet(image, { tolerations: given });
      const update = (object: object): ArchitectureAnswer =>
        admitted({ operation: "UPDATE", object, oldObject }, setting);
      const object = daemonSet(image, { tolerations: [{ key: "own" }] });
      expect(applyPatch(object, patchOf(update(object)))).toMatchObject({
        spec: (oldObject as DaemonSet).spec,
      });
      const value = [tolerating("amd64")];
      expect(update(daemonSet(image))).toMatchObject({ patch: [{ path, value }, record] });
      // Of other images nothing is known from before.
      expect(update(daemonSet(`${image}-2`))).toMatchObject({ patch: [] });
    },
  );

  it("keeps no toleration of a key that is not in force", () => {
    const oldObject = daemonSet("new", { tolerations: [{ ...tolerating("amd64"), key: "other" }] });
    const changed = admitted({ operation: "UPDATE", object: daemonSet("new"), oldObject });
    expect(changed).toMatchObject({ patch: [] });
  });
});

describe.skipIf(process.env["BERTH_MUTATES"])("S-6 a pod with as many elements as a review may have", () => {
  const times = <T>(count: number, itemOf: (index: number) => T): readonly T[] =>
    Array.from({ length: count }, (_, index) => itemOf(index));
  const containers = times(900, () => ({ image: "amd" }));
  const terms = times(7000, (index) => ({ matchExpressions: [arch(`a${index}`)] }));
  const open = times(8000, () => ({ matchExpressions: [{ key: "x", operator: "Exists" }] }));
  const expressions = times(9000, (index) => arch(`a${index}`));
  it.each<readonly [string, object]>([
    ["images", { containers: times(20_000, (index) => ({ image: `r.test/app-${index}` })) }],
    ["known images", { containers: times(20_000, () => ({ image: "multi" })) }],
    ["image volumes", { volumes: times(13_000, (index) => ({ image: { reference: `r.test/m-${index}` } })) }],
    [
      "images and pull secrets",
      {
        containers: times(500, (index) => ({ image: `r.test/app-${index}` })),
        imagePullSecrets: times(19_000, (index) => ({ name: `secret-${index}` })),
      },
    ],
    ["images and terms", { containers, ...requiringTerms(...terms) }],
    ["images and expressions", { containers, affinity: requiring(...expressions) }],
    ["open terms", { containers: [{ image: "multi" }], ...requiringTerms(...open) }],
    [
      "tolerations",
      { containers: [{ image: "multi" }], tolerations: times(20_000, (index) => ({ key: `k${index}` })) },
    ],
  ])("costs less than ten copies of it as JSON, which are some 100 ms: %s", (_what, spec) => {
    const context = contextOf({ policies: { p: { mode: "Both", impossible: "Refuse" } } });
    const object = { metadata: { namespace: "default" }, spec };
    const question = { kind: POD, operation: "CREATE", object, namespace: "default" };
    const copies = cpuMsOf(() => {
      for (let done = 0; done < 10; done += 1) JSON.parse(JSON.stringify(question));
    });
    const answer = cpuMsOf(() => void JSON.stringify(admitPod(context, question)));
    expect(answer).toBeLessThan(copies);
  });
});
