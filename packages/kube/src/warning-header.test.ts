import { expect, it } from "vitest";
import { warningsIn } from "./warning-header.ts";

it.each<[string, string | readonly string[] | undefined, readonly string[]]>([
  ["is absent", undefined, []],
  ["is one", '299 - "v1 Endpoints is deprecated"', ["v1 Endpoints is deprecated"]],
  ["is joined by HTTP", '299 - "a, b", 299 - "c"', ["a, b", "c"]],
  ["comes more than once", ['299 - "a"', '299 - "b"'], ["a", "b"]],
  ["has quotes in its text", '299 - "unknown field \\"spec.who\\""', ['unknown field "spec.who"']],
  ["is of a proxy", '110 cache "Response is stale"', []],
  ["is no warning", 'deprecated: 299 - "a', []],
])("a header that %s", (_, header, expected) => {
  expect(warningsIn(header)).toEqual(expected);
});
