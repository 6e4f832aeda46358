/** What Berth needs of a registry, tried with an image that was just pushed. */
import assert from "node:assert/strict";
import {
  type ImageReader,
  parseReference,
  platformText,
  type RegistryCredential,
  RegistryError,
} from "@berth/registry";
import { push } from "../image/push.ts";
import { writeSmallImage } from "./small-image.ts";

/** `name` for the tag, `name@sha256:…` for the index and each image in it. */
const REPOSITORY = "berth-registry-check";

export interface CheckOptions {
  readonly reader: ImageReader;
  /** For this repository, as Berth finds them. */
  readonly credentials: readonly RegistryCredential[];
  /** With the login for the push. */
  readonly env: NodeJS.ProcessEnv;
  /** For the layout, ends with the caller. */
  readonly folder: string;
}

/**
 * Pushes an index of two images, and reads it by tag and digest, and each image in it by digest.
 *
 * @param place `HOST/NAMESPACE`.
 * @returns what it found, one line each.
 * @throws AssertionError when an answer is not what was pushed; RegistryError when there is none.
 */
export async function checkRegistry(
  place: string,
  { reader, credentials, env, folder }: CheckOptions,
): Promise<readonly string[]> {
  const name = `${place}/${REPOSITORY}`;
  const { layout, digest, images } = await writeSmallImage(folder, place);
  assert.equal(await push(layout, `${name}:1`, env), `${name}@${digest}`);
  const read = (reference: string) => reader.read(parseReference(reference), { credentials });
  const platforms = ["linux/amd64", "linux/arm64"];
  for (const reference of [`${name}:1`, `${name}@${digest}`]) {
    const facts = await read(reference);
    assert.equal(facts.digest, digest);
    assert.deepEqual(facts.platforms.map(platformText), platforms);
    assert.equal(await reader.digestOf(parseReference(reference), { credentials }), digest);
  }
  for (const [at, image] of images.entries())
    assert.deepEqual((await read(`${name}@${image}`)).platforms.map(platformText), [platforms[at]]);
  const absent = await read(`${name}:absent`).then(
    () => "found",
    (error: unknown) => (error instanceof RegistryError ? error.kind : Promise.reject(error)),
  );
  assert.equal(absent, "notFound");
  const anonymous = await reader.read(parseReference(`${name}:1`), { credentials: [] }).then(
    () => "anybody may read it",
    (error: unknown) =>
      error instanceof RegistryError ? `without a login: ${error.kind}` : Promise.reject(error),
  );
  return [`${name}@${digest}: ${platforms.join(", ")}, by tag and digest`, anonymous];
}
