/** The stories of architecture policies: nodes that are tainted once nothing is surprised by it, and pods that are held. */
import { ORIGINAL_ARCHITECTURE_KEY } from "@berth/placement";
import type { PerturbationStory } from "@berth/testcluster";
import type { Facts, StoryPolicy } from "./architecture-objects.ts";
import { architectureStory } from "./architecture-scene.ts";

const KEY = ORIGINAL_ARCHITECTURE_KEY;
const FOREIGN = "example.com/dedicated";
const AMD = "registry.test/amd:1";
const ARM = "registry.test/arm:1";
const BOTH = "registry.test/both:1";
/** At a port where nobody listens: a registry that may come back. */
const UNKNOWN = "127.0.0.1:1/app:1";

const FACTS: Facts = { [AMD]: ["amd64"], [ARM]: ["arm64"], [BOTH]: ["amd64", "arm64"] };
const ALL_FACTS: Facts = { ...FACTS, [UNKNOWN]: ["arm64"] };
const taint: StoryPolicy = { mode: "Taint", facts: FACTS };
const both: StoryPolicy = { mode: "Both", facts: FACTS };
const affinity: StoryPolicy = { mode: "Affinity", facts: FACTS };

/** Short enough for `make test`: nodes are tainted once the pod that is held is let go, and somebody takes the taint off. */
export const architectureHeld: PerturbationStory = architectureStory(
  "architecture/held",
  {
    nodes: ["n1"],
    pods: ["held"],
    policies: ["policy"],
    keys: [KEY],
    async prepare({ addNode, addPod, putPolicy }) {
      await addNode("n1", "amd64", [`${FOREIGN}=ml:NoSchedule`]);
      await addPod("held", { images: [UNKNOWN, BOTH], gated: true });
      await putPolicy("policy", both);
    },
    steps: ({ dropPolicy, isHeld, putPolicy, stands, taint: meddle }) => [
      {
        name: "facts-come",
        run: () => putPolicy("policy", { ...both, facts: ALL_FACTS }),
        over: () => !isHeld("held") && stands("n1", KEY),
      },
      {
        name: "taint-is-torn-off",
        needsSettled: true,
        run: () => meddle("n1", (taints) => taints.filter(({ key }) => key !== KEY)),
        over: () => stands("n1", KEY),
      },
      { name: "policy-goes", needsSettled: true, run: () => dropPolicy("policy") },
    ],
  },
  { oldestView: 0 },
);

/** A policy comes to a cluster that is not ready for its taints; then somebody meddles, and it goes. */
export const architectureTaint: PerturbationStory = architectureStory(
  "architecture/taint",
  {
    nodes: ["n1", "n2", "n3"],
    pods: ["runs", "waits", "unknown", "impossible", "late", "after"],
    daemonSets: ["cni", "csi"],
    policies: ["policy"],
    keys: [KEY],
    async prepare({ addDaemonSet, addNode, addPod }) {
      await addNode("n1", "amd64", [`${FOREIGN}=ml:NoSchedule`]);
      await addNode("n2", "arm64", [`${KEY}=amd64:NoSchedule`]);
      await addDaemonSet("cni", BOTH);
      await addPod("runs", { images: [AMD], node: "n1" });
      await addPod("waits", { images: [AMD, BOTH] });
      await addPod("unknown", { images: [UNKNOWN] });
      await addPod("impossible", { images: [AMD, ARM] });
    },
    steps: ({
      addDaemonSet,
      addNode,
      addPod,
      dropPolicy,
      putPolicy,
      removePod,
      stands,
      stripDaemonSet,
      taint: meddle,
    }) => [
      { name: "policy-comes", run: () => putPolicy("policy", taint) },
      { name: "facts-come", run: () => putPolicy("policy", { ...taint, facts: ALL_FACTS }) },
      { name: "pod-comes", run: () => addPod("late", { images: [BOTH] }) },
      { name: "node-arrives", run: () => addNode("n3", "arm64") },
      {
        name: "taint-is-torn-off",
        needsSettled: true,
        run: () => meddle("n1", (taints) => taints.filter(({ key }) => key !== KEY)),
        over: () => stands("n1", KEY),
      },
      {
        name: "foreign-taint-changes",
        run: () =>
          meddle("n1", (taints) =>
            taints.map((one) => (one.key === FOREIGN ? { ...one, value: "web" } : one)),
          ),
      },
      { name: "daemonset-comes", run: () => addDaemonSet("csi", ARM) },
      { name: "daemonset-is-stripped", run: () => stripDaemonSet("cni") },
      { name: "pod-goes", run: () => removePod("waits") },
      { name: "policy-goes", needsSettled: true, run: () => dropPolicy("policy") },
      { name: "pod-comes-after", needsSettled: true, run: () => addPod("after", { images: [AMD] }) },
    ],
  },
  // Two steps back the policy is there that has gone: nothing says whether pods catch up before it does.
  { oldestView: 1 },
);

const DISK = { key: "example.com/disk", operator: "In", values: ["ssd"] };
/** As a user may have it: two ways, one of them by name, and a term that selects nothing. */
const CHOICE = {
  nodeAffinity: {
    requiredDuringSchedulingIgnoredDuringExecution: {
      nodeSelectorTerms: [
        { matchExpressions: [DISK] },
        { matchFields: [{ key: "metadata.name", operator: "In", values: ["n1"] }] },
        {},
      ],
    },
  },
};

/** Pods are held for their facts, as the webhook leaves them, and let go narrowed; or as they are when the policy goes. */
export const architectureAffinity: PerturbationStory = architectureStory("architecture/affinity", {
  nodes: ["n1"],
  pods: ["held", "impossible", "known", "chooses", "last", "ungated"],
  policies: ["policy"],
  keys: [KEY],
  async prepare({ addNode, addPod, putPolicy }) {
    await addNode("n1", "amd64");
    await putPolicy("policy", affinity);
    await addPod("held", { images: [UNKNOWN, BOTH], gated: true });
  },
  steps: ({ addPod, dropPolicy, isHeld, putPolicy }) => [
    { name: "known-pod-comes", run: () => addPod("known", { images: [BOTH], gated: true }) },
    { name: "impossible-pod-comes", run: () => addPod("impossible", { images: [AMD, ARM], gated: true }) },
    {
      name: "choosing-pod-comes",
      run: () => addPod("chooses", { images: [UNKNOWN], gated: true, affinity: CHOICE }),
    },
    {
      name: "facts-come",
      run: () => putPolicy("policy", { ...affinity, facts: ALL_FACTS }),
      over: () => !isHeld("held") && !isHeld("chooses"),
    },
    { name: "ungated-pod-comes", run: () => addPod("ungated", { images: [AMD] }) },
    {
      name: "facts-go",
      needsSettled: true,
      run: () => putPolicy("policy", affinity),
    },
    {
      name: "last-pod-comes",
      // By a policy that still has the facts it would be let go, and rightly.
      needsSettled: true,
      run: () => addPod("last", { images: [UNKNOWN], gated: true }),
    },
    {
      name: "policy-goes",
      needsSettled: true,
      run: () => dropPolicy("policy"),
      over: () => !isHeld("impossible") && !isHeld("last"),
    },
  ],
});
