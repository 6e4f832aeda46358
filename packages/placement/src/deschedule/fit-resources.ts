/** Resources, number of pods and host ports, as the scheduler's plugins NodeResourcesFit and NodePorts count them. */
import type { Container, ContainerPort, Node, Pod } from "@berth/kube";
import { parseQuantity } from "@berth/runtime";
import type { Steps } from "./fit-topology.ts";

type Amounts = Readonly<Record<string, string>> | undefined;
/** A text as thousandths. */
type Parse = (text: string | undefined) => number;

const NANO_PER_THOUSANDTH = 1_000_000n;
const ANY_IP = "0.0.0.0";

/** Why the node has no room for the pod among these pods, beginning with a verb; undefined when it has. */
export function resourceCheck(pod: Pod): (node: Node, pods: readonly Pod[]) => Steps<string | undefined> {
  const parse = parser();
  const asked = resourcesOf(pod)
    .map((name) => ({ name, amount: requested(pod, name, parse) }))
    .filter(({ amount }) => amount > 0);
  const ports = hostPorts(pod);
  return function* ({ status }, pods) {
    const allocatable = status?.allocatable;
    if (pods.length >= whole("pods", parse(allocatable?.["pods"]))) return "has no place for one more pod";
    yield 1;
    for (const { name, amount } of asked) {
      yield pods.length;
      let free = whole(name, parse(allocatable?.[name])) - amount;
      for (let i = 0; free >= 0 && i < pods.length; i += 1) free -= requested(pods[i] as Pod, name, parse);
      if (free < 0) return `has too little free ${name}`;
    }
    for (const other of ports.length === 0 ? [] : pods)
      for (const used of hostPorts(other)) {
        yield ports.length;
        const taken = ports.find((port) => conflicts(port, used));
        if (taken !== undefined) return `has host port ${taken.hostPort} in use`;
      }
    return undefined;
  };
}

/** A container that asks for as much as the whole pod: a pod may have thousands, and a lookup reads many pods. */
export function asOneContainer(pod: Pod): Container {
  const parse = parser();
  const [containers, initContainers] = [
    byResource(pod.spec?.containers),
    byResource(pod.spec?.initContainers),
  ];
  const requests = resourcesOf(pod).map((name) => {
    const those = { containers: containers(name), initContainers: initContainers(name) };
    const amount = requested({ spec: { ...pod.spec, ...those } }, name, parse);
    return [name, `${Math.min(amount, Number.MAX_SAFE_INTEGER)}${name === "cpu" ? "m" : ""}`] as const;
  });
  return { name: "all", resources: { requests: Object.fromEntries(requests) }, ports: hostPorts(pod) };
}

/** Those that ask for a resource, found in one pass. */
function byResource(containers: readonly Container[] = []): (name: string) => readonly Container[] {
  const found = new Map<string, Container[]>();
  for (const container of containers)
    for (const name in container.resources?.requests) {
      const those = found.get(name);
      if (those === undefined) found.set(name, [container]);
      else those.push(container);
    }
  return (name) => found.get(name) ?? [];
}

/** Remembers what it has parsed, for one lookup. Many pods share few texts. Text that is no quantity is 0. */
function parser(): Parse {
  const known = new Map<string, number>();
  return (text) => {
    if (text === undefined) return 0;
    let value = known.get(text);
    if (value === undefined) {
      const nano = parseQuantity(text) ?? 0n;
      value = Number((nano + NANO_PER_THOUSANDTH - 1n) / NANO_PER_THOUSANDTH);
      known.set(text, value);
    }
    return value;
  };
}

/** The scheduler counts thousandths of a cpu, and whole units of anything else. */
function whole(resource: string, thousandths: number): number {
  return resource === "cpu" ? thousandths : Math.ceil(thousandths / 1000);
}

function resourcesOf({ spec }: Pod): readonly string[] {
  const requests = [
    ...(spec?.containers ?? []),
    ...(spec?.initContainers ?? []),
    { resources: spec?.resources },
  ];
  const lists: readonly Amounts[] = [...requests.map((it) => it.resources?.requests), spec?.overhead];
  return [...new Set(lists.flatMap((amounts) => Object.keys(amounts ?? {})))];
}

/**
 * What the pod requests of one resource (`PodRequests`, k8s.io/component-helpers/resource). Init containers run one
 * after the other; those that restart always (sidecars) keep running beside all later containers.
 */
function requested({ spec }: Pod, resource: string, parse: Parse): number {
  let running = 0;
  let sidecars = 0;
  let peak = 0;
  for (const { resources } of spec?.containers ?? []) running += parse(resources?.requests?.[resource]);
  for (const container of spec?.initContainers ?? []) {
    const amount = parse(container.resources?.requests?.[resource]);
    peak = Math.max(peak, sidecars + amount);
    if (isSidecar(container)) sidecars += amount;
  }
  const ofPod = isPodLevel(resource) ? spec?.resources?.requests?.[resource] : undefined;
  const total = ofPod === undefined ? Math.max(running + sidecars, peak) : parse(ofPod);
  return whole(resource, total + parse(spec?.overhead?.[resource]));
}

/** Resources for which the requests of a pod replace those of its containers (`IsSupportedPodLevelResource`). */
function isPodLevel(resource: string): boolean {
  return resource === "cpu" || resource === "memory" || resource.startsWith("hugepages-");
}

function isSidecar({ restartPolicy }: Container): boolean {
  return restartPolicy === "Always";
}

function hostPorts({ spec }: Pod): readonly ContainerPort[] {
  const running = [...(spec?.containers ?? []), ...(spec?.initContainers ?? []).filter(isSidecar)];
  return running.flatMap(({ ports = [] }) => ports.filter(({ hostPort = 0 }) => hostPort > 0));
}

function conflicts(a: ContainerPort, b: ContainerPort): boolean {
  const [one, other] = [a.hostIP || ANY_IP, b.hostIP || ANY_IP];
  return (
    a.hostPort === b.hostPort &&
    (a.protocol ?? "TCP") === (b.protocol ?? "TCP") &&
    (one === other || one === ANY_IP || other === ANY_IP)
  );
}
