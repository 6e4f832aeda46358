/** Set up for each file of cluster tests: what it made is gone before the next file starts. */
import { restoreSharedTestClusters } from "@berth/testcluster";
import { afterAll } from "vitest";

afterAll(() => restoreSharedTestClusters());
