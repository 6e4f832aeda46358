import { run } from "../run.ts";

/**
 * Pushes the images of a layout with their index, by crane, and resolves with its name by digest. The credentials are
 * those of `docker login`. The tag comes last, so a push that fails leaves it as it was.
 */
export async function push(
  layout: string,
  reference: string,
  env: NodeJS.ProcessEnv = process.env,
): Promise<string> {
  const crane = ["-C", import.meta.dirname, "tool", "crane"];
  try {
    return await run("go", [...crane, "push", layout, reference], { env: { ...env, CGO_ENABLED: "0" } });
  } catch (error) {
    throw new Error(`${reference} is what it was before. ${String(error)}`, { cause: error });
  }
}
