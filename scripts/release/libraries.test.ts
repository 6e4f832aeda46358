import { expect, it } from "vitest";
import { repository } from "../revision.ts";
import { withWholeLinks } from "./libraries.ts";

it.each([
  ["[a](src/a.ts)", `[a](${repository()}/blob/main/packages/kube/src/a.ts)`],
  ["[`b`](../runtime/README.md#tour)", `[\`b\`](${repository()}/blob/main/packages/runtime/README.md#tour)`],
  ["[c](#the-tour) [d](https://example.com/x)", "[c](#the-tour) [d](https://example.com/x)"],
])("a link of a packed page leads to the repository: %s", (link, expected) => {
  expect(withWholeLinks(link, "packages/kube")).toBe(expected);
});
