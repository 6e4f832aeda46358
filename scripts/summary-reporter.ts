import type { Reporter, TestCase, TestModule } from "vitest/node";

/** Closes the output with each skipped test and its reason, and a line that people and machines can count on. */
export default class SummaryReporter implements Reporter {
  onTestRunEnd(modules: readonly TestModule[], errors: readonly unknown[]): void {
    const tests: TestCase[] = modules.flatMap((module) => [...module.children.allTests()]);
    const count = (state: string): number => tests.filter((test) => test.result().state === state).length;
    // A file that does not load has no tests to count: it is a failure of its own.
    const broken = modules.filter(
      (module) => module.state() === "failed" && module.errors().length > 0,
    ).length;
    const skipped = tests.filter((test) => test.result().state === "skipped");
    for (const test of skipped) {
      const result = test.result();
      const note = result.state === "skipped" ? result.note : undefined;
      process.stdout.write(`skipped: ${test.fullName}: ${note ?? "no reason given"}\n`);
    }
    const tail = skipped.length === 0 ? "" : `, ${skipped.length} skipped`;
    process.stdout.write(
      `${count("passed")} passed, ${count("failed") + broken + errors.length} failed${tail}\n`,
    );
  }
}
