/** The process of a registry: its configuration, its start, and how an image gets in. */
import { writeFile } from "node:fs/promises";
import path from "node:path";
import { Agent, request } from "undici";
import type { Program } from "../assets.ts";
import { eventually } from "../eventually.ts";
import {
  type Component,
  ComponentFailedError,
  failWhenEnded,
  lastLines,
  startComponent,
} from "../process.ts";
import type { ImageContent, ImageDescription } from "./image-content.ts";
import { basicCredential, type RegistryUser } from "./users.ts";

export interface ServerOptions {
  readonly program: Program;
  /** For configuration, log, socket and images. */
  readonly folder: string;
  readonly users: readonly RegistryUser[];
  /** For it to become ready. Milliseconds. */
  readonly timeoutMs: number;
  readonly signal?: AbortSignal;
}

export const socketOf = (folder: string): string => path.join(folder, "registry.sock");

/** @throws ComponentFailedError when it ends, or does not answer within `timeoutMs`; then it does not run. */
export async function startServer(options: ServerOptions): Promise<Component<"registry">> {
  const { program, folder, users, timeoutMs, signal } = options;
  const config = path.join(folder, "config.yml");
  const logFile = path.join(folder, "registry.log");
  const passwords = path.join(folder, "htpasswd");
  if (users.length > 0)
    await writeFile(passwords, users.map(({ name, hash }) => `${name}:${hash}\n`).join(""));
  // YAML contains JSON.
  await writeFile(config, JSON.stringify(configuration(folder, users.length > 0 ? passwords : undefined)));
  const component = await startComponent({
    name: "registry",
    // Variables called REGISTRY_… would change the configuration, and without the last one it looks for a collector of
    // traces on this machine.
    program: {
      command: "/usr/bin/env",
      args: ["-i", "OTEL_TRACES_EXPORTER=none", program.command, ...program.args],
    },
    flags: ["serve", config],
    logFile,
  });
  using done = aborter();
  try {
    const answers = eventually((patience) => ping(folder, patience), {
      timeoutMs,
      everyMs: 20,
      ...(signal ? { signal } : {}),
    });
    await Promise.race([answers, failWhenEnded(component, done.signal)]);
    return component;
  } catch (error) {
    await component[Symbol.asyncDispose]();
    if (error instanceof ComponentFailedError || signal?.aborted) throw error;
    throw new ComponentFailedError(
      `registry did not become ready; its log ends:\n${await lastLines(logFile)}`,
      { cause: error },
    );
  }
}

/** As its documentation has it: docs/content/about/configuration.md there. */
function configuration(folder: string, htpasswd: string | undefined): object {
  return {
    version: 0.1,
    log: { level: "warn", accesslog: { disabled: true } },
    storage: {
      filesystem: { rootdirectory: path.join(folder, "images") },
      delete: { enabled: true },
      maintenance: { uploadpurging: { enabled: false } },
    },
    // Absolute ones would name the socket's host.
    http: { net: "unix", addr: socketOf(folder), relativeurls: true },
    ...(htpasswd === undefined ? {} : { auth: { htpasswd: { realm: "berth-testcluster", path: htpasswd } } }),
  };
}

async function ping(folder: string, signal: AbortSignal): Promise<void> {
  await using caller = callerOf(folder);
  const { statusCode } = await caller.call({ method: "GET", path: "/v2/", signal });
  if (statusCode !== 200 && statusCode !== 401) throw new Error(`/v2/ answered ${statusCode}`);
}

/**
 * Puts an image into the registry of this folder, past the front.
 *
 * @throws Error with what the registry said when it takes a part of it not.
 */
export async function pushContent(
  folder: string,
  { repository, tag }: Pick<ImageDescription, "repository" | "tag">,
  { blobs, children, root }: ImageContent,
  user: RegistryUser | undefined,
): Promise<void> {
  await using caller = callerOf(folder, user);
  await Promise.all(
    blobs.map(async ({ digest, bytes }) => {
      const { location } = await caller.take({ method: "POST", path: `/v2/${repository}/blobs/uploads/` });
      const to = `${location}${location.includes("?") ? "&" : "?"}digest=${encodeURIComponent(digest)}`;
      await caller.take({ method: "PUT", path: to, body: bytes, type: "application/octet-stream" });
    }),
  );
  const put = (reference: string, { mediaType, bytes }: typeof root): Promise<unknown> =>
    caller.take({
      method: "PUT",
      path: `/v2/${repository}/manifests/${reference}`,
      body: bytes,
      type: mediaType,
    });
  await Promise.all(children.map((child) => put(child.digest, child)));
  await put(tag, root);
}

interface Call {
  readonly method: "GET" | "POST" | "PUT";
  readonly path: string;
  readonly body?: Buffer;
  readonly type?: string;
  readonly signal?: AbortSignal;
}

interface Answer {
  readonly statusCode: number;
  readonly location: string;
  readonly text: string;
}

interface Caller extends AsyncDisposable {
  call(call: Call): Promise<Answer>;
  /** @throws Error when the answer is no success. */
  take(call: Call): Promise<Answer>;
}

function callerOf(folder: string, user?: RegistryUser): Caller {
  const agent = new Agent({ connect: { socketPath: socketOf(folder) }, connections: 8 });
  const call = async ({ method, path: target, body, type, signal }: Call): Promise<Answer> => {
    const answer = await request(new URL(target, "http://registry"), {
      dispatcher: agent,
      method,
      headers: {
        ...(type === undefined ? {} : { "content-type": type }),
        ...(user === undefined ? {} : { authorization: basicCredential(user) }),
      },
      body: body ?? null,
      ...(signal ? { signal } : {}),
    });
    const { location } = answer.headers;
    return {
      statusCode: answer.statusCode,
      location: typeof location === "string" ? location : "",
      text: await answer.body.text(),
    };
  };
  return {
    call,
    take: async (what) => {
      const answer = await call(what);
      if (answer.statusCode >= 300) {
        throw new Error(
          `${what.method} ${what.path} answered ${answer.statusCode}: ${answer.text.slice(0, 500)}`,
        );
      }
      return answer;
    },
    [Symbol.asyncDispose]: () => agent.destroy(),
  };
}

function aborter(): Disposable & { readonly signal: AbortSignal } {
  const controller = new AbortController();
  return { signal: controller.signal, [Symbol.dispose]: () => controller.abort() };
}
