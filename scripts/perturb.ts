/**
 * `make perturb`: tells every story with every perturbation, one line a story. Exits 1 when there is a violation.
 * `--story NAME` and `--point NAME` choose, `--list` names the stories, `--verbose` each replay as it begins.
 */
import { parseArgs } from "node:util";
import {
  describeResult,
  describeViolation,
  perturb,
  startTestCluster,
  type TestCluster,
} from "@berth/testcluster";
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
  await using owned = new AsyncDisposableStack();
  const start = async (): Promise<TestCluster> => {
    const started = owned.use(await startTestCluster());
    await prepareStories(started);
    return started;
  };
  const cluster = await start();
  const others: TestCluster[] = [];
  while (others.length < Math.max(...chosen.map((story) => story.others ?? 0))) others.push(await start());
  let violations = 0;
  for (const story of chosen) {
    const result = await perturb(story, {
      cluster,
      others,
      ...(values.point && { point: values.point }),
      ...(values.verbose && { onProgress: ({ done, of, point }) => console.log(`${done}/${of} ${point}`) }),
    });
    console.log(describeResult(result));
    for (const violation of result.violations) {
      const point = violation.point === "undisturbed" ? "" : ` --point '${violation.point}'`;
      console.log(describeViolation(story.name, violation));
      console.log(`  again: make perturb ARGS="--story ${story.name}${point}"`);
    }
    for (const point of result.notReached) console.log(`perturb: ${story.name}: not reached: ${point}`);
    violations += result.violations.length;
  }
  return violations;
}

/** More of what `make test` does a little of, as a factor. Not when one story was asked for. */
const MORE: readonly (readonly [file: string, factor: string])[] = [
  ["test/kills.cluster.test.ts", "5"],
  ["test/hostile/fuzz.test.ts", "100"],
  ["test/fleet-single.cluster.test.ts", "20"],
  ["test/hub-faults.cluster.test.ts", "1"],
  ["packages/fleet/src/hub/fleet.model.test.ts", "100"],
];

/** @returns the exit code. */
async function doMore(): Promise<number> {
  let failed = 0;
  if (values.story !== undefined) return failed;
  for (const [file, factor] of MORE)
    failed ||= await runTool("vitest", ["run", file], { BERTH_RUNS_FACTOR: factor });
  return failed;
}

if (values.list) for (const { name } of stories) console.log(name);
// At once: Node may close sockets without end that a proxy has reset.
else process.exit((await tellAll()) === 0 ? await doMore() : 1);
