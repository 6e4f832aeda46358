import { performance } from "node:perf_hooks";
import { fleetKind } from "@berth/fleet";
import { startForwardProxy } from "@berth/testcluster";
import { describe, expect, it } from "vitest";
import { openFleet } from "./fleet-settings.ts";
import { proxiesOf } from "./proxies.ts";
import { testFolder } from "./testing/harness.ts";

const PROXY = "http://proxy.corp:3128/";

describe("the proxies of the environment", () => {
  it.each<[string, object, string, string | undefined]>([
    ["none", {}, "https://a.example", undefined],
    ["that of https", { HTTPS_PROXY: "http://s:1", HTTP_PROXY: "http://p:1" }, "https://a", "http://s:1/"],
    ["that of http", { HTTPS_PROXY: "http://s:1", HTTP_PROXY: "http://p:1" }, "http://a", "http://p:1/"],
    ["none for https where only http has one", { HTTP_PROXY: "http://p:1" }, "https://a", undefined],
    ["one in lower case", { https_proxy: "http://s:1" }, "https://a", "http://s:1/"],
    [
      "upper before lower case",
      { HTTPS_PROXY: "http://u:1", https_proxy: "http://l:1" },
      "https://a",
      "http://u:1/",
    ],
    ["one without a scheme", { HTTPS_PROXY: "proxy.corp:3128" }, "https://a", PROXY],
    ["one with a login", { HTTPS_PROXY: "http://me:pw@p:1" }, "https://a", "http://me:pw@p:1/"],
    ["none where it is empty", { HTTPS_PROXY: "" }, "https://a", undefined],
  ])("are %s", (_, environment, url, expected) => {
    expect(proxiesOf({ ...environment })(new URL(url))).toBe(expected);
  });

  it.each<[string, string, boolean]>([
    ["", "https://a.example", true],
    ["a.example", "https://a.example", false],
    ["a.example", "https://A.Example.", false],
    ["a.example", "https://b.a.example", false],
    ["a.example", "https://ba.example", true],
    [".a.example", "https://a.example", true],
    [".a.example", "https://b.a.example", false],
    ["*.a.example", "https://b.a.example", false],
    ["*.a.example", "https://a.example", true],
    ["*", "https://a.example", false],
    ["b.example, *", "https://a.example", false],
    ["A.EXAMPLE", "https://a.example", false],
    ["b.example , a.example", "https://a.example", false],
    ["a.example:443", "https://a.example", false],
    ["a.example:443", "https://a.example:5000", true],
    ["a.example:80", "http://a.example", false],
    [".example:5000", "https://a.example:5000", false],
    ["10.0.0.0/8", "https://10.1.2.3", false],
    ["10.0.0.0/8", "https://11.1.2.3", true],
    ["10.0.0.0/8", "https://10.example", true],
    ["10.1.2.3", "https://10.1.2.3:6443", false],
    ["10.1.2.3:6443", "https://10.1.2.3:6443", false],
    ["10.1.2.3:6443", "https://10.1.2.3", true],
    ["fd00::/8", "https://[fd12::1]", false],
    ["fd12::1", "https://[fd12::1]:5000", false],
    ["[fd12::1]:5000", "https://[fd12::1]:5000", false],
    ["[fd12::1]:5000", "https://[fd12::1]", true],
    ["10.0.0.0/33,a.example/8,:443,,*.", "https://10.0.0.1", true],
    ["", "https://localhost:5000", false],
    ["", "http://127.0.0.9", false],
    ["", "https://[::1]", false],
    ["", "https://localhost.example", true],
  ])("with NO_PROXY=%j: %s goes through one: %s", (NO_PROXY, url, isThrough) => {
    const environment = { HTTPS_PROXY: PROXY, HTTP_PROXY: PROXY, NO_PROXY };
    expect(proxiesOf(environment)(new URL(url)) !== undefined).toBe(isThrough);
  });

  it("read 10,000 entries once, and find each quickly", () => {
    const names = Array.from({ length: 5_000 }, (_, index) => `h${index}.example:443`);
    const ranges = Array.from({ length: 5_000 }, (_, index) => `10.${index >> 8}.${index & 255}.0/24`);
    const proxyFor = proxiesOf({ HTTPS_PROXY: PROXY, NO_PROXY: [...names, ...ranges].join(",") });
    const since = performance.now();
    for (let round = 0; round < 100; round++) {
      expect(proxyFor(new URL("https://h4999.example"))).toBeUndefined();
      expect(proxyFor(new URL("https://10.19.135.1"))).toBeUndefined();
      expect(proxyFor(new URL("https://a.b.c.d.example"))).toBe(PROXY);
    }
    expect(performance.now() - since).toBeLessThan(1_000);
  });

  it.each(["socks5://me:s3cret@p:1", "http://me:s3cret@", "http://[s3cret"])(
    "are refused without their value: %s",
    (HTTPS_PROXY) => {
      const message = expect.stringMatching(/^HTTPS_PROXY is no (?!.*s3cret)/);
      expect(() => proxiesOf({ HTTPS_PROXY })).toThrow(expect.objectContaining({ message }));
    },
  );
});

it("the quota service is reached through the proxy of the environment", async () => {
  const config = {
    clusters: [{ name: "c", cluster: { server: "https://quota.example" } }],
    users: [{ name: "u", user: { token: "t" } }],
    contexts: [{ name: "c", context: { cluster: "c", user: "u" } }],
    "current-context": "c",
  };
  await using folder = await testFolder({ kubeconfig: JSON.stringify(config) });
  await using proxy = await startForwardProxy({ status: 403 });
  const spec = fleetKind.spec.parse({
    mode: "single",
    cities: ["DFW"],
    project: { id: "web" },
    quota: { from: "Kubeconfig", kubeconfig: `${folder.path}/kubeconfig` },
  });
  await using fleet = await openFleet({ spec }, { environment: { HTTPS_PROXY: proxy.url } });
  await expect(fleet.quota?.read("/version")).rejects.toThrow("the proxy answers with status 403");
  expect(proxy.requests).toEqual(["CONNECT quota.example:443"]);
});
