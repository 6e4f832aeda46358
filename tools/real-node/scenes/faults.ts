/** Nodes and kubelets that fail, with the leading replica on them. */
import { setTimeout as delay } from "node:timers/promises";
import { nodes, pods } from "@berth/kube";
import { leader, readyReplicas, TOLERATION_SECONDS, twoReady, writesOfBerth } from "../berth.ts";
import type { RealNode } from "../node.ts";
import { expect, isReady, nodeOf, type Scene, type Stage, until } from "../stage.ts";
import { isHeld, prepared } from "./capabilities.ts";

/** From the loss of the leader's node to the first write of another replica. */
const TAKEOVER_SECONDS = 20;
/** From the end of the toleration to two ready replicas, with a node to spare. */
const REPLACED_SECONDS = 30;

const kubelet: Scene = {
  title: "The kubelet of the leader's node stops; its containers run on",
  play: async (stage) => {
    const { pod, node } = await leading(stage);
    await using ready = countReady(stage);
    await node.stopKubelet();
    await givenUp(stage, pod, node);
    node.startKubelet();
    await stage.wait(`node/${node.name}`, "condition=Ready");
    await twoReady(stage);
    return `Kubernetes gave up ${node.name} and the replica; ${ready.least()} was ready throughout; two are again`;
  },
};

const cut: Scene = {
  title: "The leader's node is cut off, and comes back",
  play: async (stage) => {
    const { pod, node } = await leading(stage);
    await using ready = countReady(stage);
    await node.cut();
    const takeover = await firstWriteAfter(stage, pod, node);
    // Leases, the node and the replica have all run out then: a longer cut changes nothing more.
    await givenUp(stage, pod, node);
    await node.mend();
    await stage.wait(`node/${node.name}`, "condition=Ready");
    await twoReady(stage);
    return `another replica wrote after ${takeover}; ${ready.least()} was ready throughout; two are again`;
  },
};

const power: Scene = {
  title: "The power of the leader's node fails, with a third node to spare",
  play: async (stage) => {
    const { pod, node } = await leading(stage);
    await node.kill();
    const takeover = await firstWriteAfter(stage, pod, node);
    await givenUp(stage, pod, node);
    const givenUpAt = performance.now();
    await twoReady(stage, REPLACED_SECONDS);
    const replaced = (performance.now() - givenUpAt) / 1000;
    await node.boot();
    await stage.wait(`node/${node.name}`, "condition=Ready");
    return `another replica wrote after ${takeover}; two were ready ${replaced.toFixed(1)} s after the toleration; the node is back`;
  },
};

const reboot: Scene = {
  title: "node-3 is rebooted, with the pods on it that its gate waited for",
  play: async (stage) => {
    const bootOf = async () => (await stage.client.get(nodes, { name: "node-3" })).status?.nodeInfo?.bootID;
    const before = await bootOf();
    const bootedAt = Date.now();
    await stage.nodes.get("node-3")?.kill();
    await stage.nodes.get("node-3")?.boot();
    const after = await until(stage, async () => {
      const node = await stage.client.get(nodes, { name: "node-3" });
      expect(node.status?.nodeInfo?.bootID !== before, "its kubelet has not said the new boot");
      expect(isHeld(node), "the gate does not hold it");
      return node.status?.nodeInfo?.bootID;
    });
    await prepared(stage, bootedAt);
    await twoReady(stage);
    return `the gate held boot ${after?.slice(0, 8)} until the DaemonSet was ready again; the pods run`;
  },
};

const audit: Scene = {
  title: "The audit log of the whole run",
  play: async (stage) => {
    const writes = await writesOfBerth(stage);
    /** By Lease: that of Berth, and that of the Fleet. */
    const holders = new Map<string, string>();
    for (const { pod, object } of writes) {
      if (object.startsWith("leases/")) holders.set(object, pod);
      else if (object.startsWith("nodes/"))
        expect(pod === holders.get("leases/berth"), `${pod} wrote ${object} and did not lead`);
      else expect([...holders.values()].includes(pod), `${pod} wrote ${object} and held no Lease`);
    }
    const replicas = new Set(writes.map(({ pod }) => pod));
    return `${writes.length} writes by ${replicas.size} replicas, each by one that held a Lease then`;
  },
};

async function leading(stage: Stage): Promise<{ readonly pod: string; readonly node: RealNode }> {
  await twoReady(stage);
  // One that ends in order gives the Lease up, and a moment later another takes it.
  const pod = await until(stage, async () => {
    const found = await leader(stage);
    expect(isReady(found), `${found.metadata?.name} leads, and is not ready`);
    return found;
  });
  const node = stage.nodes.get(nodeOf(pod));
  expect(node, `the leader is on ${nodeOf(pod)}`);
  stage.say(`   ${pod.metadata?.name} leads, on ${node.name}`);
  return { pod: pod.metadata?.name ?? "", node };
}

/** Waits until Kubernetes has lost the node, and the toleration of the replica there is over. */
async function givenUp(stage: Stage, pod: string, { name }: RealNode): Promise<void> {
  await stage.wait(`node/${name}`, "condition=Ready=Unknown");
  await until(stage, async () => {
    const { items } = await stage.client.list(pods, { namespace: "berth-system" });
    const replica = items.find(({ metadata }) => metadata?.name === pod);
    expect(replica?.metadata?.deletionTimestamp, `Kubernetes lets ${pod} be after ${TOLERATION_SECONDS} s`);
  });
}

/** Gives Berth something to write on another node, and waits until another replica has written. */
async function firstWriteAfter(stage: Stage, old: string, { name: lost }: RealNode): Promise<string> {
  const lostAt = Date.now();
  const other = [...stage.nodes.keys()].find((name) => name !== lost);
  await stage.kubectl(["label", `node/${other}`, "example.com/kernel-"]);
  const first = await until(stage, async () => {
    const writes = await writesOfBerth(stage);
    const write = writes.find(
      ({ pod, at, object }) => at > lostAt && pod !== old && !object.startsWith("leases/"),
    );
    expect(write, "no other replica has written");
    return write;
  });
  const seconds = (first.at - lostAt) / 1000;
  expect(seconds <= TAKEOVER_SECONDS, `another replica wrote only after ${seconds} s`);
  return `${seconds.toFixed(1)} s (${first.object})`;
}

/** Looks at the replicas four times a second until it is disposed of. */
function countReady(stage: Stage): AsyncDisposable & { readonly least: () => number } {
  let least = 2;
  const over = new AbortController();
  const counting = (async () => {
    while (!over.signal.aborted) {
      least = Math.min(least, (await readyReplicas(stage)).length);
      await delay(250, undefined, { signal: over.signal }).catch(() => undefined);
    }
  })();
  return {
    least: () => {
      expect(least > 0, "at one moment no replica was ready");
      return least;
    },
    [Symbol.asyncDispose]: () => {
      over.abort();
      return counting;
    },
  };
}

export const TWO_NODE_FAULTS: readonly Scene[] = [kubelet, cut];
export const THREE_NODE_FAULTS: readonly Scene[] = [power, reboot, audit];
