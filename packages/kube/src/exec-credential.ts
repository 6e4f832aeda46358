import { execFile } from "node:child_process";
import { resolve } from "node:path";
import { type Credential, cachedCredential, type FreshMaterial } from "./credential.ts";

/** The `exec` block of a kubeconfig user. */
export interface ExecPlugin {
  readonly apiVersion: string;
  readonly command: string;
  readonly args?: readonly string[];
  readonly env?: readonly { readonly name: string; readonly value: string }[];
  readonly installHint?: string;
  readonly provideClusterInfo?: boolean;
  /** A daemon cannot support `Always`, so it is refused with a message. */
  readonly interactiveMode?: "Never" | "IfAvailable" | "Always";
}

/** The context of a credential plugin. */
export interface ExecContext {
  /** Folder of the kubeconfig: a command with a slash is relative to it. */
  readonly folder: string;
  /** The environment the plugin inherits. */
  readonly environment: Readonly<Record<string, string | undefined>>;
  /** `spec.cluster` of KUBERNETES_EXEC_INFO, sent only on `provideClusterInfo`. */
  readonly cluster?: Readonly<Record<string, unknown>>;
}

/** Plugins are user programs that may wait for a network. After this long the request fails. */
const EXEC_TIMEOUT_MS = 30_000;
/** Refreshed this long before it expires, so that a request in flight does not outlive it. */
const EXPIRY_SKEW_MS = 30_000;
const MAX_OUTPUT_BYTES = 1024 * 1024;

/**
 * A credential from a client-go credential plugin (client.authentication.k8s.io/v1 and v1beta1). The plugin is run
 * without a shell, one at a time, when the last answer expires or is rejected; its output is never logged.
 */
export function execCredential(plugin: ExecPlugin, context: ExecContext): Credential {
  return cachedCredential(async () => {
    if (plugin.interactiveMode === "Always") {
      throw new Error(
        `the credential plugin ${plugin.command} wants a terminal (interactiveMode: Always); there is none`,
      );
    }
    return parseExecAnswer(plugin, await runPlugin(plugin, context), Date.now());
  });
}

function runPlugin(plugin: ExecPlugin, context: ExecContext): Promise<string> {
  const command = plugin.command.includes("/") ? resolve(context.folder, plugin.command) : plugin.command;
  const info = {
    apiVersion: plugin.apiVersion,
    kind: "ExecCredential",
    spec: {
      interactive: false,
      ...(plugin.provideClusterInfo && context.cluster ? { cluster: context.cluster } : {}),
    },
  };
  const env = {
    ...context.environment,
    ...Object.fromEntries((plugin.env ?? []).map(({ name, value }) => [name, value])),
    KUBERNETES_EXEC_INFO: JSON.stringify(info),
  };
  return new Promise((settle, fail) => {
    execFile(
      command,
      [...(plugin.args ?? [])],
      {
        env,
        timeout: EXEC_TIMEOUT_MS,
        maxBuffer: MAX_OUTPUT_BYTES,
      },
      (error, stdout) => {
        if (error === null) return settle(stdout);
        const missing = (error as NodeJS.ErrnoException).code === "ENOENT";
        const hint = missing && plugin.installHint ? ` ${plugin.installHint.trim()}` : "";
        const why = missing
          ? "is not installed"
          : error.killed
            ? `gave no answer in ${EXEC_TIMEOUT_MS} ms`
            : `failed (${error.code ?? "signal"})`;
        fail(new Error(`the credential plugin ${plugin.command} ${why}.${hint}`));
      },
    );
  });
}

/** @throws Error when the answer is not an ExecCredential of the version asked for, or holds no credential. */
export function parseExecAnswer(plugin: ExecPlugin, text: string, nowMs: number): FreshMaterial {
  const bad = (why: string): Error => new Error(`the credential plugin ${plugin.command} answered ${why}`);
  let answer: {
    kind?: string;
    apiVersion?: string;
    status?: {
      token?: string;
      clientCertificateData?: string;
      clientKeyData?: string;
      expirationTimestamp?: string;
    };
  } | null;
  try {
    answer = JSON.parse(text);
  } catch {
    throw bad("something that is not JSON");
  }
  if (answer?.kind !== "ExecCredential") throw bad("something that is not an ExecCredential");
  if (answer.apiVersion !== plugin.apiVersion) throw bad(`with another version than ${plugin.apiVersion}`);
  const { token, clientCertificateData: cert, clientKeyData: key, expirationTimestamp } = answer.status ?? {};
  if (!token && !(cert && key)) throw bad("without a token and without a client certificate");
  const expiresAt =
    expirationTimestamp === undefined ? Number.POSITIVE_INFINITY : Date.parse(expirationTimestamp);
  if (Number.isNaN(expiresAt)) throw bad("with an expirationTimestamp that is no time");
  return {
    material: {
      ...(token ? { authorization: `Bearer ${token}` } : {}),
      ...(cert && key ? { certificate: { cert, key } } : {}),
    },
    ttlMs: Math.max(0, expiresAt - nowMs - EXPIRY_SKEW_MS),
  };
}
