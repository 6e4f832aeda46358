/** Reads image facts for a command, which reads once and does not watch. */
import { startOnce } from "@berth/host";
import { clusterName, createMetricsRegistry, createSilentLogger, sleep } from "@berth/runtime";
import type { LookAt } from "../../node/once.ts";
import type { ImageObservations, ImageQuestion } from "../image-observations.ts";
import { createImageLibrary, type ImageLibraryOptions } from "./image-library.ts";

/** How the command reaches registries. */
export interface ImagesOnce extends Pick<ImageLibraryOptions, "userAgent"> {
  readonly registries: () => Promise<ImageLibraryOptions["registries"]>;
}

/** How long a command waits for images that no running Berth has looked up. Milliseconds. */
const PATIENCE_MS = 20_000;
const LOOK_MS = 50;

/**
 * Reads the facts that a running Berth has stored, and asks registries for the rest now. The requests come from the
 * network and with the permissions of the user. An image without an answer in time is unknown.
 *
 * @param wanted the only images that it asks registries about.
 */
export async function readImages(
  wanted: readonly ImageQuestion[],
  { registries, userAgent }: ImagesOnce,
  { run, owned }: Pick<LookAt, "run" | "owned">,
): Promise<ImageObservations> {
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
  await startOnce(library.always, run, owned);
  library.wake();
  for (const question of wanted) library.want(question);
  const untilMs = clock.monotonic() + PATIENCE_MS;
  const isOpen = (): boolean => wanted.some((question) => library.look(question).state === "unknown");
  while (isOpen() && clock.monotonic() < untilMs && (await sleep(clock, LOOK_MS, signal)));
  return library;
}
