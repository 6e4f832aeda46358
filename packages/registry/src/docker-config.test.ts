import * as fc from "fast-check";
import { describe, expect, it } from "vitest";
import { credentialsFor, type DockerConfig, isOf, parseDockerConfig } from "./docker-config.ts";
import { parseReference } from "./reference.ts";

const base64 = (text: string): string => Buffer.from(text).toString("base64");
const withAuths = (auths: object): string => JSON.stringify({ auths });
const parse = (auths: object): DockerConfig => parseDockerConfig(withAuths(auths), "dockerconfigjson");
/** Places only, each with its own user name. */
const keyring = (...places: readonly string[]): DockerConfig =>
  parse(Object.fromEntries(places.map((place) => [place, { auth: base64(`${place}:pass`) }])));
const usersFor = (config: DockerConfig | readonly DockerConfig[], image: string): readonly string[] =>
  credentialsFor([config].flat(), parseReference(image)).map(({ username }) => `${username}`);

const ada = { username: "ada", password: "smash" };

describe("credHelpers", () => {
  it("name a program for a host, whose empty entry is no fault", () => {
    const credHelpers = { "gcr.io": "gcloud", "https://index.docker.io/v1/": "pass" };
    const auths = { "gcr.io": {}, "ghcr.io": ada };
    const config = parseDockerConfig(JSON.stringify({ auths, credHelpers }), "dockerconfigjson");
    const helpers = [
      { host: "gcr.io", name: "gcloud" },
      { host: "index.docker.io", name: "pass" },
    ];
    expect(config).toEqual({
      entries: [{ host: "ghcr.io", path: "", credential: ada }],
      problems: [],
      helpers,
    });
  });

  it.each<[string, unknown]>([
    ["a path", { "gcr.io": "../../bin/sh" }],
    ["an option", { "gcr.io": "-rf" }],
    ["no text", { "gcr.io": 1 }],
    ["no host", { "me:secret@gcr.io": "gcloud" }],
    ["no object", ["gcloud"]],
  ])("that are %s are a problem, and nothing is run", (_, credHelpers) => {
    expect(parseDockerConfig(JSON.stringify({ credHelpers }), "dockerconfigjson")).toEqual({
      entries: [],
      problems: ["the credHelpers of the docker config have an entry that cannot be used"],
    });
  });
});

describe("entries", () => {
  it.each([
    ["user and password in base64", { auth: base64("ada:smash") }, ada],
    ["a password with colons", { auth: base64("ada:a:b:c") }, { username: "ada", password: "a:b:c" }],
    [
      "base64 without padding",
      { auth: base64("ada:smash12").replace(/=+$/, "") },
      { ...ada, password: "smash12" },
    ],
    ["base64 with a line break after it", { auth: `${base64("ada:smash")}\n` }, ada],
    ["letters beyond ASCII", { auth: base64("ädä:päss") }, { username: "ädä", password: "päss" }],
    ["plain user and password", { ...ada, email: "a@b" }, ada],
    ["both, of which auth counts", { username: "x", password: "y", auth: base64("ada:smash") }, ada],
    ["an identity token", { auth: base64("0:"), identitytoken: "r" }, { username: "0", identityToken: "r" }],
    ["a registry token", { registrytoken: "bearer" }, { registryToken: "bearer" }],
    ["a user without a password", { username: "ada" }, { username: "ada" }],
  ])("%s", (_, entry, credential) => {
    const expected = { entries: [{ host: "ghcr.io", path: "", credential }], problems: [] };
    expect(parse({ "ghcr.io": entry })).toEqual(expected);
    expect(parseDockerConfig(JSON.stringify({ "ghcr.io": entry }), "dockercfg")).toEqual(expected);
  });

  it("a config without any is empty, not wrong", () => {
    expect(parseDockerConfig("{}", "dockerconfigjson")).toEqual({ entries: [], problems: [] });
    expect(parseDockerConfig("{}", "dockercfg")).toEqual({ entries: [], problems: [] });
  });

  it("one that cannot be used is told without its content, and the others count", () => {
    const config = parse({
      "bad.example.com": { auth: "s3cret!!" },
      "nocolon.example.com": { auth: base64("s3cret") },
      "https://bob:s3cret@user.example.com": { auth: base64("a:s3cret") },
      "space example.com": { username: "a", password: "s3cret" },
      "helper.example.com/x": {},
      "token.example.com": { registrytoken: "s3cret\r\nX-Header: 1" },
      "list.example.com": ["s3cret"],
      "good.example.com": { auth: base64("ada:smash") },
    });
    expect(config.entries.map(({ host }) => host)).toEqual(["good.example.com"]);
    expect(config.problems).toEqual([
      "the entry for bad.example.com of the docker config has an auth that is not the base64 of user:password: it is not used",
      "the entry for nocolon.example.com of the docker config has an auth that is not the base64 of user:password: it is not used",
      "an entry of the docker config is for a place that is no host name: it is not used",
      "an entry of the docker config is for a place that is no host name: it is not used",
      "the entry for helper.example.com/x of the docker config holds no credential: it is not used",
      "the entry for token.example.com of the docker config has a registrytoken that cannot be sent: it is not used",
      "the entry for list.example.com of the docker config holds no credential: it is not used",
    ]);
  });

  it.each([
    ["no JSON", "s3cret", /is no JSON/],
    ["an unfinished text", '{"auths":{"a.io":{"auth":"s3cret', /is no JSON/],
    ["a list", "[]", /no object/],
    ["null", "null", /no object/],
    ["a list of auths", '{"auths":["s3cret"]}', /no object/],
    ["too deep", "[".repeat(100), /deeper than 64/],
    ["too large", `{"x":"${"s3cret".repeat(200_000)}"}`, /larger than 1048576 bytes/],
  ])("%s is told without its content", (_, text, problem) => {
    const { entries, problems } = parseDockerConfig(text, "dockerconfigjson");
    expect(entries).toEqual([]);
    expect(problems.join()).toMatch(problem);
    expect(problems.join()).not.toContain("s3cret");
  });

  it("more than 1,000 are cut, and that is told", () => {
    const many = keyring(...Array.from({ length: 1_001 }, (_, index) => `r${index}.example.com`));
    expect(many.entries).toHaveLength(1_000);
    expect(many.problems).toEqual(["the docker config has more than 1000 entries: the rest is not used"]);
  });

  it("`__proto__` is a place like any other that is no host name", () => {
    const text = '{"auths":{"__proto__":{"auth":"YTpi"},"a.io":{"auth":"YTpi"}}}';
    const config = parseDockerConfig(text, "dockerconfigjson");
    expect(config.entries.map(({ host }) => host)).toEqual(["__proto__", "a.io"]);
    expect(({} as { auth?: string }).auth).toBeUndefined();
  });
});

describe("A-B4 which credentials an image is read with", () => {
  it.each([
    ["*.kubernetes.io", "prefix.kubernetes.io"],
    ["prefix.*.io", "prefix.kubernetes.io"],
    ["prefix.kubernetes.*", "prefix.kubernetes.io"],
    ["*-good.kubernetes.io", "prefix-good.kubernetes.io"],
    ["*.kubernetes.io/blah", "prefix.kubernetes.io/blah"],
    ["prefix.*.io/foo", "prefix.kubernetes.io/foo/bar"],
    ["*.kubernetes.io:1111/blah", "prefix.kubernetes.io:1111/blah"],
    ["prefix.*.io:1111/foo", "prefix.kubernetes.io:1111/foo/bar"],
    ["*kubernetes.io", "kubernetes.io"],
    ["*.*.*.kubernetes.io", "a.b.c.kubernetes.io"],
    ["https://hello.kubernetes.io", "hello.kubernetes.io"],
    ["http://hello.kubernetes.io:5000", "hello.kubernetes.io:5000"],
    ["https://*.docker.io/v1/", "prefix.docker.io/path"],
    ["https://*.docker.io/v2/", "prefix.docker.io/path"],
    ["https://*.docker.io/v2/path", "prefix.docker.io/path"],
    ["https://quay.io/v1/", "quay.io/foo/bar"],
    ["quay.io/", "quay.io/foo"],
    ["*.docker.io:1111", "prefix.docker.io:1111/path"],
    ["localhost:5000", "localhost:5000/a"],
    ["[::1]:5000", "[::1]:5000/a"],
    ["bar.example.com/pong", "bar.example.com/pongz"],
    ["a*b*c.io", "aXbYbZc.io"],
  ])("%s is for %s", (place, image) => {
    expect(usersFor(keyring(place), `${image}/foo/bar:v1`)).toHaveLength(1);
  });

  it.each([
    ["*.kubernetes.io", "kubernetes.io"],
    ["*.*.kubernetes.io", "prefix.kubernetes.io"],
    ["*.*.kubernetes.io", "kubernetes.io"],
    ["*kubernetes.io", "a.kubernetes.io"],
    ["kubernetes.io", "kubernetes.com"],
    ["k*.io", "quay.io"],
    ["*.kubernetes.io:1234/blah", "prefix.kubernetes.io:1111/blah"],
    ["prefix.*.io/foo", "prefix.kubernetes.io:1111/foo/bar"],
    ["prefix.kubernetes.io:1111", "prefix.kubernetes.io/foo"],
    ["https://hello.kubernetes.io", "world.mesos.org/foo"],
    ["https://*.docker.com", "prefix.docker.io"],
    ["https://suffix.*.io", "prefix.docker.io"],
    ["https://prefix.docker.c*", "prefix.docker.io"],
    ["https://index.docker.io/v1/", "world.mesos.org/foo"],
    ["https://index.docker.io/v1/", "myhostdocker.io/foo"],
    ["bar.example.com/pong", "bar.example.com/ping"],
    ["bar.example.com", "foo.example.com"],
    ["bar.example.com", "example.com"],
    ["aXb*bXc.io", "aXbXc.io"],
    ["ghcr.io", "ghcr.io.evil.example.com"],
  ])("%s is not for %s", (place, image) => {
    expect(usersFor(keyring(place), `${image}/foo/bar:v1`)).toEqual([]);
  });

  it("the most specific place comes first, and less specific ones after it, for passwords change one by one", () => {
    const config = keyring("bar.example.com", "bar.example.com/pong", "*.example.com");
    const users = ["bar.example.com/pong", "bar.example.com", "*.example.com"];
    expect(usersFor(config, "bar.example.com/pong/pang")).toEqual(users);
    expect(usersFor(config, "bar.example.com/ping")).toEqual(["bar.example.com", "*.example.com"]);
  });

  it("several configs are one keyring: of one place in their order, and each credential once", () => {
    const one = parse({ "a.io": { auth: base64("one:1") } });
    const [second, third] = ["two:2", "three:3"].map((text) => ({ auth: base64(text) }));
    const two = parse({ "https://a.io/v1/": second, "a.io/team": third });
    expect(usersFor([one, two, one], "a.io/team/app")).toEqual(["three", "one", "two"]);
    expect(usersFor([two, one], "a.io/team/app")).toEqual(["three", "two", "one"]);
    expect(usersFor([], "a.io/team/app")).toEqual([]);
  });

  it.each(["nginx", "nginx:1.25", "bitnami/redis", "docker.io/nginx", "index.docker.io/a/b"])(
    "%s is of the Hub, whether that is called docker.io or as docker login does",
    (image) => {
      for (const hub of ["https://index.docker.io/v1/", "index.docker.io", "docker.io"])
        expect(usersFor(keyring(hub), image)).toHaveLength(1);
    },
  );

  it("the Hub's old name counts only where nothing else matches", () => {
    const both = keyring("https://index.docker.io/v1/", "docker.io/library");
    expect(usersFor(both, "nginx")).toEqual(["docker.io/library"]);
    expect(usersFor(both, "bitnami/redis")).toEqual(["https"]);
  });

  it("a glob of many stars is matched in no time", () => {
    const image = `${"a".repeat(60)}.io/x`;
    expect(usersFor(keyring(`${"a*".repeat(100)}b.io`), image)).toEqual([]);
  });
});

it("any text is a config or a problem, and never an exception", () => {
  const fields = { auth: fc.string(), username: fc.string(), password: fc.string() };
  const auth = fc.record(fields, { requiredKeys: [] });
  const texts = fc.oneof(
    fc.string(),
    fc.json(),
    fc.dictionary(fc.string(), fc.oneof(auth, fc.jsonValue())).map((auths) => JSON.stringify({ auths })),
  );
  fc.assert(
    fc.property(texts, fc.constantFrom("dockerconfigjson", "dockercfg"), (text, format) => {
      const config = parseDockerConfig(text, format);
      credentialsFor([config], parseReference("a.example.com/b"));
      expect(config.problems.join("")).not.toContain("\n");
    }),
  );
});

it("any text in a credential never shows in a problem", () => {
  const secret = fc.string({ minLength: 12, maxLength: 40 });
  const fields = fc.constantFrom("auth", "username", "password", "registrytoken");
  fc.assert(
    fc.property(secret, fields, (value, field) => {
      const entry = { [field]: value };
      const { problems } = parse({ "a.example.com": entry, [`u:${value}@b.io`]: entry });
      expect(problems.join("\n")).not.toContain(value);
    }),
  );
});

it.each([
  ["ghcr.io", "ghcr.io/team/app", true],
  ["ghcr.io", "ghcr.io.evil.example/team/app", false],
  ["ghcr.io", "ghcr.io:444/team/app", false],
  ["ghcr.io/team", "ghcr.io/team/app", true],
  ["ghcr.io/team", "ghcr.io/team", true],
  ["ghcr.io/team", "ghcr.io/team-two/app", false],
  ["ghcr.io/team/app", "ghcr.io/team", false],
  ["*.example.com", "a.example.com/x", true],
  ["*.example.com", "a.b.example.com/x", false],
  ["*.example.com", "example.com/x", false],
  ["docker.io/library", "nginx", true],
  ["docker.io/library", `library/nginx:1@sha256:${"0".repeat(64)}`, true],
  ["docker.io/library", "evil/nginx", false],
  ["docker.io", "docker.io.evil/nginx", false],
])("an image is of a place %s: %s is %s", (place, image, expected) => {
  expect(isOf(place, parseReference(image))).toBe(expected);
});
