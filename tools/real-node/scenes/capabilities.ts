/** Each capability once, on nodes whose pods are processes. */
import { release } from "node:os";
import { join } from "node:path";
import { type Node, nodes, type Pod, pods } from "@berth/kube";
import { request } from "undici";
import { expect, isReady, nodeOf, type Scene, type Stage, since, until } from "../stage.ts";

const podsOf = async ({ client }: Stage, labelSelector: string): Promise<readonly Pod[]> =>
  (await client.list(pods, { labelSelector })).items;

const labels: Scene = {
  title: "LabelRule: labels from what each kubelet says about its own node",
  play: async ({ apply, wait }) => {
    await apply("labels.yaml");
    const kernel = `linux-${release()}`.replaceAll(/[^-\w.]/g, "_");
    await wait("node --all", `jsonpath={.metadata.labels.example\\.com/kernel}=${kernel}`);
    return `each node has example.com/kernel=${kernel}, which is the kernel of this machine`;
  },
};

const footprint: Scene = {
  title: "NodeFootprint: an agent follows a pod to node-2",
  play: async (stage) => {
    const { apply, wait, kubectl } = stage;
    await apply("footprint.yaml");
    for (const field of ["desiredNumberScheduled", "numberReady"])
      await wait("daemonset/apm-agent -n kube-system", `jsonpath={.status.${field}}=1`);
    const agents = await until(stage, async () => {
      const found = await podsOf(stage, "app=apm-agent");
      expect(found.length === 1, `there are ${found.length} agents`);
      return found.map(nodeOf);
    });
    expect(agents.join() === "node-2", `the agent is on ${agents.join()}`);
    await kubectl(["delete", "pod/shop"]);
    await wait("pod -n kube-system -l app=apm-agent", "delete");
    return "the agent ran on node-2 alone, and ended when the pod had ended";
  },
};

const deschedule: Scene = {
  title: "DeschedulePolicy: a camera moves to node-2; the process that uses it takes four seconds to end",
  play: async (stage) => {
    const { apply, wait, kubectl } = stage;
    await kubectl(["label", "node/node-1", "example.com/usb-camera=true"]);
    await apply("camera.yaml");
    await wait("deployment/viewer", "condition=Available");
    const [before] = await podsOf(stage, "app=viewer");
    await kubectl(["label", "node/node-2", "example.com/usb-camera=true"]);
    await kubectl(["label", "node/node-1", "example.com/usb-camera-"]);
    await wait(`pod/${before?.metadata?.name}`, "jsonpath={.metadata.deletionTimestamp}");
    const evictedAt = performance.now();
    await wait(`pod/${before?.metadata?.name}`, "delete");
    const took = since(evictedAt);
    expect(Number.parseFloat(took) > 3, `its process had only ${took} to end`);
    await wait("deployment/viewer", "condition=Available");
    const after = (await podsOf(stage, "app=viewer")).map(nodeOf).join();
    await kubectl(["delete", "deployment/viewer", "deschedulepolicy/default"]);
    await kubectl(["label", "node/node-2", "example.com/usb-camera-"]);
    expect(after === "node-2", `its replacement is on ${after}`);
    return `Berth evicted it from ${nodeOf(before)}; its process ended after ${took}; the next one runs on ${after}`;
  },
};

const architecture: Scene = {
  title: "ArchitecturePolicy: an image index without the architecture of these nodes",
  play: async (stage) => {
    const { apply, wait, kubectl } = stage;
    await apply("architecture.yaml");
    await wait("architecturepolicy/default", "condition=Admission");
    await apply("images.yaml");
    const said = await until(stage, async () => {
      const { status } = await stage.client.get(pods, { namespace: "default", name: "foreign" });
      const { message = "it is fine" } = status?.containerStatuses?.[0]?.state?.waiting ?? {};
      expect(message.includes("no match for platform"), `the kubelet says: ${message}`);
      return /no match for platform[^:]*/.exec(message)?.[0];
    });
    await wait("pod/web -n placed", "condition=Ready");
    await wait("pod/foreign -n placed", "condition=PodScheduled=false");
    await kubectl(["delete", "pod/foreign", "namespace/placed", "architecturepolicy/default"]);
    return `without the policy a kubelet got such a pod (${said}); with it none did, and an image for both runs`;
  },
};

const workload: Scene = {
  title: "Workload: two instances of a web server, in mode single",
  play: async (stage) => {
    await stage.apply("workload.yaml");
    await stage.wait("workload/hello", "jsonpath={.status.readyReplicas}=2");
    const instances = await podsOf(stage, "compute.datumapis.com/workload-name=hello");
    for (const { status } of instances) {
      const { body } = await request(`http://${status?.podIP}:8080/`);
      expect((await body.text()).includes("served by busybox"), "it serves something else");
    }
    await stage.kubectl(["delete", "workload/hello"]);
    return `${instances.length} processes answer over HTTP, on ${instances.map(nodeOf).join(" and ")}`;
  },
};

export const isHeld = ({ spec }: Node): boolean =>
  spec?.taints?.some(({ key }) => key === "startup.k8s.io/initializing") === true;

/** On the third node. */
export const gate: Scene = {
  title: "StartupGate: a third node is switched on, and the DaemonSet of examples/startup-gate prepares it",
  play: async (stage) => {
    await stage.apply("gate.yaml");
    await stage.apply(join(import.meta.dirname, "../../../examples/startup-gate/warm-up.yaml"));
    await stage.wait("startupgate/warm-up", "condition=Admission");
    const { resourceVersion = "0" } = (await stage.client.list(nodes)).metadata;
    await using watch = await stage.client.watch(nodes, {
      resourceVersion,
      fieldSelector: "metadata.name=node-3",
    });
    const bootedAt = Date.now();
    const joining = stage.addNode("example.com/pool=fresh");
    const first = (await watch[Symbol.asyncIterator]().next()).value;
    expect(
      first?.type === "ADDED" && isHeld(first.object),
      `the first event has no taint: ${JSON.stringify(first)}`,
    );
    await joining;
    const released = (await prepared(stage, bootedAt)).metadata?.annotations?.["startup.k8s.io/completedAt"];
    const [batch] = await podsOf(stage, "app=batch");
    const scheduled = batch?.status?.conditions?.find(
      ({ type }) => type === "PodScheduled",
    )?.lastTransitionTime;
    expect(
      Date.parse(scheduled ?? "") / 1000 >= Number(released),
      "the pod was scheduled before the release",
    );
    const writer = first.object.metadata?.managedFields?.[0]?.manager;
    return `the first watch event of node-3, by its ${writer}, had the taint; the pod that waited was scheduled after the release`;
  },
};

/** Waits until the gate has released node-3, and the processes there have started since `bootedAt`. @returns the node. */
export function prepared(stage: Stage, bootedAt: number): Promise<Node> {
  return until(stage, async () => {
    const node = await stage.client.get(nodes, { name: "node-3" });
    expect(!isHeld(node), "the gate holds node-3");
    for (const selector of ["app=warm-up", "app=batch"]) {
      const [pod] = await podsOf(stage, selector);
      const startedAt = pod?.status?.containerStatuses?.[0]?.state?.running?.startedAt ?? "";
      // The API has whole seconds.
      expect(
        Date.parse(startedAt) > bootedAt - 1000 && pod && isReady(pod),
        `the pod of ${selector} is not ready`,
      );
    }
    return node;
  });
}

export const CAPABILITIES: readonly Scene[] = [labels, footprint, deschedule, architecture, workload];
