import { type ApiError, describeRequest, isApiError } from "@berth/kube";

/** Why something could not be done, for `problem`: in one line, and naming the right when one is missing. */
export function describeProblem(error: unknown): string {
  if (isApiError(error, "forbidden"))
    return `${describeRequest(error.request)} is refused: ${missingRight(error)}`;
  return error instanceof Error ? error.message : String(error);
}

/** `verb "create" on "secrets" in namespace "berth-system" is missing`: what an administrator has to grant. */
function missingRight({ message, request: { verb, resource, subresource, namespace } }: ApiError): string {
  const what = subresource === undefined ? resource : `${resource}/${subresource}`;
  // An apply that would make the object is refused for the verb "create", though it was sent as a "patch".
  const [, refused = verb] = /\bcannot ([a-z]+) resource\b/.exec(message) ?? [];
  return `verb "${refused}" on "${what}"${namespace ? ` in namespace "${namespace}"` : ""} is missing`;
}
