import { isDeepStrictEqual } from "node:util";
import { applyPatch } from "@berth/host";
import {
  ApiError,
  type ApiFailure,
  type JsonPatchOperation,
  type Patch,
  type Pod,
  type PodSpec,
} from "@berth/kube";
import type { PodStatusPatch } from "../pod-condition.ts";

/** One patch as the server took it. */
export interface PodWrite {
  readonly name: string;
  readonly before: Pod;
  readonly after: Pod;
}

export interface PodServerOptions {
  /** What admission would say to this change; asked after the guards. */
  readonly refusal?: (before: Pod, after: Pod) => ApiFailure | undefined;
  readonly onWrite?: (write: PodWrite) => void;
}

const REQUIRED = "requiredDuringSchedulingIgnoredDuringExecution";

/**
 * Pods of one namespace with uids and versions, JSON patches with tests, and what may change of a stored pod: tolerations
 * are appended, gates taken off, and required affinity of a gated pod added to. `reader` is behind until told to catch up.
 * What a real server decides is the subject of the cluster tests.
 */
export class PodServer {
  readonly #options: PodServerOptions;
  readonly #stored = new Map<string, Pod>();
  readonly #seen = new Map<string, Pod>();
  #version = 0;
  /** Patches that were sent, whatever became of them. */
  requests = 0;

  constructor(options: PodServerOptions = {}) {
    this.#options = options;
  }

  get pods(): ReadonlyMap<string, Pod> {
    return this.#stored;
  }

  /** Of an informer. */
  readonly reader = { get: ({ name }: { readonly name: string }): Pod | undefined => this.#seen.get(name) };

  create(pod: Pod, createdAt: number): void {
    const { name = "" } = pod.metadata ?? {};
    if (this.#stored.has(name)) return;
    const creationTimestamp = new Date(createdAt).toISOString();
    const uid = `uid-${this.#version + 1}`;
    this.#store(name, { ...pod, metadata: { ...pod.metadata, creationTimestamp, uid } });
  }

  /** A write of another writer. */
  edit(name: string, change: (pod: Pod) => Pod): void {
    const pod = this.#stored.get(name);
    if (pod !== undefined) this.#store(name, change(pod));
  }

  remove(name: string): void {
    this.#stored.delete(name);
  }

  /** The reader sees this pod as it is now. */
  catchUp(name: string): void {
    const pod = this.#stored.get(name);
    if (pod === undefined) this.#seen.delete(name);
    else this.#seen.set(name, pod);
  }

  /** A JSON patch of the pod, or a strategic one of its status. */
  send(name: string, { type, body }: Patch): Promise<Pod> {
    return type === "json" ? this.patch(name, body) : this.patchStatus(name, body as PodStatusPatch);
  }

  patch(name: string, patch: readonly JsonPatchOperation[]): Promise<Pod> {
    this.requests += 1;
    const before = this.#stored.get(name);
    if (before === undefined) return refuse(name, { kind: "notFound" });
    let after: Pod;
    try {
      after = applyPatch(before, patch) as Pod;
    } catch {
      return refuse(name, { kind: "invalid", causes: [] });
    }
    const failure = this.#options.refusal?.(before, after);
    if (failure !== undefined) return refuse(name, failure);
    const problem = changeProblem(before.spec, after.spec);
    if (problem !== undefined) {
      return refuse(name, { kind: "invalid", causes: [{ field: problem, message: "may not be changed" }] });
    }
    const stored = this.#store(name, after);
    this.#options.onWrite?.({ name, before, after });
    return Promise.resolve(stored);
  }

  /** As the API server merges it: conditions by type. Not counted in `requests`. */
  patchStatus(name: string, { metadata, status: { conditions } }: PodStatusPatch): Promise<Pod> {
    const before = this.#stored.get(name);
    if (before === undefined) return refuse(name, { kind: "notFound" });
    if (before.metadata?.uid !== metadata.uid) return refuse(name, { kind: "conflict", causes: [] });
    const [{ type, $patch, ...more }] = conditions as readonly [{ type: string; $patch?: string }];
    const others = (before.status?.conditions ?? []).filter((it) => it.type !== type);
    const kept = $patch === "delete" ? others : [...others, { type, status: "", ...more }];
    return Promise.resolve(this.#store(name, { ...before, status: { ...before.status, conditions: kept } }));
  }

  #store(name: string, pod: Pod): Pod {
    this.#version += 1;
    const stored = { ...pod, metadata: { ...pod.metadata, resourceVersion: String(this.#version) } };
    this.#stored.set(name, stored);
    return stored;
  }
}

function refuse(name: string, failure: ApiFailure): Promise<never> {
  return Promise.reject(new ApiError(failure, { verb: "patch", resource: "pods", name }));
}

/** The field that was changed as it must not be, by the rules of `ValidatePodUpdate`. */
function changeProblem(before?: PodSpec, after?: PodSpec): string | undefined {
  const [was, is] = [before ?? { containers: [] }, after ?? { containers: [] }];
  const { tolerations: had = [], schedulingGates: gates = [], affinity: narrow, ...rest } = was;
  const { tolerations: has = [], schedulingGates: left = [], affinity: narrower, ...others } = is;
  if (!isDeepStrictEqual(rest, others)) return "spec";
  if (!isDeepStrictEqual(has.slice(0, had.length), had)) return "spec.tolerations";
  if (left.some(({ name }) => !gates.some((it) => it.name === name))) return "spec.schedulingGates";
  if (isDeepStrictEqual(narrow, narrower)) return undefined;
  const terms = narrow?.nodeAffinity?.[REQUIRED]?.nodeSelectorTerms;
  const now = narrower?.nodeAffinity?.[REQUIRED]?.nodeSelectorTerms ?? [];
  const isOnlyMore =
    terms === undefined ||
    (terms.length === now.length &&
      terms.every(({ matchExpressions = [] }, at) =>
        isDeepStrictEqual(
          now[at]?.matchExpressions?.slice(0, matchExpressions.length) ?? [],
          matchExpressions,
        ),
      ));
  return gates.length > 0 && isOnlyMore ? undefined : "spec.affinity";
}
