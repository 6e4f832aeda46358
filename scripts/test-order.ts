/** The order in which files of tests start: what takes longest first, so that no worker ends long before another. */
import { BaseSequencer, type TestSpecification } from "vitest/node";

/** Files and folders that take long, the longest first: one test follows all guides, and stories are told whole. */
const LONG = ["/test/guides.", "/test/perturb/", "/test/"];

const rank = ({ moduleId }: TestSpecification): number => {
  const found = LONG.findIndex((part) => moduleId.includes(part));
  return found < 0 ? LONG.length : found;
};

/** Within a folder: as vitest orders them, by what they took last time, else by their size. */
export class LongestFirst extends BaseSequencer {
  override async sort(files: TestSpecification[]): Promise<TestSpecification[]> {
    const sorted = await super.sort(files);
    return sorted.toSorted((a, b) => rank(a) - rank(b));
  }
}
