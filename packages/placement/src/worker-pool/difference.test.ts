import type { Deployment, PodSpec } from "@berth/kube";
import { describe, expect, it } from "vitest";
import { buildDeployment, type DeploymentBody } from "./deployment.ts";
import { differenceOf } from "./difference.ts";
import type { WorkerPoolTemplate } from "./document.ts";
import { WORKER_POOL_FIELD_MANAGER } from "./keys.ts";
import { FIELDS, storedOf } from "./testing/stored-deployment.ts";

const full: WorkerPoolTemplate = { nodeSelector: { a: "b" }, resources: { requests: { cpu: "1000m" } } };

function bodyOf(template: WorkerPoolTemplate = full): DeploymentBody {
  const spec = { replicas: 2, ateomImage: "image", template };
  return buildDeployment({ name: "p", namespace: "n", uid: "u", spec }, { workerPoolUid: false });
}

function withPod(deployment: Deployment, change: (spec: PodSpec) => Partial<PodSpec>): Deployment {
  const { spec } = deployment;
  if (spec?.template.spec === undefined) throw new Error("there is no pod template");
  const podSpec = { ...spec.template.spec, ...change(spec.template.spec) };
  return { ...deployment, spec: { ...spec, template: { ...spec.template, spec: podSpec } } };
}

const compare = (body: DeploymentBody, standing: Deployment): string | undefined =>
  differenceOf(body, standing, WORKER_POOL_FIELD_MANAGER);

const fieldsWithout = (path: RegExp): Readonly<Record<string, unknown>> =>
  JSON.parse(JSON.stringify(FIELDS).replace(path, "")) as Readonly<Record<string, unknown>>;

describe("differenceOf", () => {
  it("sees none beside defaults of the server, nor in another way to write a quantity", () => {
    const stored = storedOf(bodyOf());
    expect(compare(bodyOf(), stored)).toBeUndefined();
    const written = withPod(stored, ({ containers }) => ({
      containers: containers.map((it) => ({ ...it, resources: { requests: { cpu: "1" } } })),
    }));
    expect(compare(bodyOf(), written)).toBeUndefined();
  });

  it("sees none where the server has rounded up to a thousandth", () => {
    const cpu = (value: string) => ({ ...full, resources: { requests: { cpu: value } } });
    for (const value of ["0.0001", "100u"]) {
      expect(compare(bodyOf(cpu(value)), storedOf(bodyOf(cpu("1m"))))).toBeUndefined();
      expect(compare(bodyOf(cpu(value)), storedOf(bodyOf(cpu("2m"))))).toContain('.cpu is "2m"');
    }
  });

  it("sees none in what others have added and own", () => {
    const stored = withPod(storedOf(bodyOf()), ({ containers, volumes = [] }) => ({
      containers: [{ name: "mesh", image: "mesh" }, ...containers],
      initContainers: [{ name: "wait", image: "wait" }],
      volumes: [...volumes, { name: "theirs", emptyDir: {} }],
    }));
    expect(compare(bodyOf(), stored)).toBeUndefined();
  });

  const edits: readonly [string, (spec: PodSpec) => Partial<PodSpec>, string][] = [
    ["a value", () => ({ priorityClassName: "high" }), '.priorityClassName is "high"'],
    ["an atomic map", () => ({ nodeSelector: { a: "c" } }), '.nodeSelector.a is "c"'],
    ["a missing map", () => ({ nodeSelector: {} }), ".nodeSelector.a is missing"],
    ["a missing entry of a list", () => ({ volumes: [] }), ".volumes[run-ateom] is missing"],
    [
      "an entry of a list by position",
      ({ containers }) => ({ containers: containers.map((it) => ({ ...it, args: ["--other"] })) }),
      '.args[0] is "--other"',
    ],
    [
      "a longer list without keys",
      ({ containers }) => ({ containers: containers.map((it) => ({ ...it, args: ["--pod-uid", "x"] })) }),
      ".args has 2 entries",
    ],
    [
      "a quantity",
      ({ containers }) => ({
        containers: containers.map((it) => ({ ...it, resources: { requests: { cpu: "2" } } })),
      }),
      '.requests.cpu is "2"',
    ],
  ];
  it.each(edits)("sees %s that somebody has changed", (_, change, message) => {
    expect(compare(bodyOf(), withPod(storedOf(bodyOf()), change))).toContain(message);
  });

  it("sees what is ours and no longer wanted, so that it is pruned", () => {
    const stored = storedOf(bodyOf());
    expect(compare(bodyOf({ ...full, nodeSelector: {} }), stored)).toContain(
      ".nodeSelector is no longer wanted",
    );
    expect(compare(bodyOf({ nodeSelector: { a: "b" } }), stored)).toContain(
      ".resources.requests is no longer wanted",
    );
    const old = JSON.parse(JSON.stringify(FIELDS).replace('\\"u\\"', '\\"old\\"')) as typeof FIELDS;
    expect(compare(bodyOf(), storedOf(bodyOf(), old))).toContain('k:{"uid":"old"} that is no longer wanted');
  });

  it("sees what is wanted, stands and is not ours any more: a later clearing would leave it", () => {
    const lost = storedOf(bodyOf(), fieldsWithout(/"f:nodeSelector":\{\},/));
    expect(compare(bodyOf(), lost)).toContain(".nodeSelector is not owned any more");
    const others = { ...lost, metadata: { ...lost.metadata, managedFields: [] } };
    expect(compare(bodyOf(), others)).toBe("no field is owned by workerpool-controller");
  });

  it("does not mind whether an empty value is stored or owned", () => {
    const body = bodyOf({ nodeSelector: { a: "b" }, resources: full.resources ?? {} });
    const fields = fieldsWithout(/"f:affinity":\{\},|"f:priorityClassName":\{\},/g);
    expect(
      compare(
        body,
        withPod(storedOf(body, fields), () => ({ priorityClassName: "" })),
      ),
    ).toBeUndefined();
  });
});
