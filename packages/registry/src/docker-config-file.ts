import { readFile, stat } from "node:fs/promises";
import { type DockerConfig, parseDockerConfig } from "./docker-config.ts";

/** The largest part of the file that is read: the kubelet's own limit is no higher. Bytes. */
const MAX_BYTES: number = 1024 * 1024;

/**
 * A docker config that another program writes, such as a mounted Secret. Each question checks the file, and a changed
 * file is parsed again. A missing or unreadable file gives no credentials and a problem.
 */
export class DockerConfigFile {
  readonly #path: string;
  #last: { readonly version: string; readonly config: DockerConfig } | undefined;

  constructor(path: string) {
    this.#path = path;
  }

  /** Never rejects. */
  async read(): Promise<DockerConfig> {
    try {
      const found = await stat(this.#path, { bigint: true });
      const { ino, size, mtimeNs } = found;
      if (!found.isFile()) return refused("it is no file");
      if (size > MAX_BYTES) return refused(`it has more than ${MAX_BYTES} bytes`);
      const version = `${ino}/${size}/${mtimeNs}`;
      if (this.#last?.version === version) return this.#last.config;
      const config = parseDockerConfig(await readFile(this.#path, "utf8"), "dockerconfigjson");
      this.#last = { version, config };
      return config;
    } catch (error) {
      return refused(`it cannot be read: ${(error as NodeJS.ErrnoException).code ?? "unknown"}`);
    }
  }
}

function refused(problem: string): DockerConfig {
  return { entries: [], problems: [problem] };
}
