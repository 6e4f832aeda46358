import { expect, it } from "vitest";
import { debianPackages, readPins } from "../scripts/image/debian.ts";
import { readLock } from "../scripts/image/node.ts";
import { unlisted } from "../scripts/licences.ts";

it("releases nothing under a licence that is not listed in scripts/licences.ts", async () => {
  const npm = Object.entries(await readLock())
    .filter(([path, { dev, link }]) => path.startsWith("node_modules/") && dev !== true && link !== true)
    .map(([name, { license }]) => ({ name, license }));
  const debian = debianPackages(await readPins(), ["amd64", "arm64", "all"]);
  expect(npm.length).toBeGreaterThan(20);
  expect(unlisted([...npm, ...debian])).toEqual([]);
});

it("names what has another licence, or none", () => {
  const things = [{ name: "a", license: "MIT" }, { name: "b", license: "AGPL-3.0-only" }, { name: "c" }];
  expect(unlisted(things)).toEqual(["b: AGPL-3.0-only", "c: none named"]);
});
