/** `WorkerPools`: that Berth makes the Deployments of WorkerPools. A document of files only; at most one. */
import { PR_134_POOLS, type WorkerPoolAllowance, type WorkerPoolConfig } from "@berth/placement";
import * as z from "zod";

export interface WorkerPoolsSpec {
  /** Of which pools Deployments are made. Default: none. */
  readonly allow: WorkerPoolAllowance;
  /** Workers carry the uid of their pool as a label, by which footprints can group them. Default false. */
  readonly uidLabel: boolean;
  /** Workers wait until something listens on a port of their node. Absent: they do not. */
  readonly wait?: { readonly name: string; readonly image: string; readonly port: number } | undefined;
}

const CONTAINER = /^[a-z0-9](?:[-a-z0-9]{0,61}[a-z0-9])?$/;
const { wait: original } = PR_134_POOLS;

/** With a registry and a `/`: `registry.example` alone would be the beginning of `registry.example.com` too. */
const IMAGE_PREFIX = /^[a-z0-9][a-z0-9.:-]*\/[a-z0-9._/:@-]*$/;
const NAME = /^[a-z0-9](?:[-a-z0-9.]{0,251}[a-z0-9])?$/;

const names = z.array(z.string().regex(NAME, "must be the name of an object")).max(256).default([]);
const allow = z.strictObject({
  images: z
    .array(z.string().max(512).regex(IMAGE_PREFIX, "must be a registry, a slash and what may follow"))
    .max(64)
    .default([]),
  namespaces: names,
  priorityClasses: names,
});

/** An empty `spec`, `allow` apart, makes what agent-substrate itself makes. Turning `uidLabel` or `wait` on or off rolls every worker. */
export const workerPoolsSpec: z.ZodType<WorkerPoolsSpec> = z.strictObject({
  allow: allow.prefault({}),
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
  const { allow, uidLabel: workerPoolUid, wait } = spec;
  return { allow, workerPoolUid, ...(wait && { wait }) };
}
