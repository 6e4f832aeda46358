/** Pods with every criterion of the scheduler that `findFit` knows, and nodes for which each of them matters. */
import type { Node, Pod, Toleration } from "@berth/kube";
import { aNode } from "@berth/testcluster";
import * as fc from "fast-check";

const ZONE = "topology.kubernetes.io/zone";
const HOST = "kubernetes.io/hostname";
const GPU = "example.com/gpu";

const small = { cpu: "4", memory: "8Gi", pods: "6" };
const large = { cpu: "7500m", memory: "16Gi", pods: "9" };

export const fitNodes: readonly Node[] = [
  aNode("fit-1").zone("a").capacity(small).labelled({ disk: "ssd", rank: "1" }),
  aNode("fit-2").zone("a").capacity(small).labelled({ disk: "hdd", rank: "7" }),
  aNode("fit-3").zone("b").capacity(large).labelled({ disk: "ssd" }),
  aNode("fit-4").zone("b").capacity(large).tainted("dedicated=x:NoSchedule"),
  aNode("fit-5").zone("c").capacity(large).labelled({ rank: "30" }),
  aNode("fit-6").zone("c").capacity(small).tainted("drain:NoExecute").labelled({ disk: "ssd" }),
  aNode("fit-7")
    .zone("a")
    .capacity({ ...large, [GPU]: "2" })
    .labelled({ disk: "hdd" }),
  aNode("fit-8").zone("b").capacity(small).unschedulable(),
  aNode("fit-9").capacity(large).labelled({ disk: "hdd" }),
  aNode("fit-10")
    .zone("c")
    .capacity({ ...small, [GPU]: "1" })
    .tainted("soft:PreferNoSchedule"),
  aNode("fit-11")
    .zone("d")
    .capacity({ ...small, pods: "1" }),
  aNode("fit-12")
    .zone("a")
    .capacity({ ...large, cpu: "700m" })
    .labelled({ disk: "ssd", rank: "x" }),
].map((it) => it.build());

const rarely = <T>(arbitrary: fc.Arbitrary<T>, weight = 1): fc.Arbitrary<T | undefined> =>
  fc.oneof({ weight: 4, arbitrary: fc.constant(undefined) }, { weight, arbitrary });
const oneOf = fc.constantFrom;

const requests = fc.record({
  cpu: oneOf(undefined, undefined, "100m", "0.5", "1200m", "3"),
  memory: rarely(oneOf("64Mi", "1Gi", "1500M", "5e9"), 3),
});
const resources = fc
  .tuple(requests, rarely(oneOf("1", "2")))
  .map(([of, gpu]) => ({ requests: { ...of, [GPU]: gpu }, limits: { [GPU]: gpu } }));
const ports = fc
  .record({
    hostPort: oneOf(8080, 9090),
    hostIP: oneOf(undefined, "10.0.0.1", "10.0.0.2"),
    protocol: oneOf(undefined, "UDP"),
  })
  .map((it) => [{ ...it, containerPort: it.hostPort }]);
const initContainer = fc.record({ resources, restartPolicy: oneOf(undefined, "Always") });

const tolerations: fc.Arbitrary<Toleration[]> = fc.subarray<Toleration>([
  { key: "dedicated", operator: "Equal", value: "x", effect: "NoSchedule" },
  { key: "drain", operator: "Exists" },
  { key: "node.kubernetes.io/unschedulable", operator: "Exists", effect: "NoSchedule" },
]);
const nodeTerm = oneOf(
  { matchExpressions: [{ key: ZONE, operator: "In", values: ["a", "c"] }] },
  { matchExpressions: [{ key: "rank", operator: "Gt", values: ["5"] }] },
  { matchExpressions: [{ key: "disk", operator: "DoesNotExist" }] },
  { matchFields: [{ key: "metadata.name", operator: "NotIn", values: ["fit-3"] }] },
);
/** With all nodes to choose from, few criteria change the answer. */
const oneNode = oneOf(...fitNodes).map(({ metadata }) => [
  { matchFields: [{ key: "metadata.name", operator: "In", values: [metadata?.name ?? ""] }] },
]);
const labelSelector = oneOf(
  ...["a", "a", "b", "b"].map((app) => ({ matchLabels: { app } })),
  { matchExpressions: [{ key: "app", operator: "Exists" }] },
  {},
  undefined,
);
const podTerm = fc.record({
  topologyKey: oneOf(ZONE, HOST, HOST),
  labelSelector,
  namespaces: rarely(oneOf(["shop"], ["default", "shop"])),
  namespaceSelector: rarely(oneOf({}, { matchLabels: { team: "shop" } })),
});
const spread = fc
  .record({
    topologyKey: oneOf(ZONE, HOST),
    maxSkew: oneOf(1, 2),
    labelSelector,
    minDomains: rarely(oneOf(2, 6)),
    nodeAffinityPolicy: rarely(oneOf("Ignore")),
    nodeTaintsPolicy: rarely(oneOf("Honor")),
    matchLabelKeys: rarely(oneOf(["rev"])),
    whenUnsatisfiable: oneOf("DoNotSchedule"),
  })
  // The API server refuses keys without a selector.
  .filter((it) => it.labelSelector !== undefined || it.matchLabelKeys === undefined);

const terms = <T>(term: fc.Arbitrary<T>) =>
  fc.array(term, { minLength: 1, maxLength: 2 }).map((requiredDuringSchedulingIgnoredDuringExecution) => ({
    requiredDuringSchedulingIgnoredDuringExecution,
  }));

/** A pod without a name and a node, that the API server accepts. */
export const fitPods: fc.Arbitrary<Pod> = fc
  .record({
    namespace: oneOf("default", "default", "shop"),
    app: oneOf("a", "b"),
    rev: oneOf("1", "2"),
    resources,
    ports: rarely(ports),
    init: rarely(initContainer),
    ofPod: rarely(oneOf("7", "3500m").map((cpu) => ({ requests: { cpu } }))),
    runtimeClassName: rarely(oneOf("heavy")),
    tolerations,
    disk: rarely(oneOf("ssd", "hdd")),
    nodeTerms: fc.oneof(rarely(fc.array(nodeTerm, { minLength: 1, maxLength: 2 })), oneNode, oneNode),
    podAffinity: rarely(terms(podTerm)),
    podAntiAffinity: rarely(terms(podTerm), 2),
    spreads: rarely(fc.uniqueArray(spread, { selector: (it) => it.topologyKey, maxLength: 2 }), 3),
  })
  .map(({ namespace, app, rev, init, disk, nodeTerms, spreads, ...it }) =>
    withoutUndefined({
      apiVersion: "v1",
      kind: "Pod",
      metadata: { namespace, labels: { app, rev } },
      spec: {
        containers: [
          { name: "main", image: "registry.test/app:1", resources: it.resources, ports: it.ports },
        ],
        initContainers: init && [{ name: "init", image: "registry.test/app:1", ...init }],
        // The API server refuses less than the containers request together.
        resources: init === undefined ? it.ofPod : undefined,
        runtimeClassName: it.runtimeClassName,
        tolerations: it.tolerations,
        nodeSelector: disk && { disk },
        affinity: {
          nodeAffinity: nodeTerms && {
            requiredDuringSchedulingIgnoredDuringExecution: { nodeSelectorTerms: nodeTerms },
          },
          podAffinity: it.podAffinity,
          podAntiAffinity: it.podAntiAffinity,
        },
        topologySpreadConstraints: spreads,
      },
    }),
  );

const withoutUndefined = (pod: unknown): Pod => JSON.parse(JSON.stringify(pod)) as Pod;
