/** The kind of a file for `berth test`. */
import type { DocumentKind } from "@berth/host";
import { API_GROUP, API_GROUP_VERSION } from "@berth/placement";
import * as z from "zod";

/** An object as the API server has it. Fields that it sets itself may be left out. */
const object = z.looseObject({
  apiVersion: z.string(),
  kind: z.string(),
  metadata: z.looseObject({
    name: z.string().min(1).max(253),
    namespace: z.string().max(63).exactOptional(),
  }),
});
const objects = z.array(object).max(10_000).default([]);
export type SampleObject = z.infer<typeof object>;

const testCase = z.strictObject({
  name: z.string().min(1),
  /** Beside those of the file. One of the same kind and name replaces it. */
  objects,
  /** What `berth plan` prints. Absent: nothing is compared yet. */
  expect: z.string().optional(),
});

const spec = z.strictObject({
  /** Files or folders of documents, relative to this file. */
  documents: z.array(z.string().min(1)).min(1).max(100),
  /** The time of the plan. */
  now: z.iso.datetime().default("2026-01-01T00:00:00Z"),
  objects,
  cases: z.array(testCase).min(1).max(10_000),
});
export type TestSpec = z.infer<typeof spec>;

export const testKind: DocumentKind<TestSpec> = { kind: "Test", spec };

export const testKinds = { apiVersion: `${API_GROUP}/${API_GROUP_VERSION}`, kinds: [testKind] } as const;
