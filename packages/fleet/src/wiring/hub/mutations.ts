/** Specs that cells store in another form than the hub sends them: sent again, they would be a fight with a webhook. */
import { createHash } from "node:crypto";
import type { Finding } from "@berth/host";
import type { KubeObject } from "@berth/kube";
import { type Clock, earliest } from "@berth/runtime";
import type { WorkloadDeployment } from "../../api/workload.ts";
import { canonicalJson } from "../../deployment/template-hash.ts";
import type { CarryDecision } from "../../drivers/direct/carry.ts";
import { nameOf } from "../../hub/cells/seen.ts";

type Patches = NonNullable<CarryDecision["patch"]>;

/** Without what never changes in a cell: see `specIn`. */
const digestOf = ({ spec }: WorkloadDeployment): string =>
  createHash("sha256")
    .update(canonicalJson({ ...spec, workloadRef: undefined }))
    .digest("base64");

/** The oldest are forgotten: such a spec is sent once more. */
const MOST_KNOWN = 10_000;
/** After this long it is sent once more, ms: the webhook may be gone. */
const AGAIN_MS = 600_000;

export class Mutations {
  readonly #clock: Pick<Clock, "monotonic">;
  /** By the uid of the deployment in its cell. */
  readonly #known = new Map<
    string,
    { readonly sent: string; readonly stored: string; readonly atMs: number }
  >();

  constructor(clock: Pick<Clock, "monotonic">) {
    this.#clock = clock;
  }

  /** @param stored the answer to a creation or a patch. */
  note(sent: WorkloadDeployment, stored: KubeObject | undefined): void {
    const uid = stored?.metadata?.uid;
    if (uid === undefined) return;
    const atMs = this.#clock.monotonic();
    const pair = { sent: digestOf(sent), stored: digestOf(stored as WorkloadDeployment), atMs };
    if (pair.sent === pair.stored) this.#known.delete(uid);
    else this.#known.set(uid, pair);
    const [oldest] = this.#known.keys();
    if (oldest !== undefined && this.#known.size > MOST_KNOWN) this.#known.delete(oldest);
  }

  /** Without the specs that a cell has, as it stored them before. What somebody changed since is put right. */
  without(
    patches: Patches,
    wanted: WorkloadDeployment,
  ): {
    readonly patches: Patches;
    readonly findings: readonly Finding[];
    readonly recheckAfterMs?: number | undefined;
  } {
    const findings: Finding[] = [];
    const waits: number[] = [];
    const left = patches.flatMap((it) => {
      const { cell, deployment } = it.found;
      const known = this.#known.get(deployment.metadata?.uid ?? "");
      if (known === undefined || !("spec" in it.body)) return [it];
      if (known.sent !== digestOf(wanted) || known.stored !== digestOf(deployment)) return [it];
      const leftMs = known.atMs + AGAIN_MS - this.#clock.monotonic();
      if (leftMs <= 0) return [it];
      waits.push(leftMs);
      const about = nameOf(cell);
      const message = `cell ${about} stored another spec than the hub sent: look at its webhooks and its CRDs`;
      findings.push({ reason: "CellMutates", about, message });
      const { spec: _spec, ...body } = it.body;
      return Object.keys(body).length === 0 ? [] : [{ ...it, body }];
    });
    return { patches: left, findings, recheckAfterMs: earliest(...waits) };
  }
}
