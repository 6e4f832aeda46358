import type { Container, Deployment } from "@berth/kube";
import { describe, expect, it } from "vitest";
import type { Footprints } from "../footprint.ts";
import { footprintOf } from "../testing/footprints.ts";
import { sightOf } from "../testing/pods.ts";
import { decideWait } from "./decide.ts";
import { waitContainer } from "./wait.ts";

const POOL = { group: "test.berth.dev", kind: "Pool" };
const init = {
  workloads: [{ podSelector: { matchLabels: { agent: "needed" } } }],
  group: { by: "OwnerUID", owner: POOL },
  node: { label: { key: "x.test/agent" } },
  wait: { inject: "ServerSideApply", container: { name: "wait", image: "busybox:1.36" }, port: 80 },
} as const;
const footprint = footprintOf(init);
const wait: Container = footprint.wait ? waitContainer(footprint.wait) : { name: "" };
const other = { name: "x", image: "x" };
const named = { ".": {}, "f:name": {} };
/** As the server records what Berth applies of the container now. */
const whole = {
  ...named,
  "f:image": {},
  "f:command": {},
  "f:env": { 'k:{"name":"HOST_IP"}': { ...named, "f:valueFrom": { "f:fieldRef": {} } } },
  "f:resources": {
    "f:requests": { "f:cpu": {}, "f:memory": {} },
    "f:limits": { "f:cpu": {}, "f:memory": {} },
  },
  "f:securityContext": {
    "f:allowPrivilegeEscalation": {},
    "f:capabilities": { "f:drop": {} },
    "f:runAsNonRoot": {},
    "f:runAsUser": {},
    "f:seccompProfile": { "f:type": {} },
  },
};

/** `applied`: init containers by Berth, those that are only named with false; or their fields. */
function aDeployment(
  initContainers: readonly Container[],
  applied: Readonly<Record<string, boolean | object>> = {},
  more: { readonly kind?: string; readonly namespace?: string } = {},
): Deployment {
  const { kind = POOL.kind, namespace = "ns" } = more;
  const entries = Object.entries(applied).map(([name, fields]) => [
    `k:{"name":"${name}"}`,
    typeof fields === "object" ? fields : fields ? whole : named,
  ]);
  const fieldsV1 = {
    "f:spec": { "f:template": { "f:spec": { "f:initContainers": Object.fromEntries(entries) } } },
  };
  return {
    metadata: {
      name: "d",
      namespace,
      uid: "u",
      ownerReferences: [{ apiVersion: `${POOL.group}/v1`, kind, name: "pool", uid: "p", controller: true }],
      managedFields: [
        { manager: "berth", operation: "Apply", fieldsV1 },
        { manager: "other", operation: "Apply", fieldsV1: { "f:spec": 7 } },
      ],
    },
    spec: {
      selector: {},
      template: { metadata: { labels: { agent: "needed" } }, spec: { initContainers, containers: [] } },
    },
  };
}

/** What is applied: names of init containers, for each apply. */
const appliedTo = (
  deployment: Deployment,
  footprints = [footprint],
  sight = sightOf({}),
): readonly (readonly string[])[] =>
  decideWait({ deployment, installation: "berth", footprints, sight }).bodies.map(
    ({ spec }) => spec?.template.spec.initContainers.map(({ name }) => name) ?? [],
  );

describe("the wait of a Deployment", () => {
  it.each<[string, Deployment, readonly (readonly string[])[]]>([
    ["is put in", aDeployment([]), [["wait"]]],
    [
      "is put before what is there, which is given back at once",
      aDeployment([other]),
      [["wait", "x"], ["wait"]],
    ],
    ["is left when it stands", aDeployment([wait, other], { wait: true }), []],
    [
      "gives back what a first apply has named",
      aDeployment([wait, other], { wait: true, x: false }),
      [["wait"]],
    ],
    [
      "is set right when it says something else",
      aDeployment([{ ...wait, image: "old" }], { wait: true }),
      [["wait"]],
    ],
    [
      "is left when the server writes amounts in another way, and others say more of it",
      aDeployment(
        [
          {
            ...wait,
            resources: {
              requests: { cpu: "0.05", memory: "33554432", "ephemeral-storage": "1Mi" },
              limits: { cpu: "50m", memory: "32Mi" },
            },
            securityContext: { ...wait.securityContext, readOnlyRootFilesystem: true },
          },
        ],
        { wait: true },
      ),
      [],
    ],
    [
      "is set right when it may use something else",
      aDeployment([{ ...wait, resources: { ...wait.resources, limits: { cpu: "1" } } }], { wait: true }),
      [["wait"]],
    ],
    [
      "is set right when it runs as somebody else",
      aDeployment([{ ...wait, securityContext: { ...wait.securityContext, runAsUser: 0 } }], { wait: true }),
      [["wait"]],
    ],
    [
      "gives up what it was given before and is no longer",
      aDeployment([wait], { wait: { ...whole, "f:securityContext": { "f:runAsGroup": {} } } }),
      [["wait"]],
    ],
    ["is put back when somebody has taken it off", aDeployment([other], {}), [["wait", "x"], ["wait"]]],
    ["is left to others who have put in one of that name", aDeployment([{ ...wait, image: "own" }]), []],
    ["is not for other owners", aDeployment([], {}, { kind: "Other" }), []],
    ["is taken off for other owners", aDeployment([wait, other], { wait: true }, { kind: "Other" }), [[]]],
  ])("%s", (_name, deployment, applied) => {
    expect(appliedTo(deployment)).toEqual(applied);
  });

  it("is taken off when no footprint has it any more, and says which", () => {
    const deployment = aDeployment([wait, other], { wait: true, x: false });
    expect(appliedTo(deployment, [])).toEqual([[]]);
    const { put, taken } = decideWait({
      deployment,
      installation: "berth",
      footprints: [],
      sight: sightOf({}),
    });
    expect({ put, taken }).toEqual({ put: [], taken: ["wait"] });
  });

  it.each([
    ["500u", "1m"],
    ["0.0005", "1m"],
    ["1500u", "2m"],
  ])("is left when the server stores %s of something as %s", (cpu, stored) => {
    const fine = footprintOf({
      ...init,
      wait: { ...init.wait, container: { ...init.wait.container, resources: { requests: { cpu } } } },
    });
    const stands = { ...wait, resources: { requests: { cpu: stored } } };
    const fields = { ...whole, "f:resources": { "f:requests": { "f:cpu": {} } } };
    expect(appliedTo(aDeployment([stands], { wait: fields }), [fine])).toEqual([]);
  });

  it("of another installation stays as it is, and its own is put in where it calls it otherwise", () => {
    const deployment = aDeployment([wait, other], { wait: true });
    const of = (footprints: Footprints["footprints"]) =>
      decideWait({ deployment, installation: "b", footprints, sight: sightOf({}) });
    expect(of([])).toMatchObject({ bodies: [], taken: [], kept: [] });
    expect(of([footprint]).bodies).toEqual([]);
    const container = { ...init.wait.container, name: "b" };
    const { put } = of([footprintOf({ ...init, wait: { ...init.wait, container } })]);
    expect(put.map(({ name }) => name)).toEqual(["b"]);
  });

  it("stays as it is, and where another is put in, while somebody may want it", () => {
    const one = { ...init, wait: { ...init.wait, container: { ...init.wait.container, name: "one" } } };
    const isFree = (name: string): boolean => name !== "wait";
    const { resources, securityContext } = wait;
    const shared: Container = {
      ...wait,
      imagePullPolicy: "Always",
      env: [{ name: "LANG", value: "C" }, ...(wait.env ?? [])],
      resources: { ...resources, limits: { ...resources?.limits, "ephemeral-storage": "1Mi" } },
      securityContext: { ...securityContext, readOnlyRootFilesystem: true },
    };
    const deployment = aDeployment([shared, other], { wait: true });
    const of = (footprints: Footprints["footprints"]) =>
      decideWait({ deployment, installation: "berth", footprints, sight: sightOf({}), isFree });
    expect(of([])).toMatchObject({ bodies: [], put: [], taken: [], kept: ["wait"] });
    const { bodies, taken } = of([footprintOf(one)]);
    expect(taken).toEqual([]);
    const inits = bodies.map(({ spec }) => spec?.template.spec.initContainers);
    expect(inits.map((list) => list?.map(({ name }) => name))).toEqual([
      ["one", "wait", "x"],
      ["one", "wait"],
    ]);
    // Of what others have put into it nothing becomes ours.
    expect(inits[1]?.[1]).toEqual(wait);
  });

  it("stays as it is while it is not known whether the pods need the agent", () => {
    const [workload] = init.workloads;
    const selective = footprintOf({
      ...init,
      workloads: [{ ...workload, namespaceSelector: { matchLabels: { team: "a" } } }],
    });
    for (const deployment of [aDeployment([]), aDeployment([wait], { wait: true })])
      expect(appliedTo(deployment, [selective])).toEqual([]);
    const sight = sightOf({ namespaces: { ns: { team: "a" }, other: {} } });
    expect(appliedTo(aDeployment([]), [selective], sight)).toEqual([["wait"]]);
    const gone = aDeployment([wait], { wait: true }, { namespace: "other" });
    expect(appliedTo(gone, [selective], sight)).toEqual([[]]);
  });

  it("is for every Deployment that is selected where owners are of no kind", () => {
    const { group: _, ...rest } = init;
    expect(appliedTo(aDeployment([], {}, { kind: "Other" }), [footprintOf(rest)])).toEqual([["wait"]]);
  });

  it("is not for pods without the label that groups: no agent would come for them", () => {
    const grouped = footprintOf({ ...init, group: { by: "PodLabel", label: "team" } });
    const deployment = aDeployment([]);
    expect(appliedTo(deployment, [grouped])).toEqual([]);
    const template = { spec: { containers: [] }, metadata: { labels: { agent: "needed", team: "a" } } };
    expect(appliedTo({ ...deployment, spec: { selector: {}, template } }, [grouped])).toEqual([["wait"]]);
  });

  it("holds nothing of a Deployment that is being deleted", () => {
    const deployment = aDeployment([]);
    const deleted = {
      ...deployment,
      metadata: { ...deployment.metadata, deletionTimestamp: "2026-01-01T00:00:00Z" },
    };
    expect(appliedTo(deleted)).toEqual([]);
  });
});
