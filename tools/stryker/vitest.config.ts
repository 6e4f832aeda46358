import { unit } from "../../vitest.config.ts";

/** The unit tests alone, in one worker: Stryker asks it again for each mutant. */
export default unit;
