/** `WorkerPools`: switches on the Deployments of WorkerPools. A document of files only; at most one. */
import { type DocumentKind, onlyOne } from "@berth/host";
import * as z from "zod";
import { PR_134_POOLS, type WorkerPoolConfig } from "./deployment.ts";

const CONTAINER = /^[a-z0-9](?:[-a-z0-9]{0,61}[a-z0-9])?$/;
const { wait: original } = PR_134_POOLS;

/** Requires a registry and a `/`: `registry.example` alone would also allow `registry.example.com`. */
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

/**
 * With an empty `spec`, apart from `allow`, Berth makes the same Deployments as agent-substrate. Turning `uidLabel` or
 * `wait` on or off rolls every worker.
 */
export const workerPoolsKind: DocumentKind<WorkerPoolConfig> = {
  kind: "WorkerPools",
  spec: z
    .strictObject({
      allow: allow.prefault({}),
      uidLabel: z.boolean().default(false),
      wait: z
        .strictObject({
          name: z.string().regex(CONTAINER, "must be the name of a container").default(original.name),
          image: z.string().min(1).max(512).default(original.image),
          port: z.int().min(1).max(65_535).default(original.port),
        })
        .optional(),
    })
    .transform(({ uidLabel: workerPoolUid, wait, ...given }) => ({
      ...given,
      workerPoolUid,
      ...(wait && { wait }),
    })),
  tooMany: onlyOne("WorkerPools"),
};
