import { type ApiError, describeRequest, isApiError } from "@berth/kube";

/** Why an operation failed, for `problem`: one line, which names a missing permission. */
export function describeProblem(error: unknown): string {
  if (isApiError(error, "forbidden"))
    return `${describeRequest(error.request)} is refused: ${missingRight(error)}`;
  return error instanceof Error ? error.message : String(error);
}

/** `verb "create" on "secrets" in namespace "berth-system" is missing`: what the administrator must grant. */
function missingRight({ message, request: { verb, resource, subresource, namespace } }: ApiError): string {
  const what = subresource === undefined ? resource : `${resource}/${subresource}`;
  // For an apply of a new object the server checks the verb "create", though the request is a "patch".
  const [, refused = verb] = /\bcannot ([a-z]+) resource\b/.exec(message) ?? [];
  return `verb "${refused}" on "${what}"${namespace ? ` in namespace "${namespace}"` : ""} is missing`;
}
