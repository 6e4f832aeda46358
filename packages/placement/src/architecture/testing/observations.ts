/** What is known of images, for tests without a registry. Names are made whole only as far as tests use short ones. */
import type { Platform } from "@berth/registry";
import type { Reason } from "../../api/reasons.ts";
import type { ImageKnowledge, ImageObservations } from "../image-observations.ts";

/** Architectures (of linux, or `windows/amd64`), or a failure. What is not listed is unknown. */
export type Known = readonly string[] | { readonly failed: Reason; readonly retryAt?: number };

/** An operator bundle whose config names these. */
export interface KnownBundle {
  readonly bundle: readonly string[];
}

export type KnownImages = Readonly<Record<string, Known | KnownBundle>>;

export function sightOf(images: KnownImages): ImageObservations {
  return {
    look({ image }) {
      const name = wholeName(image);
      return knowledgeOf(name, Object.hasOwn(images, image) ? images[image] : undefined);
    },
  };
}

export function knowledgeOf(name: string, known: Known | KnownBundle | undefined): ImageKnowledge {
  if (known === undefined) return { state: "unknown", name };
  if ("bundle" in known)
    return { state: "known", name, platforms: known.bundle.map(platformOf), isBundle: true };
  if (!("failed" in known)) return { state: "known", name, platforms: known.map(platformOf) };
  const { failed: reason, retryAt } = known;
  const message = `${name} cannot be read: ${reason}`;
  return { state: "failed", name, reason, message, ...(retryAt !== undefined && { retryAt }) };
}

function platformOf(text: string): Platform {
  const [first = "", second, variant] = text.split("/");
  if (second === undefined) return { os: "linux", architecture: first };
  return { os: first, architecture: second, ...(variant !== undefined && { variant }) };
}

function wholeName(image: string): string {
  if (image.includes("/")) return image;
  return `docker.io/library/${image}${image.includes(":") ? "" : ":latest"}`;
}
