import { describe, expect, it } from "vitest";
import { checkEndpoints, endpointsFor, type RegistryEndpoint } from "./endpoints.ts";
import { RegistryError } from "./failure.ts";

const origins = (registry: string, config?: RegistryEndpoint): readonly string[] =>
  endpointsFor(registry, config).map(
    ({ origin, prefix, query }) => origin + (prefix && ` ${prefix}`) + query,
  );

describe("where a registry is reached", () => {
  it.each<readonly [string, string]>([
    ["docker.io", "https://registry-1.docker.io"],
    ["ghcr.io", "https://ghcr.io"],
    ["registry.example:8443", "https://registry.example:8443"],
    ["registry.example:443", "https://registry.example"],
    ["Registry.Example", "https://registry.example"],
    ["localhost:5000", "http://localhost:5000"],
    ["127.0.0.1:5000", "http://127.0.0.1:5000"],
    ["[::1]:5000", "http://[::1]:5000"],
    ["10.0.0.1:5000", "https://10.0.0.1:5000"],
    ["127.0.0.2:5000", "https://127.0.0.2:5000"],
    ["localhost.example", "https://localhost.example"],
  ])("%s at %s", (registry, origin) => {
    expect(origins(registry)).toEqual([origin]);
  });

  it("by plain http where it is configured so, and by https on loopback where it is", () => {
    expect(origins("10.0.0.1:5000", { plainHttp: true })).toEqual(["http://10.0.0.1:5000"]);
    expect(origins("localhost:5000", { plainHttp: false })).toEqual(["https://localhost:5000"]);
    expect(origins("localhost:5000", { ca: "any" })).toEqual(["https://localhost:5000"]);
  });

  it("at its mirrors first, in order, each told which registry is meant", () => {
    const mirrors = [{ url: "https://a.example/" }, { url: "https://b.example:444/hub/cache/" }];
    expect(origins("docker.io", { mirrors })).toEqual([
      "https://a.example?ns=docker.io",
      "https://b.example:444 hub/cache/?ns=docker.io",
      "https://registry-1.docker.io",
    ]);
  });

  it("keeps the credentials of the registry to itself", () => {
    const own = { username: "mirror", password: "p" };
    const mirrors = [{ url: "https://a.example" }, { url: "https://b.example", credentials: [own] }];
    expect(endpointsFor("ghcr.io", { mirrors }).map(({ credentials }) => credentials)).toEqual([
      [],
      [own],
      "registry",
    ]);
  });

  it.each(["a/b", "a@b", "user:secret@a.example", "a b", "a?b", "", "a#b", "[::1", "a:99999"])(
    "refuses %j as a host",
    (registry) => {
      expect(() => endpointsFor(registry)).toThrow(RegistryError);
    },
  );

  it.each<readonly [string, RegistryEndpoint, RegExp]>([
    ["a mirror that is no URL", { mirrors: [{ url: "mirror" }] }, /no http\(s\) URL/],
    ["a mirror of plain http", { mirrors: [{ url: "http://m.example" }] }, /set plainHttp/],
    ["a mirror with a password", { mirrors: [{ url: "https://u:secret@m.example" }] }, /more than scheme/],
    ["what is no certificate", { ca: "hello" }, /not a PEM certificate/],
  ])("refuses %s, without showing a secret", (_name, config, message) => {
    const check = (): void => checkEndpoints({ "ghcr.io": config });
    expect(check).toThrow(TypeError);
    expect(check).toThrow(message);
    expect(check).not.toThrow(/secret/);
  });

  it("takes plain http for a mirror on loopback, or where it is configured so", () => {
    checkEndpoints({
      "ghcr.io": {
        mirrors: [{ url: "http://localhost:5000" }, { url: "http://m.example", plainHttp: true }],
      },
    });
    expect(() => checkEndpoints({ "not a host": {} })).toThrow(TypeError);
  });
});
