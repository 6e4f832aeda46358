import { describe, expect, it } from "vitest";
import { domainOf } from "./taint-domains.ts";

describe("the domain of a key", () => {
  it.each([
    ["startup.k8s.io/initializing", "startup.k8s.io"],
    ["ready", ""],
    ["/ready", ""],
    ["", ""],
  ])("of %j is %j", (key, domain) => {
    expect(domainOf(key)).toBe(domain);
  });
});
