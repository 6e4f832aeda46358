import { execFile } from "node:child_process";
import { promisify } from "node:util";

const run = promisify(execFile);

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
    const pushed = await run("go", [...crane, "push", layout, reference], {
      env: { ...env, CGO_ENABLED: "0" },
    });
    return pushed.stdout.trim();
  } catch (error) {
    const { stderr } = error as { readonly stderr?: string };
    throw new Error(`${reference} is what it was before. ${stderr?.trim() || String(error)}`, {
      cause: error,
    });
  }
}
