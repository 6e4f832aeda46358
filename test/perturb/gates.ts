/** The stories of the startup gates: nodes that are held from their creation, others that are not, and such that lapse. */
import { originalGate } from "@berth/placement";
import type { PerturbationStory } from "@berth/testcluster";
import type { StoryGate } from "./gate-oracle.ts";
import { gateStory } from "./gate-scene.ts";

/** As kubelet's `--register-with-taints` gives it to a node that is to be held. */
const TAINT = "startup.k8s.io/initializing";
const REGISTERED = `${TAINT}=wait:NoSchedule`;
const FOREIGN = "example.com/dedicated";
const INIT = originalGate.podLabels;
const DRIVER = { "example.com/driver": "true" };
const GPU = "gate.example.com/gpu";

const net: StoryGate = { taint: TAINT, completed: "startup.k8s.io/completedAt", pods: [INIT, DRIVER] };

/** Short enough for `make test`: a node is held and let go, and somebody puts the taint back. */
export const gatesHeld: PerturbationStory = gateStory(
  "gates/held",
  {
    gates: { net: { ...net, pods: [INIT] } },
    nodes: ["n1"],
    prepare: ({ putGate }) => putGate("net"),
    steps: ({ addNode, addPod, ready, removeNode, stands, taint }) => [
      { name: "node-arrives", run: () => addNode("n1", [REGISTERED, `${FOREIGN}=ml:NoSchedule`]) },
      { name: "pod-comes", run: () => addPod("init", "n1", INIT) },
      { name: "pod-is-ready", run: () => ready("init", true), over: () => !stands("n1", TAINT) },
      {
        name: "taint-comes-back",
        needsSettled: true,
        run: () => taint("n1", (taints) => [{ key: TAINT, value: "wait", effect: "NoSchedule" }, ...taints]),
      },
      // Had the taint not gone by now, it would rightly stay.
      { name: "pod-lapses", needsSettled: true, run: () => ready("init", false) },
      { name: "node-goes", run: () => removeNode("n1") },
    ],
  },
  { oldestView: 0 },
);

/** A node is held, and let go when the last of its pods is ready; then somebody meddles with its taints. */
export const gatesRelease: PerturbationStory = gateStory("gates/release", {
  gates: { net },
  nodes: ["n1", "n2"],
  prepare: ({ putGate }) => putGate("net"),
  steps: ({ addNode, addPod, endPod, ready, removeNode, stands, stopPod, taint }) => [
    { name: "node-arrives", run: () => addNode("n1", [REGISTERED, `${FOREIGN}=ml:NoSchedule`]) },
    { name: "first-pod-comes", run: () => addPod("first", "n1", INIT) },
    { name: "driver-comes", run: () => addPod("driver", "n1", DRIVER) },
    { name: "driver-is-ready", run: () => ready("driver", true) },
    { name: "second-pod-comes", run: () => addPod("second", "n1", INIT) },
    { name: "first-pod-is-ready", run: () => ready("first", true) },
    { name: "first-pod-ends", run: () => stopPod("first") },
    { name: "second-pod-is-ready-not", run: () => ready("second", false) },
    { name: "replacement-comes", run: () => addPod("third", "n1", INIT) },
    { name: "first-pod-is-gone", run: () => endPod("first") },
    { name: "replacement-is-ready", run: () => ready("third", true) },
    { name: "second-pod-is-ready", run: () => ready("second", true), over: () => !stands("n1", TAINT) },
    {
      name: "taint-comes-back",
      needsSettled: true,
      run: () => taint("n1", (taints) => [...taints, { key: TAINT, value: "wait", effect: "NoSchedule" }]),
    },
    {
      name: "foreign-taint-changes",
      run: () =>
        taint("n1", (taints) => taints.map((one) => (one.key === FOREIGN ? { ...one, value: "web" } : one))),
    },
    { name: "another-arrives", run: () => addNode("n2", [`${TAINT}=later:NoSchedule`]) },
    { name: "pod-lapses", run: () => ready("third", false) },
    { name: "node-goes", run: () => removeNode("n1") },
  ],
});

/** Nodes come without the taint: an idle one is held after all, a busy one is not; and gates wait for each other. */
export const gatesBackfill: PerturbationStory = gateStory("gates/backfill", {
  gates: {
    net: { ...net, pods: [INIT] },
    gpu: { taint: GPU, completed: "gate.example.com/done", annotations: ["gpu/ready"], after: ["net"] },
  },
  nodes: ["n1", "n2", "n3"],
  async prepare({ putGate }) {
    await putGate("net");
    await putGate("gpu");
  },
  steps: ({ addNode, addPod, addWorkload, annotate, dropGate, ready, stands }) => [
    {
      name: "idle-node-arrives",
      run: () => addNode("n1"),
      over: () => stands("n1", TAINT) && stands("n1", GPU),
    },
    {
      name: "busy-node-arrives",
      async run() {
        await addWorkload("app", "n2");
        await addNode("n2");
      },
    },
    { name: "pod-comes", run: () => addPod("init", "n1", INIT) },
    { name: "gpu-is-ready", run: () => annotate("n1", { "gpu/ready": "true" }) },
    { name: "pod-is-ready", run: () => ready("init", true), over: () => !stands("n1", GPU) },
    {
      name: "registered-node-arrives",
      run: () => addNode("n3", [REGISTERED]),
      over: () => stands("n3", GPU),
    },
    { name: "first-gate-goes", run: () => dropGate("net"), over: () => stands("n3", GPU) },
    { name: "pod-lapses", run: () => ready("init", false) },
    { name: "second-gate-goes", run: () => dropGate("gpu") },
  ],
});

/** The signals are lost after the release: held again, as many as may be. */
export const gatesContinuous: PerturbationStory = gateStory("gates/continuous", {
  gates: {
    net: { taint: TAINT, completed: "startup.k8s.io/completedAt", conditions: ["NetworkUp"], again: 1 },
  },
  nodes: ["n1", "n2", "n3"],
  async prepare({ addNode, putGate }) {
    await putGate("net");
    await addNode("n1", [REGISTERED]);
  },
  steps: ({ addNode, annotate, condition, letGo, removeNode, stands, taint }) => [
    { name: "another-arrives", run: () => addNode("n2", [REGISTERED, `${FOREIGN}=ml:NoSchedule`]) },
    {
      name: "first-is-up",
      run: () => condition("n1", "NetworkUp", "True"),
      over: () => !stands("n1", TAINT),
    },
    {
      name: "second-is-up",
      run: () => condition("n2", "NetworkUp", "True"),
      over: () => !stands("n2", TAINT),
    },
    {
      name: "first-is-down",
      needsSettled: true,
      run: () => condition("n1", "NetworkUp", "False"),
      over: () => stands("n1", TAINT),
    },
    // Seen with the one before, either of them could be the one that is held again.
    { name: "second-is-down", needsSettled: true, run: () => condition("n2", "NetworkUp", "False") },
    {
      name: "taint-is-torn-off",
      needsSettled: true,
      run: () => taint("n1", (taints) => taints.filter(({ key }) => key !== TAINT)),
      over: () => stands("n1", TAINT),
    },
    {
      name: "first-is-up-again",
      needsSettled: true,
      run: () => condition("n1", "NetworkUp", "True"),
      over: () => stands("n2", TAINT) && !stands("n1", TAINT),
    },
    { name: "others-note", run: () => annotate("n2", { "example.com/note": "changed" }) },
    { name: "third-arrives", run: () => addNode("n3", [REGISTERED]), over: () => stands("n3", TAINT) },
    {
      name: "third-is-let-go",
      needsSettled: true,
      run: () => letGo("n3", "net"),
      over: () => !stands("n3", TAINT),
    },
    { name: "third-is-up", run: () => condition("n3", "NetworkUp", "True") },
    {
      name: "first-is-replaced",
      async run() {
        await removeNode("n1");
        await addNode("n1", [REGISTERED]);
      },
      over: () => stands("n1", TAINT),
    },
  ],
});
