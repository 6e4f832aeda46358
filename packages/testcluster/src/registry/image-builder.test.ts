import { describe, expect, it } from "vitest";
import { anImage, type ImageBuilder } from "./image-builder.ts";
import { toContent } from "./image-content.ts";

const digest = (image: ImageBuilder): string => toContent(image.build()).root.digest;

describe("anImage", () => {
  it("leaves the builder it came from as it was", () => {
    const plain = anImage("team/app:1");
    const before = plain.build();
    plain.platforms("linux/arm64").docker().withAttestation().withArtifact();
    plain.withoutPlatform("linux/arm").asIndex();
    plain.content("other").asArtifact();
    expect(plain.build()).toEqual(before);
  });

  it("has the same digest each time, another one for another name, and that of another name for its content", () => {
    expect(digest(anImage("a:1"))).toBe(digest(anImage("a:1")));
    expect(digest(anImage("a:1"))).not.toBe(digest(anImage("b:1")));
    expect(digest(anImage("b:1").content("a:1"))).toBe(digest(anImage("a:1")));
  });

  it("is an index unless it is one platform alone", () => {
    const isIndex = (image: ImageBuilder): boolean =>
      "manifests" in JSON.parse(String(toContent(image.build()).root.bytes));
    expect(isIndex(anImage("a:1"))).toBe(false);
    expect(isIndex(anImage("a:1").platforms("linux/arm64"))).toBe(false);
    expect(isIndex(anImage("a:1").platforms("linux/amd64", "linux/arm64"))).toBe(true);
    expect(isIndex(anImage("a:1").platforms())).toBe(true);
    expect(isIndex(anImage("a:1").asIndex())).toBe(true);
  });

  it.each(["app", "App:1", "host.test:5000/app:1", "app@sha256:00", "a//b:1", ""])(
    "refuses the name %j",
    (name) => {
      expect(() => anImage(name)).toThrow(TypeError);
    },
  );

  it.each(["amd64", "linux/", "linux/amd64/v1/x", "Linux/amd64"])("refuses the platform %j", (platform) => {
    expect(() => anImage("a:1").platforms(platform)).toThrow(TypeError);
  });

  it("is no artifact and an index at once", () => {
    expect(() => toContent(anImage("a:1").asIndex().asArtifact().build())).toThrow(TypeError);
  });
});
