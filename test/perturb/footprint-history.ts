/** Versions of what a footprint is about, written down as a telling would, for tests of the verdict. */
import { type Node, nodes, pods, replicaSets } from "@berth/kube";
import { nodeFootprints, workerPools } from "@berth/placement";
import { type Author, aNode } from "@berth/testcluster";
import {
  AGENT_LABEL,
  CLAIM_PREFIX,
  footprintSpec,
  needingPod,
  poolObject,
  setObject,
} from "./footprint-oracle.ts";
import { forbiddenOfFootprints } from "./footprint-verdict.ts";
import { document } from "./scene.ts";
import { WrittenHistory } from "./written-history.ts";

export class FootprintHistory extends WrittenHistory {
  footprint(gone?: "DELETED"): this {
    const object = document(nodeFootprints, "agent", footprintSpec(false));
    return this.note(nodeFootprints, { name: "agent", object, by: "story", ...(gone && { gone }) });
  }

  pod(name: string, group: string, gone?: "DELETED"): this {
    const object = needingPod(name, { node: "n1", group });
    return this.note(pods, { name, object, by: "story", ...(gone && { gone }) });
  }

  /** @param groups `undefined`: without the label. @param record those that it says are Berth's; `null` for nothing. */
  node(
    groups: readonly string[] | undefined,
    by: Author = "controller",
    record: readonly string[] | null = groups ?? null,
  ): this {
    return this.note(nodes, { name: "n1", object: nodeWith(groups, record), by });
  }

  pool(finalizers: readonly string[], by: Author = "controller", deletionTimestamp?: string): this {
    const { metadata, ...rest } = poolObject("pool");
    const ending = deletionTimestamp === undefined ? {} : { deletionTimestamp };
    const object = { ...rest, metadata: { ...metadata, uid: "pool-uid", finalizers, ...ending } };
    return this.note(workerPools, { name: "pool", object, by });
  }

  set(name: string, by: Author = "story", gone?: "DELETED"): this {
    const { metadata, ...rest } = setObject(name, { metadata: { name: "pool", uid: "pool-uid" } });
    const object = { ...rest, metadata: { ...metadata, uid: `${name}-uid` } };
    return this.note(replicaSets, { name, object, by, ...(gone && { gone }) });
  }

  get problems(): readonly string[] {
    return this.problemsLate();
  }

  problemsLate(late?: string): readonly string[] {
    return forbiddenOfFootprints(this.entries, this.steps, late);
  }
}

function nodeWith(groups: readonly string[] | undefined, record: readonly string[] | null): Node {
  const annotations = Object.fromEntries((groups ?? []).map((group) => [`${CLAIM_PREFIX}${group}`, ""]));
  const node = aNode("n1").annotated(annotations);
  const labelled = groups === undefined ? node : node.labelled({ [AGENT_LABEL]: "true" });
  if (record === null) return labelled.build();
  const ids = [`label/${AGENT_LABEL}`, ...record.map((group) => `annotation/${CLAIM_PREFIX}${group}`)];
  const marks = Object.fromEntries(ids.map((id) => [id, { c: "footprints", r: "cluster/agent" }]));
  return labelled.annotated({ "berth.dev/marks": JSON.stringify({ v: 1, by: "berth", marks }) }).build();
}
