/** Berth is uninstalled while all its documents are in force, and the cluster is as it was before. */
import { readFile } from "node:fs/promises";
import { join } from "node:path";
import { customResourceDefinitions, namespaces, nodes } from "@berth/kube";
import { type AllObjects, readAllObjects } from "@berth/testcluster";
import { installBerth, NAMESPACE, twoReady } from "../berth.ts";
import { expect, type Scene, type Stage, since, until } from "../stage.ts";
import { isHeld } from "./capabilities.ts";

/** Of what `helm uninstall` with its hook takes. The chart allows 120 s for the Job. */
const UNINSTALL_SECONDS = 60;

/** The scenes that install and uninstall, around all others. */
export function installation(): { readonly install: Scene; readonly uninstall: readonly Scene[] } {
  let before: AllObjects = {};
  const install: Scene = {
    title: "Berth is installed from its chart by one helm install, CRDs included",
    play: async (stage) => {
      before = await readSettled(stage);
      return installBerth(stage);
    },
  };
  const byHook: Scene = {
    title: "helm uninstall: a node is held, a pod waits, an agent is managed, a Workload runs",
    play: async (stage) => {
      // Its DaemonSet never prepares it again.
      await stage.kubectl(["delete", "daemonset/warm-up", "-n", "warm-up"]);
      await stage.nodes.get("node-3")?.kill();
      await stage.nodes.get("node-3")?.boot();
      await allInForce(stage);
      const startedAt = performance.now();
      const printed = await stage.helm(["uninstall", "berth", "--namespace", NAMESPACE]);
      const took = since(startedAt);
      expect(Number.parseFloat(took) < UNINSTALL_SECONDS, `it took ${took}`);
      for (const line of [
        "label/example.com/kernel=",
        "taint/startup.k8s.io/initializing:NoSchedule",
        "daemonsets.apps kube-system/apm-agent: its request for the label",
        "1 pod will be released from an architecture policy: placed/unknown",
        "workloads.compute.datumapis.com default/hello: finalizer",
      ])
        expect(printed.includes(line), `helm does not print ${line}, but ${printed}`);
      const log = await readFile(stage.auditLog, "utf8");
      const refused = log
        .split("\n")
        .find((it) => it.includes(`:${NAMESPACE}:`) && it.includes('"code":403'));
      expect(refused === undefined, `the API server refused ${refused}`);
      await asBefore(stage, before);
      return `it took ${took}, told what it removed, and was refused nothing; without CRDs and documents the cluster is as before`;
    },
  };
  const withoutHook: Scene = {
    title: "Berth is installed again, and uninstalled with --no-hooks; berth clean does the rest",
    play: async (stage) => {
      await installBerth(stage);
      await stage.apply("labels.yaml");
      await stage.apply("gate.yaml");
      await stage.wait("startupgate/warm-up", "condition=Admission");
      // This gate has never held node-3, so a reboot alone would tell it nothing.
      await stage.nodes.get("node-3")?.kill();
      await stage.kubectl(["delete", "node/node-3"]);
      await stage.nodes.get("node-3")?.boot();
      await allInForce(stage);
      await stage.helm(["uninstall", "berth", "--namespace", NAMESPACE, "--no-hooks"]);
      const config = join(import.meta.dirname, "../documents/fleet.yaml");
      await stage.berth(["clean", "--yes", "--config", config]);
      await asBefore(stage, before);
      return "after berth clean the cluster is as before, too";
    },
  };
  return { install, uninstall: [byHook, withoutHook] };
}

/** Waits until node-3 is held, a pod waits for its image, an agent is on node-2 alone, and a Workload runs. */
async function allInForce(stage: Stage): Promise<void> {
  const { apply, wait, client } = stage;
  await twoReady(stage);
  await until(stage, async () =>
    expect(isHeld(await client.get(nodes, { name: "node-3" })), "the gate does not hold node-3"),
  );
  // The API server may ask a replica that was on node-3 until its endpoint is gone.
  for (const file of ["footprint.yaml", "architecture.yaml", "workload.yaml"])
    await until(stage, () => apply(file));
  await wait("architecturepolicy/default", "condition=Admission");
  await apply("unknown.yaml");
  await wait("pod/unknown -n placed", "jsonpath={.spec.schedulingGates[0].name}=berth.dev/architecture");
  await wait("daemonset/apm-agent -n kube-system", "jsonpath={.status.numberReady}=1");
  await wait("workload/hello", "jsonpath={.status.readyReplicas}=2");
}

/** Deletes what the scenes have applied, CRDs included, and waits until the cluster is as before. */
async function asBefore(stage: Stage, before: AllObjects): Promise<void> {
  const { kubectl, client, berth } = stage;
  const remove = (...what: readonly string[]) =>
    kubectl(["delete", "--ignore-not-found", "--timeout=60s", ...what]);
  await remove("workload/hello", "pod/shop", "pod/batch");
  await remove("daemonset/apm-agent", "-n", "kube-system");
  const { items } = await client.list(customResourceDefinitions);
  const names = items.map(({ metadata }) => metadata?.name ?? "").toSorted();
  const printed = await berth(["manifests", "crds", "--fleet"]);
  const listed = await kubectl(
    ["create", "--dry-run=client", "--output", "name", "--filename", "-"],
    printed,
  );
  const expected = listed.replaceAll(/^.*\//gm, "").split("\n").toSorted();
  expect(names.join() === expected.join(), `the CRDs are ${names.join()}`);
  await remove("crd", ...names);
  const made = (await client.list(namespaces)).items.map(({ metadata }) => metadata?.name ?? "");
  await remove("namespace", ...made.filter((it) => [NAMESPACE, "placed", "warm-up"].includes(it)));
  await until(stage, async () => {
    const after = await readSettled(stage);
    const differs = differences(before, after);
    expect(differs.length === 0, `not as before:\n${differs.join("\n")}`);
  });
}

/** Each place where the two differ, and the beginning of what is there. */
function differences(before: unknown, after: unknown, path = ""): readonly string[] {
  if (!isObject(before) || !isObject(after)) {
    const [old, now] = [before, after].map((it) => JSON.stringify(it) ?? "nothing");
    return old === now ? [] : [`${path} was ${old?.slice(0, 200)}, is ${now?.slice(0, 200)}`];
  }
  const keys = new Set([...Object.keys(before), ...Object.keys(after)]);
  return [...keys].flatMap((key) => differences(before[key], after[key], `${path}/${key}`));
}

const isObject = (value: unknown): value is Readonly<Record<string, unknown>> =>
  typeof value === "object" && value !== null;

/** Without the third node, what its kubelet makes beside it, and what comes and goes by itself. */
const readSettled = ({ client }: Stage): Promise<AllObjects> =>
  readAllObjects(client, {
    ignore: (name) => /^((leases|endpointslices)\b|(nodes|csinodes\.storage\.k8s\.io) node-3$)/.test(name),
  });
