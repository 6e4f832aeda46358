/** Whatever strangers send: no crash, no answer that grows beyond what was sent, and no secret in it. */
import { mkdtemp, rm, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import path from "node:path";
import { readDocuments } from "@berth/host";
import { ApiError, KubeconfigError, loadKubeconfig } from "@berth/kube";
import * as fc from "fast-check";
import { afterAll, beforeAll, describe, expect, it } from "vitest";
import { documentKinds } from "../../packages/cli/src/kinds.ts";
import { parseChallenges } from "../../packages/registry/src/challenge.ts";
import { parseImageConfig, parseManifest } from "../../packages/registry/src/manifest.ts";
import { ALLOWED, parseReview, renderReview } from "../../packages/runtime/src/admission/review.ts";
import { seededRun } from "../../packages/runtime/src/testing/property.ts";
import { mutated } from "./mutations.ts";
import { challenges, configs, INDEX, kubeconfigs, manifests, reviews, rules, SECRET } from "./samples.ts";

/** Inputs of each kind; `make perturb` takes a hundred times as many. */
const INPUTS = 1_000;

const bytes = (text: string): Uint8Array => new TextEncoder().encode(text);
let folder: string;
beforeAll(async () => {
  folder = await mkdtemp(path.join(tmpdir(), "berth-fuzz-"));
});
afterAll(() => rm(folder, { recursive: true, force: true }));

/** What parsing says of a text. Must be total, or throw what its documentation names. */
type Parse = (text: string) => unknown;

const targets: readonly (readonly [string, readonly string[], Parse])[] = [
  [
    "reviews",
    reviews,
    (text) => {
      const parsed = parseReview(bytes(text));
      return "review" in parsed ? JSON.parse(renderReview(parsed.review, ALLOWED)) : parsed.problem;
    },
  ],
  ["manifests", manifests, (text) => parseManifest(bytes(text), INDEX)],
  ["image configs", configs, (text) => parseImageConfig(bytes(text))],
  ["challenges", challenges, (text) => parseChallenges(text)],
  [
    "kubeconfigs",
    kubeconfigs,
    async (text) => {
      const file = path.join(folder, "config");
      await writeFile(file, text);
      return loadKubeconfig([file], { environment: {} }).then(
        () => "",
        (error: unknown) => {
          if (error instanceof KubeconfigError || error instanceof ApiError) return error.message;
          throw error;
        },
      );
    },
  ],
  ["rule files", rules, (text) => readDocuments("rules.yaml", text, documentKinds).faults],
];

describe("what strangers send", () => {
  const { parameters, options, name } = seededRun(INPUTS, process.env);

  it.each(targets)(`harms nothing: %s (${name})`, options, async (_what, valid, parse) => {
    const property = fc.asyncProperty(mutated(valid), async (text) => {
      const said = JSON.stringify(await parse(text)) ?? "";
      expect(said).not.toContain(SECRET);
      expect(said.length).toBeLessThanOrEqual(20_000 + 20 * text.length);
    });
    await fc.assert(property, parameters);
  });

  it.each(targets)("is read when it is right: %s", async (_what, valid, parse) => {
    for (const text of valid) expect(await parse(text)).toBeDefined();
  });
});
