/** `WorkerPools`: that Berth makes the Deployments of WorkerPools. A document of files only; at most one. */
import { PR_134_POOLS, type WorkerPoolConfig } from "@berth/placement";
import * as z from "zod";

export interface WorkerPoolsSpec {
  /** Workers carry the uid of their pool as a label, by which footprints can group them. Default false. */
  readonly uidLabel: boolean;
  /** Workers wait until something listens on a port of their node. Absent: they do not. */
  readonly wait?: { readonly name: string; readonly image: string; readonly port: number } | undefined;
}

const CONTAINER = /^[a-z0-9](?:[-a-z0-9]{0,61}[a-z0-9])?$/;
const { wait: original } = PR_134_POOLS;

/** An empty `spec` makes what agent-substrate itself makes. Turning either field on or off rolls every worker. */
export const workerPoolsSpec: z.ZodType<WorkerPoolsSpec> = z.strictObject({
  uidLabel: z.boolean().default(false),
  wait: z
    .strictObject({
      name: z.string().regex(CONTAINER, "must be the name of a container").default(original.name),
      image: z.string().min(1).max(512).default(original.image),
      port: z.int().min(1).max(65_535).default(original.port),
    })
    .optional(),
});

/** `undefined` without a document: then nothing is made. */
export function workerPoolConfig(spec: WorkerPoolsSpec | undefined): WorkerPoolConfig | undefined {
  if (spec === undefined) return undefined;
  const { uidLabel: workerPoolUid, wait } = spec;
  return { workerPoolUid, ...(wait && { wait }) };
}
