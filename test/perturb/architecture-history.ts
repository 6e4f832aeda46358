/** Versions of what an architecture policy is about, written down as a telling would, for tests of the verdict. */
import {
  daemonSets,
  type KubeObject,
  type Node,
  nodes,
  type Pod,
  pods,
  type Resource,
  type Toleration,
} from "@berth/kube";
import { architecturePolicies, ORIGINAL_ARCHITECTURE_KEY } from "@berth/placement";
import { type Author, aNode } from "@berth/testcluster";
import {
  daemonSetObject,
  podObject,
  type StoryPod,
  type StoryPolicy,
  specOf,
} from "./architecture-objects.ts";
import { forbiddenOfArchitectures } from "./architecture-verdict.ts";
import { document } from "./scene.ts";
import { WrittenHistory } from "./written-history.ts";

type PodSpec = NonNullable<Pod["spec"]>;

export class ArchitectureHistory extends WrittenHistory {
  policy(content: StoryPolicy): this {
    return this.#note(
      architecturePolicies,
      document(architecturePolicies, "policy", specOf(content)),
      "story",
    );
  }

  policyGoes(): this {
    return this.#note(architecturePolicies, document(architecturePolicies, "policy", {}), "story", "DELETED");
  }

  /** @param recorded which of the taints the node says are Berth's. Default: all. */
  node(taints: readonly string[], by: Author = "controller", recorded: readonly string[] = taints): this {
    return this.#note(nodes, nodeWith(taints, recorded), by);
  }

  pod(content: StoryPod): this {
    return this.#note(pods, podObject("pod", content), "story");
  }

  /** As the controller leaves it. */
  podBecomes(change: (spec: PodSpec) => object): this {
    return this.changes<Pod>(pods, (pod) => ({
      ...pod,
      spec: { ...pod.spec, ...change(pod.spec as PodSpec) } as PodSpec,
    }));
  }

  daemonSet(tolerations: readonly Toleration[], by: Author = "controller"): this {
    return this.#note(daemonSets, daemonSetObject("set", "both", tolerations), by);
  }

  changes<T extends KubeObject>(resource: Resource<T>, change: (object: T) => T): this {
    return this.#note(resource, change(this.#last(resource) as T), "controller");
  }

  removes(resource: Resource): this {
    return this.#note(resource, this.#last(resource) ?? {}, "controller", "DELETED");
  }

  get problems(): string {
    const trial = { steps: this.steps, keys: [ORIGINAL_ARCHITECTURE_KEY], sentinelKey: "sentinel" };
    return forbiddenOfArchitectures(this.entries, trial).join();
  }

  #last(resource: Resource): KubeObject | undefined {
    return this.entries.findLast((entry) => entry.resource === resource)?.object;
  }

  #note(resource: Resource, object: KubeObject, by: Author, gone?: "DELETED"): this {
    return this.note(resource, { name: resource.plural, object, by, ...(gone && { gone }) });
  }
}

function nodeWith(taints: readonly string[], recorded: readonly string[]): Node {
  const node = aNode("n1").tainted(...taints);
  if (recorded.length === 0) return node.build();
  const mark = { c: "architecture", r: "cluster/policy" };
  const marks = recorded.map((text) => [`taint/${text.split("=")[0]}:NoSchedule`, mark]);
  const record = JSON.stringify({ v: 1, by: "berth", marks: Object.fromEntries(marks) });
  return node.annotated({ "berth.dev/marks": record }).build();
}
