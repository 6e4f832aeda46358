/** Messages about the images of a pod, for its user to act on. Bounded, because users choose the names in them. */
import type { ImageAllowance } from "./pod-view.ts";

/** Most images named in one message. */
const MAX_NAMED = 8;
const MAX_IMAGE_NAME = 160;
const MAX_FAILURE = 300;
const MAX_LISTED = 8;

/** `amd64, arm64` */
export function listText(items: readonly string[]): string {
  const more = items.length - MAX_LISTED;
  return more > 0 ? `${items.slice(0, MAX_LISTED).join(", ")} and ${more} more` : items.join(", ");
}

/** `container app (docker.io/library/x:1)` */
function useText({ use, knowledge }: ImageAllowance): string {
  return `${use.where} (${cut(knowledge.name || use.question.image, MAX_IMAGE_NAME)})`;
}

/**
 * `container app (a:1) runs on amd64, container sidecar (b:2) on arm64: no architecture runs both`. If there are too
 * many images, it names those that restrict most.
 */
export function conflictText(images: readonly ImageAllowance[], os: string): string {
  const restricting = images.filter(({ architectures }) => architectures !== undefined);
  const nowhere = restricting.filter(({ architectures = [] }) => architectures.length === 0);
  if (nowhere.length > 0) return joined(nowhere.map((it) => `${useText(it)} ${elsewhereText(it, os)}`));
  const [first = "", ...others] = mostRestricting(restricting).map((it, at) => {
    return `${useText(it)} ${at === 0 ? "runs on" : "on"} ${listText(it.architectures ?? [])}`;
  });
  const left = restricting.length - others.length - 1;
  const more = left > 0 ? ` and ${left} more` : "";
  const what = restricting.length === 2 ? "both" : "all of them";
  return `${[first, ...others].join(", ")}${more}: no architecture runs ${what}`;
}

/** `container app (a:1) runs on amd64`: images that run on no allowed architecture, or what all have in common. */
export function ownConflictText(
  images: readonly ImageAllowance[],
  common: readonly string[],
  allows: (architecture: string) => boolean,
): string {
  const unfit = images.filter(({ architectures }) => architectures?.some(allows) === false);
  if (unfit.length === 0) return `its images have only ${listText(common)} in common`;
  return joined(unfit.map((it) => `${useText(it)} runs on ${listText(it.architectures ?? [])}`));
}

function mostRestricting(images: readonly ImageAllowance[]): readonly ImageAllowance[] {
  const width = ({ architectures = [] }: ImageAllowance): number => architectures.length;
  if (images.length <= MAX_NAMED) return images;
  return images.toSorted((a, b) => width(a) - width(b)).slice(0, MAX_NAMED);
}

function elsewhereText({ knowledge }: ImageAllowance, os: string): string {
  const platforms = knowledge.state === "known" ? knowledge.platforms : [];
  const names = [...new Set(platforms.map((it) => `${it.os}/${it.architecture}`))].sort();
  return `runs on ${listText(names)}, and the pod is for ${os}`;
}

/** For images without facts: that Berth is looking them up, or why that failed. */
export function unknownText(images: readonly ImageAllowance[]): string {
  return joined(
    images.map((it) => {
      const { knowledge } = it;
      if (knowledge.state !== "failed") return `${useText(it)} is being looked up`;
      const { name, message } = knowledge;
      // Most messages begin with the image name, which `useText` has already given.
      const what =
        name !== "" && message.startsWith(`${name} `) ? message.slice(name.length) : `: ${message}`;
      return `${useText(it)}${cut(what, MAX_FAILURE)}`;
    }),
  );
}

function joined(parts: readonly string[]): string {
  const more = parts.length - MAX_NAMED;
  return more > 0 ? `${parts.slice(0, MAX_NAMED).join("; ")}; and ${more} more` : parts.join("; ");
}

function cut(text: string, length: number): string {
  return text.length <= length ? text : `${text.slice(0, length - 1)}…`;
}
