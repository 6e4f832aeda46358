/** What a command knows of images: it looks once and does not watch. */
import { clusterName, createMetricsRegistry, createSilentLogger, sleep } from "@berth/runtime";
import type { LookAt } from "../../node/once.ts";
import type { ImageQuestion, ImageSight } from "../image-sight.ts";
import { createImageLibrary, type ImageLibraryOptions } from "./image-library.ts";

/** How registries are reached. */
export interface ImagesOnce extends Pick<ImageLibraryOptions, "userAgent"> {
  readonly registries: () => Promise<ImageLibraryOptions["registries"]>;
}

/** How long images are waited for that no running Berth has looked up. Milliseconds. */
const PATIENCE_MS = 20_000;
const LOOK_MS = 50;

/**
 * What is known of images: what a running Berth has kept, and the rest asked of their registries now, with the rights and
 * from the place of whoever runs the command. What does not answer in time is unknown.
 *
 * @param wanted only these are asked of registries.
 */
export async function readImages(
  wanted: readonly ImageQuestion[],
  { registries, userAgent }: ImagesOnce,
  { run, owned }: Pick<LookAt, "run" | "owned">,
): Promise<ImageSight> {
  const { client, clock, signal, installation } = run;
  const namespace = await run.ownNamespace();
  const library = createImageLibrary({
    client,
    cluster: clusterName("local"),
    installation,
    userAgent,
    ...(namespace !== undefined && { namespace }),
    registries: await registries(),
    clock,
    log: createSilentLogger(),
    metrics: createMetricsRegistry(),
  });
  const stop = new AbortController();
  const both = AbortSignal.any([signal, stop.signal]);
  const started = await Promise.all(library.always.map((component) => component.start(both)));
  owned.defer(async () => {
    stop.abort();
    await Promise.all(started.map(({ ended }) => ended));
  });
  library.wake();
  for (const question of wanted) library.want(question);
  const untilMs = clock.monotonic() + PATIENCE_MS;
  const isOpen = (): boolean => wanted.some((question) => library.look(question).state === "unknown");
  while (isOpen() && clock.monotonic() < untilMs && (await sleep(clock, LOOK_MS, signal)));
  return library;
}
