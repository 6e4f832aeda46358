import { stripVTControlCharacters } from "node:util";
import type { Reporter, SerializedError, TestCase, TestModule } from "vitest/node";

/** Lines of a difference that are said again at the end: enough to see what differs in a log of which only the end is kept. */
const DIFFERENT_LINES = 8;

/** Closes the output with each failed and skipped test and its reason, and a line that people and machines can count on. */
export default class SummaryReporter implements Reporter {
  onTestRunEnd(modules: readonly TestModule[], errors: readonly SerializedError[]): void {
    const tests: TestCase[] = modules.flatMap((module) => [...module.children.allTests()]);
    // A file that does not load has no tests to count: it is a failure of its own.
    const broken = modules.filter((module) => module.state() === "failed" && module.errors().length > 0);
    const counts = { passed: 0, failed: broken.length + errors.length, skipped: 0 };
    for (const module of broken) process.stdout.write(`failed: ${module.relativeModuleId} does not load\n`);
    // Nothing else says them where only the end of a log is kept.
    for (const error of errors) process.stdout.write(`failed outside of any test: ${whereOf(error)}\n`);
    for (const test of tests) {
      const result = test.result();
      // Its process has died, which is one of the errors.
      if (result.state === "pending") {
        process.stdout.write(`without a result: ${test.module.relativeModuleId}: ${test.fullName}\n`);
        continue;
      }
      counts[result.state] += 1;
      if (result.state === "skipped")
        process.stdout.write(`skipped: ${test.fullName}: ${result.note ?? "no reason given"}\n`);
      if (result.state === "failed")
        process.stdout.write(`failed: ${test.fullName}: ${said(result.errors[0])}\n`);
    }
    const tail = counts.skipped === 0 ? "" : `, ${counts.skipped} skipped`;
    process.stdout.write(`${counts.passed} passed, ${counts.failed} failed${tail}\n`);
  }
}

/** Its message, and the first lines of its stack. */
function whereOf(error: SerializedError): string {
  const frames = (error.stack ?? "").split("\n").filter((line) => /^ +at /.test(line));
  return [said(error), ...frames.slice(0, DIFFERENT_LINES)].join("\n");
}

function said(error: { message: string; diff?: string } | undefined): string {
  const [message = "no reason given"] = stripVTControlCharacters(error?.message ?? "").split("\n");
  const different = stripVTControlCharacters(error?.diff ?? "")
    .split("\n")
    .filter((line) => /^[-+] {2}/.test(line));
  return [
    message.slice(0, 300),
    ...different.slice(0, DIFFERENT_LINES).map((line) => line.slice(0, 200)),
  ].join("\n  ");
}
