/** Programs that print credentials, or misbehave. */
import { chmod, mkdtempDisposable, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import path from "node:path";

export interface ProgramFolder extends AsyncDisposable {
  readonly path: string;
  /** Writes a program for sh. */
  program(name: string, script: string): Promise<void>;
}

/** A folder of its own with these programs for sh. */
export async function programFolder(scripts: Readonly<Record<string, string>> = {}): Promise<ProgramFolder> {
  const made = await mkdtempDisposable(path.join(tmpdir(), "berth-programs-"));
  const program = async (name: string, script: string): Promise<void> => {
    const file = path.join(made.path, name);
    await writeFile(file, `#!/bin/sh\n${script}\n`);
    await chmod(file, 0o755);
  };
  for (const [name, script] of Object.entries(scripts)) await program(name, script);
  return { path: made.path, program, [Symbol.asyncDispose]: () => made.remove() };
}

/** The commands of a program that prints a CredentialProviderResponse. */
export function printing(answer: object): string {
  const response = {
    apiVersion: "credentialprovider.kubelet.k8s.io/v1",
    kind: "CredentialProviderResponse",
    cacheKeyType: "Image",
    ...answer,
  };
  return `cat > /dev/null\nprintf '%s' '${JSON.stringify(response)}'`;
}
