/** The part of the demo where pods only run on nodes that their images support. Uses a real registry, as a company has it. */
import { writeFile } from "node:fs/promises";
import { isApiError, nodes, type Pod, pods } from "@berth/kube";
import { aNode, anImage, aPod } from "@berth/testcluster";
import type { Company } from "./company.ts";
import { type Images, makePod, type Scene, type World } from "./story.ts";

const GATE = "berth.dev/architecture";
const TAINT = "supported-arch";

/** The address of Berth for the API server. In the demo Berth is a process on this machine, not a pod. */
export function admissionServer(port: number): string {
  return `apiVersion: berth.dev/v1alpha1
kind: AdmissionServer
metadata:
  name: demo
spec:
  bindAddress: 127.0.0.1:${port}
  url: https://127.0.0.1:${port}
`;
}

function policy(mode: "Affinity" | "Both"): string {
  return `apiVersion: berth.dev/v1alpha1
kind: ArchitecturePolicy
metadata:
  name: demo
spec:
  mode: ${mode}
`;
}

/** Before Berth starts: creates images, and a node of a third architecture. @returns the names of both. */
export async function setTheArchitectureStage(
  { client }: Pick<World, "client">,
  company: Pick<Company, "push">,
): Promise<{ readonly images: Images; readonly node: string }> {
  const node = "mainframe-1";
  await client.create(nodes, aNode(node).architecture("s390x").fake().build());
  const push = (name: string, ...platforms: readonly string[]): Promise<string> =>
    company.push(anImage(name).platforms(...platforms));
  const images = {
    web: await push("shop/web:1", "linux/amd64", "linux/arm64", "linux/s390x"),
    legacy: await push("shop/legacy:1", "linux/amd64"),
    sensor: await push("shop/sensor:1", "linux/arm64"),
  };
  return { images, node };
}

export const ARCHITECTURE_SCENES: readonly Scene[] = [
  {
    title: "An ArchitecturePolicy is saved: from now on pods run only where all of their images do",
    act: ({ policyFile }) => writeFile(policyFile, policy("Affinity")),
    expected: "the API server asks Berth about new pods",
    seen: async ({ client, images }) => {
      const pod = aPod("trial").image(images.web).build();
      const answer = await client.create(pods, pod, { namespace: "default", dryRun: true });
      if (!isGated(answer)) throw new Error("the API server does not ask Berth yet");
    },
  },
  {
    title: "Three pods are made: web has an image for all architectures, legacy for amd64, sensor for arm64",
    act: async (world) => {
      for (const [name, image] of Object.entries(world.images)) await makePod(world, aPod(name).image(image));
    },
    expected: "legacy runs on an amd64 node, sensor on an arm64 node, and web on some node",
    seen: async (world) => {
      await expectRunning("legacy", ["amd64"], world);
      await expectRunning("sensor", ["arm64"], world);
      await expectRunning("web", ["amd64", "arm64", "s390x"], world);
    },
  },
  {
    title: "One more web is made, for the mainframe. The image is known by now",
    act: async (world) => {
      const pod = aPod("web-2").image(world.images.web).selecting({ "kubernetes.io/arch": "s390x" });
      if (isGated(await makePod(world, pod))) throw new Error("the pod was held, though its image is known");
    },
    expected: "it was not held for a moment, and runs on the s390x node",
    seen: (world) => expectRunning("web-2", ["s390x"], world),
  },
  {
    title: "A pod wants legacy and sensor in one. No architecture runs both",
    act: async (world) => {
      const pod = aPod("both").image(world.images.legacy).container("sidecar", world.images.sensor);
      world.say(`  ${await refusalOf(makePod(world, pod))}`);
    },
    expected: "it was refused, and its user was told which container runs on what",
    seen: () => undefined,
  },
  {
    title: "Why is sensor where it is? berth explain pod default/sensor",
    act: async ({ berth, say }) => {
      const told = await berth(["explain", "pod", "default/sensor"]);
      if (!told.includes("arm64")) throw new Error(`berth does not say so: ${told}`);
      for (const line of told.trimEnd().split("\n")) say(`  ${line}`);
    },
    expected: "Berth said which image keeps it to arm64",
    seen: () => undefined,
  },
  {
    title: "The mode is changed to Both: nodes get taints too, once every pod and DaemonSet tolerates them",
    act: ({ policyFile }) => writeFile(policyFile, policy("Both")),
    expected: "every node is tainted with its architecture",
    seen: async ({ client }) => {
      for (const { metadata, spec, status } of (await client.list(nodes)).items) {
        const value = spec?.taints?.find(({ key }) => key === TAINT)?.value;
        if (value === undefined || value !== status?.nodeInfo?.architecture)
          throw new Error(`${metadata?.name} is not tainted`);
      }
    },
  },
  {
    title: "One more sensor is made",
    act: (world) => makePod(world, aPod("sensor-2").image(world.images.sensor)),
    expected: "it tolerates the taint of arm64 nodes, and runs on one",
    seen: async (world) => {
      const { spec } = await expectRunning("sensor-2", ["arm64"], world);
      const values = spec?.tolerations?.filter(({ key }) => key === TAINT).map(({ value }) => value);
      if (values?.join() !== "arm64") throw new Error(`it tolerates ${values?.join() ?? "nothing"}`);
    },
  },
];

function isGated({ spec }: Pod): boolean {
  return spec?.schedulingGates?.some(({ name }) => name === GATE) === true;
}

/** Returns the message for the user. @throws Error when the pod is not refused, or the message lacks a container. */
async function refusalOf(creation: Promise<Pod>): Promise<string> {
  const refusal = await creation.then(
    () => "",
    (error: unknown) => {
      if (isApiError(error)) return error.message;
      throw error;
    },
  );
  if (refusal === "") throw new Error("the pod was not refused");
  for (const part of ["container main", "container sidecar"])
    if (!refusal.includes(part)) throw new Error(`the refusal does not name ${part}: ${refusal}`);
  return refusal.slice(Math.max(0, refusal.indexOf("admission webhook")));
}

async function expectRunning(
  name: string,
  architectures: readonly string[],
  { client, node }: World,
): Promise<Pod> {
  const pod = await client.get(pods, { namespace: "default", name });
  const { nodeName = "" } = pod.spec ?? {};
  if (pod.status?.phase !== "Running") throw new Error(`${name} does not run yet`);
  const architecture = node(nodeName)?.status?.nodeInfo?.architecture ?? "";
  if (!architectures.includes(architecture)) throw new Error(`${name} runs on ${nodeName} (${architecture})`);
  return pod;
}
