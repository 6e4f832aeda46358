import type { CollectionScope } from "@berth/kube";
import { describe, expect, it } from "vitest";
import { cover } from "./cover.ts";
import { scopeOf } from "./scope.ts";

const ALL: CollectionScope = {};
const PENDING: CollectionScope = { fieldSelector: "status.phase=Pending" };
const RUNNING: CollectionScope = { fieldSelector: "status.phase!=Failed" };
const APP: CollectionScope = { namespace: "a", labelSelector: "app" };

/** The watches that serve these scopes, in their order. */
function serve(
  wanted: readonly CollectionScope[],
  refused: readonly CollectionScope[] = [],
): readonly unknown[] {
  const texts = new Set(refused.map((it) => scopeOf(it).text));
  const served = cover(wanted.map(scopeOf), ({ text }) => texts.has(text));
  return wanted.map((it) => served.get(scopeOf(it).text)?.asked);
}

describe("a scope is served by", () => {
  it.each<[string, readonly CollectionScope[], readonly CollectionScope[], readonly CollectionScope[]]>([
    ["its own watch, when no other includes it", [APP, PENDING], [], [APP, PENDING]],
    ["the widest that includes it, in any order", [PENDING, RUNNING, ALL], [], [ALL, ALL, ALL]],
    ["the widest but for one that is refused", [PENDING, ALL, RUNNING], [ALL], [RUNNING, ALL, RUNNING]],
    ["its own watch when it is refused itself", [PENDING, RUNNING], [PENDING], [PENDING, RUNNING]],
  ])("%s", (_, wanted, refused, expected) => {
    expect(serve(wanted, refused)).toEqual(expected);
  });
});
