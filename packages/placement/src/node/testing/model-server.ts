import { isDeepStrictEqual } from "node:util";
import { ApiError, type ApiFailure, type Node } from "@berth/kube";
import type { MarkId } from "../mark.ts";
import type { NodePatch } from "../patch.ts";
import { FieldLedger } from "./field-ledger.ts";
import { makeNode, type NodeInit, patchNode } from "./world.ts";

/** One write as the server took it; `undefined` for a node that did not exist before, or does not afterwards. */
export interface ModelWrite {
  readonly name: string;
  /** Who wrote; `""` for anybody but Berth. */
  readonly writer: string;
  readonly before: Node | undefined;
  readonly after: Node | undefined;
}

export interface ModelServerOptions {
  /** What an admission plugin would say to this patch; it is asked after the guards. */
  readonly refusal: (before: Node, after: Node) => ApiFailure | undefined;
  readonly onWrite: (write: ModelWrite) => void;
}

/**
 * Nodes with uids and versions, and merge patches with guards: what the node writer's order of requests depends on,
 * and nothing else of Kubernetes. What a real server decides is the subject of the cluster tests.
 */
export class ModelServer {
  /** By installation, the places that it has declared. */
  readonly places: Map<string, Set<MarkId>> = new Map();
  readonly #options: ModelServerOptions;
  readonly #nodes = new Map<string, Node>();
  readonly #ledgers = new Map<string, FieldLedger>();
  #version = 0;

  constructor(options: ModelServerOptions) {
    this.#options = options;
  }

  /** The number of the last write. */
  get version(): number {
    return this.#version;
  }

  get nodes(): ReadonlyMap<string, Node> {
    return this.#nodes;
  }

  /** Makes a node, with a new uid. Nothing when there is one of that name. */
  register(name: string, init: Omit<NodeInit, "name"> = {}): void {
    if (this.#nodes.has(name)) return;
    const node = makeNode({ ...init, name });
    const more = { spec: { ...node.spec, podCIDR: "10.0.0.0/24" }, status: { phase: "Running" } };
    const metadata = { ...node.metadata, uid: `uid-${this.#version + 1}` };
    this.#store({ name, writer: "", before: undefined, after: { ...node, ...more, metadata } });
  }

  remove(name: string): void {
    const before = this.#nodes.get(name);
    if (before !== undefined) this.#store({ name, writer: "", before, after: undefined });
  }

  /** A write of another writer. Nothing when there is no such node. */
  edit(name: string, patch: (node: Node) => object): void {
    const before = this.#nodes.get(name);
    if (before !== undefined)
      this.#write({ name, writer: "", before, after: patchNode(before, patch(before)) });
  }

  /** @throws ApiError as the server would answer. */
  patch(writer: string, name: string, patch: NodePatch): Node {
    const before = this.#nodes.get(name);
    if (before === undefined) throw failed({ kind: "notFound" });
    const { uid, resourceVersion } = patch.metadata;
    if (uid !== before.metadata?.uid) throw failed({ kind: "uidMismatch" });
    if (resourceVersion !== before.metadata.resourceVersion) throw failed({ kind: "conflict", causes: [] });
    const after = patchNode(before, patch);
    const refusal = this.#options.refusal(before, after);
    if (refusal !== undefined) throw failed(refusal);
    return this.#write({ name, writer, before, after });
  }

  /** The node as it is now, `managedFields` included. @throws ApiError when there is none. */
  read(name: string): Node {
    const node = this.#nodes.get(name);
    if (node === undefined) throw failed({ kind: "notFound" });
    const managedFields = this.#ledgers.get(name)?.entries ?? [];
    return { ...node, metadata: { ...node.metadata, managedFields } };
  }

  /** A write that changes nothing makes no version. */
  #write(write: ModelWrite & { readonly before: Node; readonly after: Node }): Node {
    const { resourceVersion } = write.before.metadata ?? {};
    const same = { ...write.after, metadata: { ...write.after.metadata, resourceVersion } };
    return isDeepStrictEqual(same, write.before) ? write.before : this.#store(write);
  }

  #store<W extends ModelWrite>(write: W): W["after"] {
    this.#version += 1;
    const { name, writer, before, after } = write;
    if (after === undefined) {
      this.#nodes.delete(name);
      this.#ledgers.delete(name);
    } else {
      const ledger = this.#ledgers.get(name) ?? new FieldLedger();
      this.#ledgers.set(name, ledger);
      ledger.note(writer === "" ? "somebody" : "berth", before, after);
    }
    const stored = after && {
      ...after,
      metadata: { ...after.metadata, resourceVersion: `${this.#version}` },
    };
    if (stored !== undefined) this.#nodes.set(name, stored);
    this.#options.onWrite({ ...write, after: stored });
    return stored;
  }
}

export function failed(failure: ApiFailure): ApiError {
  return new ApiError(failure, { verb: "patch", resource: "nodes" });
}
