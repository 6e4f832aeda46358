/**
 * What the API server asks Berth about new pods, on the whole product with a real registry: facts that are known cost no
 * write, facts that are not cost one, and nothing but what is ours changes.
 */

import { type KubeObject, namespaces, type Pod } from "@berth/kube";
import { ARCHITECTURES_ANNOTATION, architecturePolicies } from "@berth/placement";
import {
  anImage,
  eventually,
  type PodBuilder,
  startRegistry,
  type TestCluster,
  type TestRegistry,
} from "@berth/testcluster";
import { afterAll, beforeAll, describe, expect, it } from "vitest";
import {
  type ArchitectureFixture,
  architecturesOf,
  createArchitectureFixture,
  isHeld,
  refusalOf,
  sharedArchitectureCluster,
  tolerationsFor,
  tolerationsOf,
} from "./architecture-fixture.ts";
import { injector, othersOf, reviewed } from "./architecture-reviews.ts";
import { taintsOf } from "./fixture.ts";

let cluster: TestCluster;
let registry: TestRegistry;
/** Images that every test may use; each test finds out for itself whether they are known. */
const images = { both: "", amd: "", arm: "" };
beforeAll(async () => {
  [cluster, registry] = await Promise.all([sharedArchitectureCluster(), startRegistry()]);
  images.both = await pushed("all/both:1", "linux/amd64", "linux/arm64");
  images.amd = await pushed("all/amd:1", "linux/amd64");
  images.arm = await pushed("all/arm:1", "linux/arm64");
});
afterAll(async () => {
  await registry?.[Symbol.asyncDispose]();
});

async function pushed(name: string, ...platforms: readonly string[]): Promise<string> {
  return (await registry.push(anImage(name).platforms(...platforms))).reference;
}

/** A fixture whose API server asks Berth, under one policy, with all images of all tests known. */
async function asked(
  name: string,
  spec: object,
  failurePolicy: "Ignore" | "Fail" = "Ignore",
): Promise<ArchitectureFixture> {
  await using owned = new AsyncDisposableStack();
  const fixture = owned.use(await createArchitectureFixture(cluster, name, [registry]));
  await fixture.policy("all", { maxHold: "5m", ...spec });
  await fixture.start({ asked: failurePolicy });
  await fixture.asking();
  for (const [at, image] of Object.values(images).entries()) await known(fixture, `known-${at}`, image);
  owned.move();
  return fixture;
}

/** Resolves once it is known what the image runs on: a pod of it is decided at its creation. */
async function known(fixture: ArchitectureFixture, name: string, image: string): Promise<void> {
  await fixture.create(fixture.pod(name).image(image));
  await eventually(async () => {
    const { spec } = await fixture.create(fixture.pod(`${name}-tried`).image(image), { dryRun: true });
    if (!/(amd|arm)64/.test(JSON.stringify([spec?.affinity, spec?.tolerations])))
      throw new Error(`${image} is not known`);
  });
  await fixture.letGo(name);
}

describe("S-1 a review of a pod whose images are not known", () => {
  it("reads no Secret and asks no registry; both are done once the pod is stored", async () => {
    await using fixture = await asked("forged", { mode: "Both" });
    await fixture.pullSecret("regcred", registry.host, "victim", "correct-horse-battery");
    const image = await pushed("forged/app:1", "linux/arm64");
    const imagePullSecrets = [{ name: "regcred" }];
    const spec = { containers: [{ name: "main", image }], imagePullSecrets };
    const metadata = { name: "app", namespace: fixture.name };
    const mark = registry.requests.mark();
    const audited = await cluster.audit.mark();
    expect(await reviewed(cluster.client, "Pod", { metadata, spec } as KubeObject)).toEqual([
      "add /spec/schedulingGates",
    ]);
    expect(
      await reviewed(cluster.client, "DaemonSet", { metadata, spec: { template: { spec } } } as KubeObject),
    ).toEqual([]);
    // What a review had asked for would be asked before the image of a pod that is made later.
    await fixture.create(fixture.pod("last").image(await pushed("forged/last:1", "linux/arm64")));
    await fixture.letGo("last");
    const reads = async (): Promise<number> =>
      (await fixture.requests(audited, "secrets")).filter(({ name }) => name === "regcred").length;
    expect([registry.requests.countSince(mark, { repository: "forged/app" }), await reads()]).toEqual([0, 0]);
    await fixture.create(fixture.pod("app").with((pod) => ({ ...pod, spec: { ...pod.spec, ...spec } })));
    expect(architecturesOf(await fixture.letGo("app"))).toEqual([["arm64"]]);
    expect(await reads()).toBe(1);
  });

  it("A-B1 holds the first pod that can run nowhere, which its condition and Event tell, and refuses the next", async () => {
    await using fixture = await asked("observations", { mode: "Affinity" });
    const [amd, arm] = await Promise.all([
      pushed("observations/amd:1", "linux/amd64"),
      pushed("observations/arm:1", "linux/arm64"),
    ]);
    const pod = (name: string): PodBuilder => fixture.pod(name).image(amd).container("sidecar", arm);
    expect(isHeld(await fixture.create(pod("first")))).toBe(true);
    const { note = "" } = await fixture.event("NoCommonArchitecture", "first");
    for (const part of ["container main", amd, "container sidecar", arm]) expect(note).toContain(part);
    await eventually(async () => {
      const { status } = await fixture.readPod("first");
      expect(status?.conditions).toContainEqual(
        expect.objectContaining({ type: "berth.dev/ArchitectureFits", status: "False", message: note }),
      );
    });
    expect(isHeld(await fixture.readPod("first"))).toBe(true);
    const said = await refusalOf(fixture.create(pod("second")));
    for (const part of [note, "amd64", "arm64", ARCHITECTURES_ANNOTATION]) expect(said).toContain(part);
    const annotated = pod("third").annotated({ [ARCHITECTURES_ANNOTATION]: "amd64" });
    expect(architecturesOf(await fixture.create(annotated))).toEqual([["amd64"]]);
  });
});

describe("a pod whose images are known", () => {
  it("A-B11 is stored narrowed, and costs no write beside its creation", async () => {
    await using fixture = await asked("hit", { mode: "Affinity" });
    const mark = await cluster.audit.mark();
    for (let at = 0; at < 20; at++) {
      const stored = await fixture.create(
        fixture.pod(`app-${at}`).image(images.both).container("b", images.amd),
      );
      expect(architecturesOf(stored)).toEqual([["amd64"]]);
      expect(isHeld(stored)).toBe(false);
    }
    // One that needs a patch comes after all of them.
    await fixture.create(fixture.pod("last").image(await pushed("hit/last:1", "linux/arm64")));
    await fixture.letGo("last");
    expect(await fixture.podWrites(mark)).toEqual(["patch 200"]);
    expect(await fixture.podEvents()).toEqual([]);
  });
});

describe("a pod whose images are not known", () => {
  it("A-B11 is held, and narrowed in the one patch that lets it go", async () => {
    await using fixture = await asked("miss", { mode: "Affinity" });
    const mark = await cluster.audit.mark();
    const names: string[] = [];
    for (let at = 0; at < 5; at++) {
      const image = await pushed(`miss/app-${at}:1`, "linux/arm64");
      const stored = await fixture.create(fixture.pod(`app-${at}`).image(image));
      expect(isHeld(stored)).toBe(true);
      names.push(`app-${at}`);
    }
    for (const name of names) expect(architecturesOf(await fixture.letGo(name))).toEqual([["arm64"]]);
    for (const name of names) expect(await fixture.podWrites(mark, name)).toEqual(["patch 200"]);
    expect(await fixture.podEvents()).toEqual([]);
  });

  it("A-B9 keeps the gates of others, in their order, and all else that this release does not know of", async () => {
    await using fixture = await asked("others", { mode: "Both" });
    const image = await pushed("others/app:1", "linux/amd64", "linux/arm64");
    const schedulingGates = [{ name: "example.com/quota" }, { name: "example.com/later" }];
    const spread = { maxSkew: 1, topologyKey: "zone", whenUnsatisfiable: "ScheduleAnyway" };
    const fields = {
      schedulingGates,
      hostUsers: false,
      initContainers: [{ name: "sidecar", image, restartPolicy: "Always" }],
      topologySpreadConstraints: [{ ...spread, nodeTaintsPolicy: "Honor" }],
      resourceClaims: [{ name: "gpu", resourceClaimName: "gpu" }],
      resources: { requests: { cpu: "100m" } },
    };
    const mine = { key: "example.com/mine", operator: "Exists" };
    const rich = (name: string): PodBuilder => {
      const plain = fixture.pod(name).image(image).tolerating(mine);
      return plain.with((pod) => ({ ...pod, spec: { containers: [], ...pod.spec, ...fields } }));
    };
    const stored = await fixture.create(rich("app"));
    const after = await fixture.letGo("app");
    expect(after.spec?.schedulingGates).toEqual(schedulingGates);
    expect(architecturesOf(after)).toEqual([["amd64", "arm64"]]);
    expect(othersOf(after)).toEqual(othersOf(stored));
    const later = await fixture.create(rich("later"));
    expect(architecturesOf(later)).toEqual([["amd64", "arm64"]]);
    for (const pod of [after, later]) {
      const theirs = pod.spec?.tolerations?.filter(({ key }) => key !== "supported-arch");
      expect(theirs).toEqual(stored.spec?.tolerations);
    }
    const { hostname: _, ...spec } = later.spec ?? {};
    expect(othersOf({ spec: { containers: [], ...spec } })).toEqual(othersOf(stored));
  });

  it("A-B9 is answered by a patch that names nothing but what is ours, whatever else there is in it", async () => {
    await using fixture = await asked("future", { mode: "Both" });
    const container = { name: "main", image: images.arm, futureField: { deep: ["x"] } };
    const metadata = { name: "app", namespace: fixture.name, futureMeta: true };
    const tolerations = [{ key: "x", futureToleration: 1 }];
    const spec = { containers: [container], futureSpec: [1, { a: null }], tolerations };
    const pod = { apiVersion: "v1", kind: "Pod", metadata, spec };
    expect(await reviewed(cluster.client, "Pod", pod)).toEqual([
      "add /spec/tolerations/-",
      "add /spec/affinity",
    ]);
  });
});

describe("I-11 a pod that states its own architecture", () => {
  const condition = ({ status }: Pod): object | undefined =>
    status?.conditions?.find(({ type }) => type === "berth.dev/ArchitectureFits");
  const prefer = { preferences: [{ architecture: "arm64", weight: 75 }] };
  const preferring = (pod: PodBuilder): PodBuilder =>
    pod.with((it) => {
      const matchExpressions = [{ key: "kubernetes.io/arch", operator: "In", values: ["amd64"] }];
      const terms = [{ weight: 1, preference: { matchExpressions } }];
      const nodeAffinity = { preferredDuringSchedulingIgnoredDuringExecution: terms };
      return { ...it, spec: { containers: [], ...it.spec, affinity: { nodeAffinity } } };
    });
  const preferencesOf = ({ spec }: Pod): readonly object[] =>
    spec?.affinity?.nodeAffinity?.preferredDuringSchedulingIgnoredDuringExecution ?? [];
  const onArm = { "kubernetes.io/arch": "arm64" };

  it("keeps its preference, and is refused where it requires what its image does not have", async () => {
    await using fixture = await asked("own", { mode: "Affinity", ...prefer });
    const pod = preferring(fixture.pod("prefers").image(images.both));
    expect(preferencesOf(await fixture.create(pod))).toEqual(preferencesOf(pod.build()));
    const said = await refusalOf(fixture.create(fixture.pod("app").image(images.amd).selecting(onArm)));
    for (const part of [images.amd, "runs on amd64", "kubernetes.io/arch=arm64", ARCHITECTURES_ANNOTATION])
      expect(said).toContain(part);
  });

  it("is held with an Event and a condition where impossible is Hold, and counted", async () => {
    await using fixture = await asked("own-hold", { mode: "Affinity", impossible: "Hold" });
    await fixture.create(fixture.pod("app").image(images.amd).selecting(onArm));
    const { note = "" } = await fixture.event("RequiredArchitectureConflict", "app");
    expect(note).toContain("and the pod requires kubernetes.io/arch=arm64");
    const reason = "RequiredArchitectureConflict";
    await eventually(async () => {
      const found = await fixture.readPod("app");
      expect([isHeld(found), condition(found)]).toEqual([
        true,
        expect.objectContaining({ status: "False", reason, message: note }),
      ]);
    });
    await eventually(async () => expect((await fixture.status("all")).impossiblePods).toBe(1));
    await cluster.client.deleteCollection(architecturePolicies, {});
    expect(condition(await fixture.letGo("app", { timeoutMs: 15_000 }))).toBeUndefined();
  });

  it("is left alone by the preset multiarch-tuning-operator, and an operator bundle restricts nothing", async () => {
    await using fixture = await asked("own-preset", {
      mode: "Affinity",
      preset: "multiarch-tuning-operator",
    });
    const image = await pushed("own/new:1", "linux/amd64");
    const left = await fixture.create(fixture.pod("app").image(image).selecting(onArm));
    expect([isHeld(left), architecturesOf(left), left.spec?.nodeSelector]).toEqual([false, [], onArm]);
    const labels = { "operators.operatorframework.io.bundle.mediatype.v1": "registry+v1" };
    const bundle = await registry.push(anImage("own/bundle:1").labelled(labels));
    await fixture.create(fixture.pod("unpack").image(images.arm).initContainer("pull", bundle.reference));
    expect(architecturesOf(await fixture.letGo("unpack"))).toEqual([["arm64"]]);
    expect(await fixture.podEvents()).toEqual([]);
  });
});

describe("pods that are left alone", () => {
  it("are those of kube-system, of namespaces that are opted out or excluded, and of other selectors", async () => {
    await using fixture = await asked("spared", {
      mode: "Affinity",
      excludedNamespaces: ["spared-excluded"],
      podSelector: { matchExpressions: [{ key: "arch", operator: "NotIn", values: ["mine"] }] },
    });
    const { client } = cluster;
    await client.create(namespaces, { metadata: { name: "spared-excluded" } });
    const labels = { "berth.dev/architecture": "ignore" };
    await client.create(namespaces, { metadata: { name: "spared-ignored", labels } });
    const mark = await cluster.audit.mark();
    for (const namespace of ["kube-system", "spared-excluded", "spared-ignored", fixture.name]) {
      const pod = fixture.pod("app").in(namespace).image(images.arm);
      const stored = await fixture.create(namespace === fixture.name ? pod.labelled({ arch: "mine" }) : pod);
      expect([namespace, architecturesOf(stored), isHeld(stored)]).toEqual([namespace, [], false]);
    }
    await fixture.create(fixture.pod("last").image(await pushed("spared/last:1", "linux/arm64")));
    await fixture.letGo("last");
    expect(await fixture.podWrites(mark, "app")).toEqual([]);
  });
});

describe("the key of GKE", () => {
  it("A-B11 is tolerated by pods, and no node is touched, with taints that somebody else sets", async () => {
    const key = "kubernetes.io/arch";
    await using fixture = await createArchitectureFixture(cluster, "gke", [registry]);
    const before = await fixture.add("n", (it) => it.arm64().tainted(`${key}=arm64:NoSchedule`));
    await fixture.policy("all", { mode: "Taint", taint: { key, nodes: "Leave" } });
    await fixture.start({ asked: "Ignore" });
    await fixture.asking();
    await fixture.create(fixture.pod("app").image(images.both));
    await eventually(async () =>
      expect(tolerationsOf(await fixture.readPod("app"), key)).toEqual(
        tolerationsFor(["amd64", "arm64"], key),
      ),
    );
    expect(taintsOf(await fixture.readNode("n"))).toEqual(taintsOf(before));
  });
});

describe("while Berth is away", () => {
  it("pods come in as they are with failurePolicy Ignore, and are seen to afterwards in mode Both", async () => {
    await using fixture = await createArchitectureFixture(cluster, "away", [registry]);
    await fixture.policy("all", { mode: "Both" });
    const { berth } = await fixture.start({ asked: "Ignore" });
    await fixture.asking();
    await berth[Symbol.asyncDispose]();
    const stored = await fixture.create(fixture.pod("app").image(images.arm));
    expect([isHeld(stored), architecturesOf(stored), tolerationsOf(stored)]).toEqual([false, [], []]);
    await fixture.start({ asked: "Ignore" });
    const after = await fixture.tolerating("app", ["arm64"]);
    // A pod that is not gated cannot be narrowed any more.
    expect(architecturesOf(after)).toEqual([]);
  });

  it("pods are refused with failurePolicy Fail, but not those of kube-system nor of Berth itself", async () => {
    await using fixture = await createArchitectureFixture(cluster, "fail", [registry]);
    await fixture.policy("all", { mode: "Affinity" });
    const { berth } = await fixture.start({ asked: "Fail" });
    await fixture.asking();
    await berth[Symbol.asyncDispose]();
    expect(await refusalOf(fixture.create(fixture.pod("app").image(images.arm)))).toContain(
      "architecture.berth.dev",
    );
    for (const namespace of ["kube-system", "berth-system"]) {
      const stored = await fixture.create(fixture.pod("own").in(namespace).image(images.arm));
      expect(isHeld(stored)).toBe(false);
    }
    await fixture.start({ asked: "Fail" });
    await eventually(() => fixture.create(fixture.pod("app").image(images.arm)));
    expect(architecturesOf(await fixture.letGo("app"))).toEqual([["arm64"]]);
  });
});

describe("another webhook that adds a container later", () => {
  it("has the pod looked at again: it runs only where that one does as well", async () => {
    await using fixture = await asked("injected", { mode: "Affinity" });
    const unknown = await pushed("injected/sidecar:1", "linux/arm64");
    for (const [name, image] of [
      ["known", images.arm],
      ["unknown", unknown],
    ] as const) {
      await using _injector = await injector(fixture, name, image);
      const stored = await eventually(async () => {
        const tried = fixture.pod("injected").image(images.both).labelled({ inject: name });
        const made = await fixture.create(tried);
        if (made.spec?.containers.length === 2) return made;
        await fixture.deletePod("injected");
        throw new Error("nothing is injected yet");
      });
      expect(isHeld(stored)).toBe(name === "unknown");
      const after = await fixture.letGo("injected");
      const [values = []] = architecturesOf(after);
      expect(values).toContain("arm64");
      expect(terms(after)).toEqual(["arm64"]);
      await fixture.deletePod("injected");
    }
  });
});

/** What all requirements on `kubernetes.io/arch` of the only term leave. */
function terms({ spec }: Pod): readonly string[] {
  const required = spec?.affinity?.nodeAffinity?.requiredDuringSchedulingIgnoredDuringExecution;
  const [only] = required?.nodeSelectorTerms ?? [];
  const lists = (only?.matchExpressions ?? []).flatMap(({ key, values = [] }) =>
    key === "kubernetes.io/arch" ? [values] : [],
  );
  const [first = [], ...others] = lists;
  return first.filter((value) => others.every((values) => values.includes(value)));
}
