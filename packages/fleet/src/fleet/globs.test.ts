import { expect, it } from "vitest";
import { globPattern } from "./globs.ts";

it.each<[string, readonly string[], readonly string[], readonly string[]]>([
  [
    "a star is anything",
    ["app.kubernetes.io/*"],
    ["app.kubernetes.io/name", "app.kubernetes.io/"],
    ["app.kubernetes.io", "xapp.kubernetes.io/name", "appxkubernetes.io/name"],
  ],
  [
    "stars anywhere",
    ["*.example.com/a*b"],
    ["x.example.com/ab", "x.y.example.com/acb"],
    ["example.com/ab", "x.example.com/abc"],
  ],
  [
    "without a star it is the text",
    ["docker.io/a/b:1.2+c"],
    ["docker.io/a/b:1.2+c"],
    ["docker.io/a/b:1.2+c2", "docker.io/a/b:1x2+c"],
  ],
  ["any of them", ["a/*", "b"], ["a/x", "b"], ["c", "ab"]],
  ["signs of regular expressions are text", ["(a|b)[c]{2}^$?\\"], ["(a|b)[c]{2}^$?\\"], ["a"]],
  ["a line feed ends nothing", ["a*"], ["ab"], ["a\nb", "b\na"]],
  ["none of none", [], [], ["a", " "]],
])("%s", (_, globs, matched, others) => {
  const pattern = new RegExp(globPattern(globs));
  expect([...matched, ...others].filter((text) => pattern.test(text))).toEqual(matched);
});
