/**
 * The drop-in for archaware-controller on the whole product: what it did with nodes and pods, case by case as the contract
 * names them (A-P1 to A-P14), with a real registry. Writes are counted in the audit log.
 */
import { readFile } from "node:fs/promises";
import { nodes } from "@berth/kube";
import { MARKS_ANNOTATION } from "@berth/placement";
import { anImage, eventually, startRegistry, type TestCluster, type TestRegistry } from "@berth/testcluster";
import { afterAll, beforeAll, describe, expect, it } from "vitest";
import {
  type ArchitectureFixture,
  createArchitectureFixture,
  DROP_IN,
  followed,
  KEY,
  sharedArchitectureCluster,
  tolerationsFor,
  tolerationsOf,
} from "./architecture-fixture.ts";
import { createLeapingClock } from "./clocks.ts";
import { runCommand } from "./command.ts";
import { taintsOf } from "./fixture.ts";

let cluster: TestCluster;
let registry: TestRegistry;
beforeAll(async () => {
  [cluster, registry] = await Promise.all([sharedArchitectureCluster(), startRegistry()]);
});
afterAll(async () => {
  await registry?.[Symbol.asyncDispose]();
});

const config = { config: [{ path: DROP_IN, shown: "archaware-controller.yaml" }] };

/** A fixture with the drop-in at work. */
async function dropIn(name: string): Promise<ArchitectureFixture> {
  await using owned = new AsyncDisposableStack();
  const fixture = owned.use(await createArchitectureFixture(cluster, name, [registry]));
  await fixture.start(config);
  owned.move();
  return fixture;
}

async function pushed(name: string, ...platforms: readonly string[]): Promise<string> {
  return (await registry.push(anImage(name).platforms(...platforms))).reference;
}

describe("nodes under the drop-in for archaware-controller", () => {
  it("A-P1 get the one taint supported-arch=arm64:NoSchedule, and nothing else of theirs is touched", async () => {
    await using fixture = await dropIn("p1");
    const other = "example.com/other=stays:NoExecute";
    const labels = { "example.com/label": "stays" };
    const annotations = { "example.com/note": "stays" };
    const before = await fixture.add("n", (it) =>
      it.arm64().tainted(other).labelled(labels).annotated(annotations),
    );
    const after = await fixture.tainted("n", ["arm64"]);
    expect(taintsOf(after)).toEqual([...taintsOf(before), `${KEY}=arm64:NoSchedule`]);
    expect(after.metadata?.labels).toEqual(before.metadata?.labels);
    const { [MARKS_ANNOTATION]: _ours, ...theirs } = after.metadata?.annotations ?? {};
    expect(theirs).toEqual(before.metadata?.annotations);
  });

  it("A-P2 have a taint of another architecture replaced, not one more put beside it", async () => {
    await using fixture = await dropIn("p2");
    await fixture.add("n", (it) => it.arm64().tainted(`${KEY}=amd64:NoSchedule`));
    const after = await fixture.tainted("n", ["arm64"]);
    expect(taintsOf(after).filter((it) => it.startsWith(KEY))).toHaveLength(1);
  });

  it("A-P3 that are tainted right are left so: only the record is written, and that once", async () => {
    await using fixture = await createArchitectureFixture(cluster, "p3", [registry]);
    const before = await fixture.add("n", (it) => it.arm64().tainted(`${KEY}=arm64:NoSchedule`));
    const mark = await cluster.audit.mark();
    const { berth } = await fixture.start(config);
    const recorded = await eventually(async () => {
      const found = await fixture.readNode("n");
      expect(found.metadata?.annotations?.[MARKS_ANNOTATION]).toContain("architecture");
      return found;
    });
    expect(taintsOf(recorded)).toEqual(taintsOf(before));
    await fixture.settled();
    expect(await fixture.nodeWrites(mark)).toEqual(["patch 200"]);
    await berth[Symbol.asyncDispose]();
    const again = await cluster.audit.mark();
    await fixture.start(config);
    await fixture.settled();
    expect(await fixture.nodeWrites(again)).toEqual([]);
  });

  it("A-P9 that come later are tainted, and a taint that was taken off by hand comes back", async () => {
    await using fixture = await dropIn("p9");
    await fixture.add("first");
    await fixture.tainted("first", ["amd64"]);
    await fixture.add("later", (it) => it.architecture("s390x"));
    await fixture.tainted("later", ["s390x"]);
    await fixture.editNode("later", { spec: { taints: null } });
    const after = await fixture.tainted("later", ["s390x"]);
    expect(taintsOf(after)).toEqual([`${KEY}=s390x:NoSchedule`]);
  });

  it("A-P1 A-P9 are tainted whatever they are: control plane, cordoned, not ready", async () => {
    await using fixture = await dropIn("p9-all");
    await fixture.add("control", (it) => it.tainted("node-role.kubernetes.io/control-plane:NoSchedule"));
    await fixture.add("cordoned", (it) => it.unschedulable());
    await fixture.add("not-ready", (it) => it.notReady());
    for (const node of ["control", "cordoned", "not-ready"])
      expect(taintsOf(await fixture.tainted(node, ["amd64"]))).toContain(`${KEY}=amd64:NoSchedule`);
  });
});

describe("pods under the drop-in for archaware-controller", () => {
  it("A-P4 get one toleration without an operator for a single image, after those that they have", async () => {
    await using fixture = await dropIn("p4");
    const given = [
      { key: "example.com/b", operator: "Exists" },
      { key: "example.com/a", operator: "Equal", value: "x", effect: "NoExecute" },
    ] as const;
    const image = await pushed("p4/app:1", "linux/amd64");
    const mark = await cluster.audit.mark();
    const before = await fixture.create(
      fixture
        .pod("app")
        .image(image)
        .tolerating(...given),
    );
    const after = await fixture.tolerating("app", ["amd64"]);
    expect(after.spec?.tolerations).toEqual([
      ...(before.spec?.tolerations ?? []),
      { key: KEY, value: "amd64", effect: "NoSchedule" },
    ]);
    await fixture.settled();
    expect(await fixture.podWrites(mark)).toEqual(["patch 200"]);
  });

  it("A-P5 get one for each architecture that all containers have, and for no other", async () => {
    await using fixture = await dropIn("p5");
    const wide = await pushed("p5/wide:1", "linux/amd64", "linux/arm/v7", "linux/ppc64le");
    const narrow = await pushed("p5/narrow:1", "linux/amd64");
    await fixture.create(fixture.pod("both").image(wide).container("narrow", narrow));
    await fixture.create(fixture.pod("wide").image(wide));
    await fixture.tolerating("both", ["amd64"]);
    await fixture.tolerating("wide", ["amd64", "arm", "ppc64le"]);
    expect(await fixture.podEvents()).toEqual([]);
  });

  it("get them for 32-bit arm too, and its nodes their taint: only Berth itself cannot run there", async () => {
    await using fixture = await dropIn("arm");
    await fixture.add("pi", (it) => it.architecture("arm"));
    await fixture.create(fixture.pod("old").image(await pushed("arm/old:1", "linux/arm/v7")));
    await fixture.tainted("pi", ["arm"]);
    await fixture.tolerating("old", ["arm"]);
    expect(await fixture.podEvents()).toEqual([]);
  });

  it("A-P6 A-B6 get them for images of every format, by what of them can run", async () => {
    await using fixture = await dropIn("p6");
    const both = ["linux/amd64", "linux/arm64"];
    const docker = (what: string) => anImage(`p6/docker-${what}:1`).docker();
    const attested = anImage("p6/attested:1").platforms(...both);
    const images = {
      "oci-index": anImage("p6/oci-index:1").platforms(...both),
      "oci-manifest": anImage("p6/oci-manifest:1").platforms("linux/arm64"),
      "docker-list": docker("list").platforms(...both),
      "docker-manifest": docker("manifest").platforms("linux/arm64"),
      attested: attested.withAttestation().withArtifact(),
    };
    for (const [name, image] of Object.entries(images)) {
      const { reference, pinned } = await registry.push(image);
      await fixture.create(fixture.pod(name).image(reference));
      await fixture.create(fixture.pod(`${name}-pinned`).image(pinned));
    }
    for (const name of Object.keys(images)) {
      const wanted = name.endsWith("manifest") ? ["arm64"] : ["amd64", "arm64"];
      await fixture.tolerating(name, wanted);
      await fixture.tolerating(`${name}-pinned`, wanted);
    }
    expect(await fixture.podEvents()).toEqual([]);
  });

  it("A-B2 A-B4 get them for names as users write them: those of Docker Hub, here read from a mirror of it", async () => {
    await using fixture = await createArchitectureFixture(cluster, "b2", [registry]);
    const mirrors = [{ url: `http://${registry.host}/hub` }];
    const times = { tagTtlMs: 3_600_000, alwaysTtlMs: 60_000, timeoutMs: 5_000 };
    await fixture.start({ ...config, registries: { endpoints: { "docker.io": { mirrors } }, ...times } });
    const names = {
      nginx: ["library/nginx:latest", "amd64"],
      "nginx:1.25": ["library/nginx:1.25", "arm64"],
      "bitnami/redis:7": ["bitnami/redis:7", "s390x"],
      "docker.io/nginx:1": ["library/nginx:1", "ppc64le"],
    } as const;
    for (const [at, [image, [path, architecture]]] of Object.entries(names).entries()) {
      await pushed(`hub/${path}`, `linux/${architecture}`);
      await fixture.create(fixture.pod(`app-${at}`).image(image));
      await fixture.tolerating(`app-${at}`, [architecture]);
    }
    expect(await fixture.podEvents()).toEqual([]);
  });

  it("A-P7 that tolerate it already are not written, in whatever words they do", async () => {
    await using fixture = await dropIn("p7");
    const image = await pushed("p7/app:1", "linux/amd64");
    const mark = await cluster.audit.mark();
    const tolerant = {
      same: { key: KEY, value: "amd64", effect: "NoSchedule" },
      spelt: { key: KEY, operator: "Equal", value: "amd64", effect: "NoSchedule" },
      any: { key: KEY, operator: "Exists" },
      blanket: { operator: "Exists" },
    } as const;
    for (const [name, toleration] of Object.entries(tolerant))
      await fixture.create(fixture.pod(name).image(image).tolerating(toleration));
    // The image is known when this is.
    await fixture.create(fixture.pod("last").image(image));
    await fixture.tolerating("last", ["amd64"]);
    await fixture.settled();
    for (const name of Object.keys(tolerant)) expect(await fixture.podWrites(mark, name)).toEqual([]);
  });

  it("A-P8 whose registry was down get theirs when it is up, without being made anew", async () => {
    await using fixture = await createArchitectureFixture(cluster, "p8", [registry]);
    const clock = createLeapingClock();
    await fixture.start({ ...config, clock });
    const image = await pushed("p8/app:1", "linux/arm64");
    await registry.stop();
    try {
      const { metadata } = await fixture.create(fixture.pod("app").image(image));
      await eventually(async () => {
        await clock.leap(5_000);
        expect(await fixture.events("RegistryUnreachable", "app")).toHaveLength(1);
      });
      expect(tolerationsOf(await fixture.readPod("app"))).toEqual([]);
      await registry.start();
      await eventually(async () => {
        await clock.leap(10_000);
        const found = await fixture.readPod("app");
        expect(found.metadata?.uid).toBe(metadata?.uid);
        expect(tolerationsOf(found)).toEqual(tolerationsFor(["arm64"]));
      });
    } finally {
      await registry.start();
    }
  });

  it("A-P10 get them in every namespace, kube-system as well", async () => {
    await using fixture = await dropIn("p10");
    const image = await pushed("p10/dns:1", "linux/arm64");
    const mark = await cluster.audit.mark();
    await fixture.create(fixture.pod("dns").in("kube-system").image(image));
    await fixture.tolerating("dns", ["arm64"], "kube-system");
    await fixture.settled();
    expect(await fixture.podWrites(mark, "dns")).toEqual(["patch 200"]);
  });

  it("A-P11 A-B1 get none when their images have nothing in common, and an Event that names both containers", async () => {
    await using fixture = await dropIn("p11");
    const amd = await pushed("p11/amd:1", "linux/amd64");
    const arm = await pushed("p11/arm:1", "linux/arm64");
    const both = await pushed("p11/both:1", "linux/amd64", "linux/arm64");
    await fixture.create(fixture.pod("none").image(both).container("a", amd).container("b", arm));
    const { note } = await fixture.event("NoCommonArchitecture", "none");
    for (const part of ["container a", "container b", amd, arm]) expect(note).toContain(part);
    await fixture.settled();
    expect(tolerationsOf(await fixture.readPod("none"))).toEqual([]);
    expect(await fixture.events("NoCommonArchitecture", "none")).toHaveLength(1);
  });

  it("A-B3 are kept to what init containers and image volumes run on as well", async () => {
    await using fixture = await dropIn("b3");
    const both = await pushed("b3/both:1", "linux/amd64", "linux/arm64");
    const arm = await pushed("b3/arm:1", "linux/arm64");
    await fixture.create(fixture.pod("init").image(both).initContainer("setup", arm));
    const volume = { name: "data", image: { reference: arm } };
    const plain = fixture.pod("volume").image(both);
    await fixture.create(
      plain.with((pod) => ({ ...pod, spec: { containers: [], ...pod.spec, volumes: [volume] } })),
    );
    for (const name of ["init", "volume"]) await fixture.tolerating(name, ["arm64"]);
    expect(await fixture.podEvents()).toEqual([]);
  });
});

describe("the change from archaware-controller", () => {
  it("A-P14 takes over what the old controller has set, with nodes tainted all the while", async () => {
    await using fixture = await createArchitectureFixture(cluster, "p14", [registry]);
    const image = await pushed("p14/app:1", "linux/amd64", "linux/arm64");
    const old = ["arm64", "amd64"].map((value) => ({ key: KEY, value, effect: "NoSchedule" }));
    await fixture.add("amd", (it) => it.tainted(`${KEY}=amd64:NoSchedule`));
    await fixture.add("arm", (it) => it.arm64().tainted(`${KEY}=arm64:NoSchedule`));
    await fixture.create(
      fixture
        .pod("served")
        .image(image)
        .tolerating(...old),
    );
    // The old controller could not read this one's name.
    await fixture.create(fixture.pod("left").image(image));
    const running = fixture.pod("running").image(image).on(fixture.nodeName("amd"));
    await fixture.create(running);
    const mark = await cluster.audit.mark();
    const bare: string[] = [];
    await using history = await followed(cluster.client, nodes, (node) => {
      if (!taintsOf(node).some((it) => it.startsWith(KEY))) bare.push(node.metadata?.name ?? "");
    });
    await fixture.start(config);
    // A node that comes at once is tainted at once: there is no bootstrap where nodes are tainted.
    await fixture.add("new", (it) => it.architecture("s390x"));
    await fixture.tainted("new", ["s390x"]);
    await fixture.tolerating("left", ["amd64", "arm64"]);
    await fixture.settled();
    await history.end();
    expect(new Set(bare)).toEqual(new Set([fixture.nodeName("new")]));
    for (const name of ["served", "running"]) expect(await fixture.podWrites(mark, name)).toEqual([]);
    expect(tolerationsOf(await fixture.readPod("served"))).toEqual(old);
  });

  it("A-P12 clean takes every taint of the key off, whatever its value and effect, and no other, and leaves pods alone", async () => {
    await using fixture = await createArchitectureFixture(cluster, "p12", [registry]);
    const image = await pushed("p12/app:1", "linux/amd64");
    const other = "example.com/other=stays:NoExecute";
    await fixture.add("ours", (it) => it.tainted(other));
    await fixture.create(fixture.pod("app").image(image));
    {
      const { berth } = await fixture.start(config);
      await fixture.tainted("ours", ["amd64"]);
      await fixture.tolerating("app", ["amd64"]);
      await berth[Symbol.asyncDispose]();
    }
    await fixture.add("foreign", (it) => it.tainted(`${KEY}=sparc:NoExecute`, other));
    const mark = await cluster.audit.mark();
    const kubeconfig = await fixture.file("kubeconfig", cluster.kubeconfig());
    const output = await runCommand("clean", "--yes", "--key", KEY, "-kubeconfig", kubeconfig.path);
    expect(output).toContain("2 nodes cleaned");
    for (const node of ["ours", "foreign"]) {
      const { metadata, spec } = await fixture.readNode(node);
      expect(spec?.taints?.filter(({ key }) => !key.startsWith("node.kubernetes.io/"))).toEqual([
        { key: "example.com/other", value: "stays", effect: "NoExecute" },
      ]);
      expect(metadata?.annotations?.[MARKS_ANNOTATION]).toBeUndefined();
    }
    expect(await fixture.podWrites(mark)).toEqual([]);
    expect(tolerationsOf(await fixture.readPod("app"))).toEqual(tolerationsFor(["amd64"]));
  });

  it("A-P14 the drop-in says what the original did, in each of its fields", async () => {
    const text = await readFile(DROP_IN, "utf8");
    for (const line of ["mode: Taint", "unresolvable: Closed", "afterMaxHold: Keep", "impossible: Hold"])
      expect(text).toContain(line);
  });
});
