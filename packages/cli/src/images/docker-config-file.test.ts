import { mkdir, rename, rm } from "node:fs/promises";
import { credentialsFor, DockerConfigFile, parseReference } from "@berth/registry";
import { expect, it } from "vitest";
import { testFolder } from "../testing/harness.ts";

const configFor = (host: string, password: string): string =>
  JSON.stringify({ auths: { [host]: { username: "me", password } } });

it("a docker config counts as it is now", async () => {
  await using folder = await testFolder();
  const file = new DockerConfigFile(`${folder.path}/config.json`);
  const found = async (): Promise<unknown> => {
    const config = await file.read();
    return { problems: config.problems, found: credentialsFor([config], parseReference("ghcr.io/a/b:1")) };
  };
  const with_ = (password: string): unknown => ({ problems: [], found: [{ username: "me", password }] });

  expect(await found()).toEqual({ problems: ["it cannot be read: ENOENT"], found: [] });
  const path = await folder.write("config.json", configFor("ghcr.io", "one"));
  expect(await found()).toEqual(with_("one"));
  // As kubelet changes a mounted Secret: another file under the same name.
  await rename(await folder.write("next", configFor("ghcr.io", "two")), path);
  expect(await found()).toEqual(with_("two"));
  await folder.write("config.json", "{");
  expect(await found()).toMatchObject({ problems: [expect.any(String)], found: [] });
  await folder.write("config.json", `${configFor("ghcr.io", "big")}${" ".repeat(1024 * 1024)}`);
  expect(await found()).toEqual({ problems: ["it has more than 1048576 bytes"], found: [] });
  await rm(path);
  await mkdir(path);
  expect(await found()).toEqual({ problems: ["it is no file"], found: [] });
});
