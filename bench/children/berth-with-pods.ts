/**
 * A process of its own: Berth as it ships, beside an informer of all pods with the index by node that later capabilities
 * need. Runs on the built packages. `berth-with-pods.ts KUBECONFIG LABEL_FOLDER`; prints `synced {...}` once both caches
 * are filled, with the longest stall of the event loop until then, and ends on SIGTERM.
 */
import { monitorEventLoopDelay } from "node:perf_hooks";
import { startBerth } from "@berth/cli";
import { connect, loadKubeconfig, type Pod, pods } from "@berth/kube";
import { clusterName, createInformer, createSilentLogger, systemClock } from "@berth/runtime";

/** What the capabilities to come read of a pod: whose it is, where it runs, what it tolerates, whether it is ready. */
function slimPod({ apiVersion, kind, metadata, spec, status }: Pod): Pod {
  const ready = status?.conditions?.find(({ type }) => type === "Ready");
  const owners = metadata?.ownerReferences?.map(({ apiVersion, kind, name, uid, controller = false }) => {
    return { apiVersion, kind, name, uid, controller };
  });
  const { name, namespace, uid, resourceVersion, labels, deletionTimestamp } = metadata ?? {};
  const images = (spec?.containers ?? []).map(({ name, image = "" }) => ({ name, image }));
  return {
    ...(apiVersion && { apiVersion }),
    ...(kind && { kind }),
    metadata: {
      ...(name && { name }),
      ...(namespace && { namespace }),
      ...(uid && { uid }),
      ...(resourceVersion && { resourceVersion }),
      ...(labels && { labels }),
      ...(deletionTimestamp && { deletionTimestamp }),
      ...(owners && { ownerReferences: owners }),
    },
    spec: {
      containers: images,
      ...(spec?.nodeName && { nodeName: spec.nodeName }),
      ...(spec?.tolerations && { tolerations: spec.tolerations }),
    },
    status: { ...(status?.phase && { phase: status.phase }), ...(ready && { conditions: [ready] }) },
  };
}

const [kubeconfigFile = "", labelFolder = ""] = process.argv.slice(2);
const { connect: to } = await loadKubeconfig([kubeconfigFile], { environment: {} });
const stop = new AbortController();
process.once("SIGTERM", () => stop.abort());

await using client = connect({ ...to, userAgent: "bench-berth-pods" });
const stalls = monitorEventLoopDelay({ resolution: 1 });
stalls.enable();
const startedAt = performance.now();
await using berth = await startBerth({
  client,
  signal: stop.signal,
  labelFolder: { path: labelFolder, shown: labelFolder, options: { allowReserved: [] } },
});
const informer = createInformer<Pod>({
  client,
  cluster: clusterName("local"),
  resource: pods,
  project: slimPod,
  indexes: { node: (pod) => (pod.spec?.nodeName ? [pod.spec.nodeName] : []) },
  clock: systemClock,
  log: createSilentLogger(),
});
const running = await informer.start(stop.signal);
await berth.nodes.whenSynced(stop.signal);
stalls.disable();
const report = {
  nodes: berth.nodes.size,
  pods: informer.size,
  tookMs: performance.now() - startedAt,
  stallMs: stalls.max / 1e6,
  stallP99Ms: stalls.percentile(99) / 1e6,
};
console.log(`synced ${JSON.stringify(report)}`);
await running.ended;
