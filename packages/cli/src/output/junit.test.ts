import { expect, it } from "vitest";
import { toJunit } from "./junit.ts";

it("is XML, with what passed, what failed and why", () => {
  const cases = [
    { file: "a.yaml: rules", name: 'passes "<&>"' },
    { file: "b.yaml: rules", name: "fails\u0007", failure: "-a\n+b" },
  ];
  expect(toJunit(cases)).toMatchInlineSnapshot(`
    "<?xml version="1.0" encoding="UTF-8"?>
    <testsuites>
      <testsuite name="berth test" tests="2" failures="1">
        <testcase classname="a.yaml: rules" name="passes &quot;&lt;&amp;&gt;&quot;"/>
        <testcase classname="b.yaml: rules" name="fails�">
          <failure message="not as expected">-a
    +b</failure>
        </testcase>
      </testsuite>
    </testsuites>
    "
  `);
});
