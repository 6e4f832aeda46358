import { assert, constantFrom, property, string } from "fast-check";
import { describe, expect, it } from "vitest";
import { parseChallenges } from "./challenge.ts";

const read = (header: string): readonly unknown[] =>
  parseChallenges(header).map(({ scheme, parameters }) => [scheme, Object.fromEntries(parameters)]);

describe("challenges", () => {
  it.each<readonly [string, string, readonly unknown[]]>([
    [
      "what the Hub sends",
      'Bearer realm="https://auth.docker.io/token",service="registry.docker.io",scope="repository:library/nginx:pull"',
      [
        [
          "bearer",
          {
            realm: "https://auth.docker.io/token",
            service: "registry.docker.io",
            scope: "repository:library/nginx:pull",
          },
        ],
      ],
    ],
    [
      "a comma and a quote within quotes",
      'Basic realm="a, \\"b\\", c=d"',
      [["basic", { realm: 'a, "b", c=d' }]],
    ],
    [
      "several in one header",
      'Basic realm="x", Bearer realm=y,service="z"',
      [
        ["basic", { realm: "x" }],
        ["bearer", { realm: "y", service: "z" }],
      ],
    ],
    ["a scheme alone", "Negotiate", [["negotiate", {}]]],
    ["spaces around the equals sign", 'Basic realm = "x"', [["basic", { realm: "x" }]]],
    [
      "a URL without quotes",
      "Bearer realm=https://r.example/token",
      [["bearer", { realm: "https://r.example/token" }]],
    ],
    ["the first of a name given twice", "Bearer realm=a,realm=b", [["bearer", { realm: "a" }]]],
    ["names in upper case", 'BEARER Realm="a"', [["bearer", { realm: "a" }]]],
    ["nothing", "", []],
    ["a parameter of nothing", 'realm="x"', []],
    ["a quote that never ends", 'Bearer realm="x', [["bearer", { realm: "" }]]],
  ])("reads %s", (_name, header, expected) => {
    expect(read(header)).toEqual(expected);
  });

  it("reads several headers in order", () => {
    expect(parseChallenges(["Basic", "Bearer realm=a"]).map(({ scheme }) => scheme)).toEqual([
      "basic",
      "bearer",
    ]);
  });

  it("ends on whatever is sent, with a bounded result", () => {
    assert(
      property(string({ maxLength: 200 }), constantFrom('"', "\\", "=", ",", " ", "a"), (text, filler) => {
        expect(parseChallenges(text + filler.repeat(20_000)).length).toBeLessThanOrEqual(16);
      }),
    );
  });
});
