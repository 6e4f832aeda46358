import * as fc from "fast-check";
import { describe, expect, it } from "vitest";
import { RegistryError } from "./failure.ts";
import { isDigest, parseReference, referenceText } from "./reference.ts";

const sha256 = `sha256:${"f".repeat(64)}`;
const sha512 = `sha512:${"f".repeat(128)}`;
const hex64 = "1a3f5e7d9c1b3a5f7e9d1c3b5a7f9e1d3c5b7a9f1e3d5d7c9b1a3f5e7d9c1b3a";

function failureOf(name: string): RegistryError {
  try {
    parseReference(name);
  } catch (error) {
    if (error instanceof RegistryError) return error;
    throw error;
  }
  throw new Error(`${name} was read`);
}

it.each([
  ["A-B2 a bare name", "nginx", "docker.io/library/nginx:latest"],
  ["A-B2 a bare name with a tag that looks like a port", "nginx:1.25", "docker.io/library/nginx:1.25"],
  ["A-B2 a user of the Hub", "bitnami/redis:7", "docker.io/bitnami/redis:7"],
  ["A-B2 the Hub by name", "docker.io/nginx:1", "docker.io/library/nginx:1"],
  ["the Hub by its old name", "index.docker.io/nginx", "docker.io/library/nginx:latest"],
  ["the Hub's old name and a user", "index.docker.io/docker/docker", "docker.io/docker/docker:latest"],
  ["library spelt out", "library/ubuntu", "docker.io/library/ubuntu:latest"],
  ["more than one level below library", "library/foo/bar", "docker.io/library/foo/bar:latest"],
  ["another registry, where nothing is added", "ghcr.io/a", "ghcr.io/a:latest"],
  ["localhost", "localhost/fooo", "localhost/fooo:latest"],
  ["localhost alone is an image", "localhost:5000", "docker.io/library/localhost:5000"],
  ["a host alone is an image", "test.com:5000", "docker.io/library/test.com:5000"],
  ["an address alone is an image", "192.168.0.1:80", "docker.io/library/192.168.0.1:80"],
  ["a first part in upper case is a registry", "LOCALDOMAIN/debian", "LOCALDOMAIN/debian:latest"],
  ["a port makes a registry", "test:5000/repo", "test:5000/repo:latest"],
  ["port and tag", "192.168.1.1:5000/repo:5050", "192.168.1.1:5000/repo:5050"],
  ["a host with a dash", "sub-dom1.foo.com/bar/baz/quux:v", "sub-dom1.foo.com/bar/baz/quux:v"],
  ["a tag like a host", "b.gcr.io/example.com/a:example.com", "b.gcr.io/example.com/a:example.com"],
  ["punycode", `xn--7o8h.com/a:xn--7o8h.com@${sha512}`, `xn--7o8h.com/a:xn--7o8h.com@${sha512}`],
  ["IPv6", "[2001:db8::1]/repo", "[2001:db8::1]/repo:latest"],
  ["IPv6 in full, with a tag", "[2001:db8:1:2:3:4:5:6]/repo:tag", "[2001:db8:1:2:3:4:5:6]/repo:tag"],
  ["IPv6 with port, tag and digest", `[::1]:5000/repo:tag@${sha256}`, `[::1]:5000/repo:tag@${sha256}`],
  ["a digest alone gets no tag", `nginx@${sha256}`, `docker.io/library/nginx@${sha256}`],
  ["a tag in upper case", "lowercase:Uppercase", "docker.io/library/lowercase:Uppercase"],
  ["two underscores", "dock__er/docker", "docker.io/dock__er/docker:latest"],
  ["many dashes", "docker---rules/docker", "docker.io/docker---rules/docker:latest"],
  ["an underscore before a dot is no host, and yet one name", "foo_bar.com/baz", "foo_bar.com/baz:latest"],
  ["64 hexadecimals below a registry", `docker.io/${hex64}`, `docker.io/library/${hex64}:latest`],
  ["64 that are not all hexadecimal", "g".repeat(64), `docker.io/library/${"g".repeat(64)}:latest`],
  ["a repository of 255 characters", `a.io/${"a".repeat(255)}:tag`, `a.io/${"a".repeat(255)}:tag`],
  ["a tag of 128 characters", `a/b:${"t".repeat(128)}`, `docker.io/a/b:${"t".repeat(128)}`],
])("names as users write them %s: %s", (_, name, full) => {
  expect(referenceText(parseReference(name))).toBe(full);
});

it("a name as users write it says where the parts are", () => {
  const whole = { registry: "localhost:5000", repository: "team/app", tag: "v1", digest: sha256 };
  expect(parseReference(`localhost:5000/team/app:v1@${sha256}`)).toEqual(whole);
  const short = { registry: "docker.io", repository: "library/app", digest: sha256 };
  expect(parseReference(`app@${sha256}`)).toEqual(short);
});

it.each([
  ["nothing", "", /it is empty/],
  ["a tag alone", ":justtag", /repository/],
  ["a digest alone", `@${sha256}`, /repository/],
  ["a short digest", "repo@sha256:ffffffffffffffffffffffffffffffffff", /digest "sha256:ffff/],
  ["a digest in upper case", `repo@sha256:${"F".repeat(64)}`, /digest/],
  ["an unknown algorithm", `validname@invaliddigest:${"f".repeat(64)}`, /digest "invaliddigest/],
  ["two digests", `a@${sha256}@${sha256}`, /digest/],
  ["upper case", "Uppercase:tag", /"library\/Uppercase" has to be in lower case/],
  ["upper case below a registry", "test:5000/Uppercase/lowercase:tag", /lower case/],
  ["upper case on the Hub", "docker/Docker", /"docker\/Docker" has to be in lower case/],
  ["256 characters", `domain/${"a".repeat(256)}:tag`, /longer than 255/],
  ["a tag of 129 characters", `a/b:${"t".repeat(129)}`, /the tag/],
  ["an empty tag", "nginx:", /the tag "" is not valid/],
  ["an empty digest", "nginx@", /the digest "" is not valid/],
  ["a URL", "https://github.com/docker/docker", /"https:" is no host name/],
  ["dollars", "aa/asdf$$^/aa", /repository/],
  ["a leading dash", "-docker/docker", /repository/],
  ["a trailing dash", "docker-/docker", /repository/],
  ["a host with a leading dash", "-docker.io/docker/docker", /"-docker.io" is no host name/],
  ["empty parts", "docker///docker", /repository/],
  ["no repository", "docker.io/", /repository/],
  ["only underscores", "____/____", /repository/],
  ["a leading underscore", "_docker/_docker", /repository/],
  ["two dots", "dock..er/docker", /no host name/],
  ["underscore and dot", "dock_.er/docker", /no host name/],
  ["dash and dot", "dock-.er/docker", /no host name/],
  ["an IPv6 address alone", "[2001:db8::1]", /repository/],
  ["an IPv6 address and port alone", "[fc00::1]:5000", /repository/],
  ["IPv6 without brackets", "fc00::1:5000/debian", /"fc00::1:5000" is no host name/],
  ["IPv6 with a zone", "[fe80::1%eth0]:5000/debian", /no host name/],
  ["IPv4 in IPv6", "[2001:db8:3:4::192.0.2.33]:5000/debian", /no host name/],
  ["64 hexadecimals", hex64, /the id of an image on one machine/],
  ["a space", "nginx latest", /repository/],
  ["a line break", "nginx\n", /repository/],
  ["megabytes", "a/".repeat(1_000_000), /longer than 2048/],
])("names that are none %s", (_, name, why) => {
  const failure = failureOf(name);
  expect(failure.kind).toBe("invalidName");
  expect(failure.registry).toBe("");
  expect(failure.message).toMatch(why);
  expect(failure.message).toMatch(/^".*" is not an image name: /);
  expect(failure.message.length).toBeLessThan(700);
  // oxlint-disable-next-line no-control-regex
  expect(failure.message).not.toMatch(/[\u0000-\u001f]/);
});

it.each([
  [sha256, true],
  [sha512, true],
  [`sha384:${"0".repeat(96)}`, false],
  [`sha256:${"g".repeat(64)}`, false],
  [`${sha256}\n`, false],
  ["", false],
])("isDigest %j: %s", (text, is) => {
  expect(isDigest(text)).toBe(is);
});

describe("any text", () => {
  const letters = "a A 0 . _ - : / @ [ ] \n é".split(" ");
  const pieces = fc.constantFrom("docker.io", "localhost", sha256, "__", ...letters);
  const joined = fc.array(pieces, { maxLength: 12 }).map((parts) => parts.join(""));
  const texts = fc.oneof(fc.string(), joined);

  it("is read, or refused with a RegistryError; and what was read is read the same from its full name", () => {
    fc.assert(
      fc.property(texts, (text) => {
        let reference: ReturnType<typeof parseReference>;
        try {
          reference = parseReference(text);
        } catch (error) {
          return error instanceof RegistryError && error.kind === "invalidName";
        }
        expect(parseReference(referenceText(reference))).toEqual(reference);
        expect(reference.tag ?? reference.digest).toBeDefined();
        return true;
      }),
      { numRuns: 2_000 },
    );
  });
});
