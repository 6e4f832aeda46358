/** The part of the demo where a pod moves, because the device that it needs leaves its node. Uses a real Deployment. */
import { writeFile } from "node:fs/promises";
import { type Deployment, deployments, events, nodes, pods } from "@berth/kube";
import { DERIVED, expectLabel, type Scene, setLabel, USB_DEVICE, type World } from "./story.ts";

const DETECTORS = { namespace: "default", name: "detectors" };

const POLICY = `apiVersion: berth.dev/v1alpha1
kind: DeschedulePolicy
metadata:
  name: default
spec:
  for: 2s
`;

export const DESCHEDULE_SCENES: readonly Scene[] = [
  {
    title:
      "The Edge TPU is plugged into edge-1 again, for a Deployment of detectors that may not run on core-1",
    act: async ({ client }) => {
      await client.create(deployments, detectors(), { namespace: DETECTORS.namespace });
      return client.patch(nodes, { name: "edge-1" }, setLabel(USB_DEVICE, "true"));
    },
    expected: "the detector runs on edge-1",
    seen: (world) => expectOn("edge-1", world),
  },
  {
    title: "A DeschedulePolicy is saved, and the device leaves edge-1. Kubernetes would leave the pod there",
    act: async ({ client, descheduleFile }) => {
      await writeFile(descheduleFile, POLICY);
      return client.patch(nodes, { name: "edge-1" }, setLabel(USB_DEVICE, null));
    },
    expected: "Berth leaves it too, because no other node takes it, and says so",
    seen: async (world) => {
      expectLabel(world.node("edge-1"), undefined);
      await expectEvent("NoOtherNode", world);
      await expectOn("edge-1", world);
    },
  },
  {
    title: "The device is plugged into edge-2",
    act: ({ client }) => client.patch(nodes, { name: "edge-2" }, setLabel(USB_DEVICE, "true")),
    expected:
      "Berth has evicted the pod from edge-1, and its replacement runs where the device is, on edge-2",
    seen: async (world) => {
      await expectEvent("PodDescheduled", world);
      await expectOn("edge-2", world);
    },
  },
];

function detectors(): Deployment {
  const labels = { app: DETECTORS.name };
  return {
    metadata: DETECTORS,
    spec: {
      selector: { matchLabels: labels },
      template: {
        metadata: { labels },
        spec: {
          nodeSelector: { [DERIVED]: "true", "kubernetes.io/arch": "arm64" },
          containers: [{ name: "detector", image: "registry.test/detector:1" }],
        },
      },
    },
  };
}

async function expectOn(node: string, { client }: World): Promise<void> {
  const labelSelector = `app=${DETECTORS.name}`;
  const { items } = await client.list(pods, { namespace: DETECTORS.namespace, labelSelector });
  const places = items.map(({ spec }) => spec?.nodeName ?? "no node");
  if (places.join() !== node) throw new Error(`the detector is on ${places.join(", ") || "no node"}`);
}

async function expectEvent(wanted: string, { client }: World): Promise<void> {
  const { items } = await client.list(events, { namespace: DETECTORS.namespace });
  const isSaid = items.some(
    ({ reason, regarding }) => reason === wanted && regarding?.name?.startsWith(`${DETECTORS.name}-`),
  );
  if (!isSaid) throw new Error(`there is no Event ${wanted} on the pod yet`);
}
