import { assert, constantFrom, property, string } from "fast-check";
import { describe, expect, it } from "vitest";
import { parseChallenges } from "./challenge.ts";

/** `scheme name=value | name=value`, one string for each challenge. */
const read = (...headers: readonly string[]): readonly string[] =>
  parseChallenges(headers.length === 1 ? headers[0] : headers).map(({ scheme, parameters }) =>
    [scheme, [...parameters].map(([name, value]) => `${name}=${value}`).join(" | ")].join(" ").trim(),
  );
const HUB =
  'Bearer realm="https://auth.docker.io/token",service="registry.docker.io",scope="repository:a/b:pull"';

describe("challenges", () => {
  it.each<readonly [string, string, ...(readonly string[])]>([
    ["a comma and a quote within quotes", 'Basic realm="a, \\"b\\", c=d"', 'basic realm=a, "b", c=d'],
    [
      "several in one",
      'Basic realm="x", Bearer realm=y,service="z"',
      "basic realm=x",
      "bearer realm=y | service=z",
    ],
    ["a scheme alone", "Negotiate", "negotiate"],
    ["spaces around the equals sign", 'Basic realm = "x"', "basic realm=x"],
    ["a URL without quotes", "Bearer realm=https://r.example/token", "bearer realm=https://r.example/token"],
    ["the first of a name given twice", "Bearer realm=a,realm=b", "bearer realm=a"],
    ["names in upper case", 'BEARER Realm="a"', "bearer realm=a"],
    ["nothing", ""],
    ["a parameter of nothing", 'realm="x"'],
    ["a quote that never ends", 'Bearer realm="x', "bearer realm="],
  ])("reads %s", (_name, header, ...expected) => {
    expect(read(header)).toEqual(expected);
  });

  it("reads what the Hub sends, and several headers in order", () => {
    const hub = "realm=https://auth.docker.io/token | service=registry.docker.io | scope=repository:a/b:pull";
    expect(read("Basic", HUB)).toEqual(["basic", `bearer ${hub}`]);
  });

  it("ends on whatever is sent, with a bounded result", () => {
    assert(
      property(string({ maxLength: 200 }), constantFrom('"', "\\", "=", ",", " ", "a"), (text, filler) => {
        expect(parseChallenges(text + filler.repeat(20_000)).length).toBeLessThanOrEqual(16);
      }),
    );
  });
});
