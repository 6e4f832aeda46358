import { toRule } from "@berth/host";
import { type ApiError, describeRequest, isApiError, KubeconfigError } from "@berth/kube";
import { CommandError, type ExitCode, exitCodes } from "./exit-codes.ts";

export interface FailureText {
  /** One line: the failure and the next step. Never a stack, a header or a token. */
  readonly message: string;
  readonly exitCode: ExitCode;
}

/** Errors that already name the next step. Matched by name: the packages are loaded on demand. */
const FORESEEN: ReadonlySet<string> = new Set([
  "BuildFailedError",
  "ClusterExistsError",
  "ComponentFailedError",
  "MissingAssetsError",
  "SnapshotGap",
]);

/** The text to print for an error that ends a command. */
export function describeFailure(error: unknown): FailureText {
  if (error instanceof CommandError) return { message: error.message, exitCode: error.exitCode };
  if (error instanceof KubeconfigError) return { message: error.message, exitCode: exitCodes.cluster };
  if (isApiError(error)) return { message: describeApiError(error), exitCode: exitCodes.cluster };
  if (error instanceof Error && FORESEEN.has(error.name)) {
    return { message: error.message, exitCode: exitCodes.failed };
  }
  const text = error instanceof Error ? (error.stack ?? error.message) : String(error);
  return { message: `this is a fault in berth: ${text}`, exitCode: exitCodes.failed };
}

/** The message of the error and the next step. */
export function describeApiError(error: ApiError): string {
  const advice = adviceFor(error);
  return advice === undefined ? error.message : `${error.message}${rootCause(error)}; ${advice}`;
}

function adviceFor({ failure: { kind }, request }: ApiError): string | undefined {
  if (kind === "unreachable" || kind === "timeout") {
    return "is the cluster up, and is this the right kubeconfig and context?";
  }
  if (kind === "unauthorized" || kind === "credential") {
    return "get a new credential for this cluster, or choose another context";
  }
  if (kind === "forbidden") return `needed: ${toRule(request)} (berth manifests prints the roles)`;
  return undefined;
}

/** The text of the operating system (`connect ECONNREFUSED 127.0.0.1:6443`) if the message does not contain it. */
function rootCause(error: ApiError): string {
  let cause: unknown = error.cause;
  while (cause instanceof Error && cause.cause instanceof Error) cause = cause.cause;
  if (!(cause instanceof Error) || cause.message === "" || error.message.includes(cause.message)) return "";
  return ` (${cause.message.split("\n", 1)[0] ?? ""})`;
}

/** Describes a refused kind of request, for readiness. */
export function describeRefusal(error: ApiError): string {
  const { name: _name, ...request } = error.request;
  return `${describeRequest(request)} is forbidden: ${toRule(request)} is missing`;
}

/** A shell command that grants the refused right in all namespaces to the user in the server's message. */
export function grantCommand({ message, request: { verb, resource } }: ApiError): string {
  const user = /User "([^"]+)"/.exec(message)?.[1] ?? "NAME";
  const [, account] = /^system:serviceaccount:([-a-z0-9]+:[-.a-z0-9]+)$/.exec(user) ?? [];
  const to = account ? `--serviceaccount=${account}` : `--user='${user.replaceAll("'", `'\\''`)}'`;
  const role = `berth-${verb}-${resource}`;
  return (
    `kubectl create clusterrole ${role} --verb=${verb} --resource=${resource} && ` +
    `kubectl create clusterrolebinding ${role} --clusterrole=${role} ${to}`
  );
}
