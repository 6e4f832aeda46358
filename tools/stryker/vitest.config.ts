import { unit } from "../../vitest.config.ts";

/** The unit tests alone, in one worker: Stryker asks it again for each mutant. Without those that start helm. */
export default {
  ...unit,
  test: { ...unit.test, exclude: [...(unit.test?.exclude ?? []), "scripts/chart/**"] },
};
