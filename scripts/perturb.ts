/**
 * `make perturb`: tells every story with every perturbation, one line a story. Exits 1 when there is a violation.
 * `--story NAME` and `--point NAME` choose, `--list` names the stories, `--verbose` each replay as it begins.
 */
import { parseArgs } from "node:util";
import { describeResult, describeViolation, perturb, startTestCluster } from "@berth/testcluster";
import { prepareStories } from "../test/perturb/berth.ts";
import { stories } from "../test/perturb/stories.ts";
import { runTool } from "./run-tool.ts";

const { values } = parseArgs({
  options: {
    story: { type: "string" },
    point: { type: "string" },
    list: { type: "boolean", default: false },
    verbose: { type: "boolean", default: false },
  },
});

/** @returns how many violations there were. */
async function tellAll(): Promise<number> {
  const chosen = stories.filter(({ name }) => values.story === undefined || name === values.story);
  if (chosen.length === 0) throw new RangeError(`there is no story "${values.story}"; --list names them`);
  await using cluster = await startTestCluster();
  await prepareStories(cluster);
  let violations = 0;
  for (const story of chosen) {
    const result = await perturb(story, {
      cluster,
      ...(values.point && { point: values.point }),
      ...(values.verbose && { onProgress: ({ done, of, point }) => console.log(`${done}/${of} ${point}`) }),
    });
    console.log(describeResult(result));
    for (const violation of result.violations) console.log(describeViolation(story.name, violation));
    for (const point of result.notReached) console.log(`perturb: ${story.name}: not reached: ${point}`);
    violations += result.violations.length;
  }
  return violations;
}

/** Fifty kills of the process, as `make test` does ten. Not when one story was asked for. @returns the exit code. */
function killAll(): Promise<number> {
  if (values.story !== undefined) return Promise.resolve(0);
  return runTool("vitest", ["run", "test/kills.cluster.test.ts"], { BERTH_RUNS_FACTOR: "5" });
}

if (values.list) for (const { name } of stories) console.log(name);
else process.exitCode = (await tellAll()) === 0 ? await killAll() : 1;
