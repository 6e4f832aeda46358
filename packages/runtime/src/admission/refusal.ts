import { type ApiError, describeRequest, isApiError } from "@berth/kube";

/** Why something could not be done, for `problem`: in one line, and naming the right when one is missing. */
export function describeProblem(error: unknown): string {
  if (isApiError(error, "forbidden"))
    return `${describeRequest(error.request)} is refused: ${missingRight(error)}`;
  return error instanceof Error ? error.message : String(error);
}

/** `verb "create" on "secrets" in namespace "berth-system" is missing`: what an administrator has to grant. */
function missingRight({ request: { verb, resource, subresource, namespace } }: ApiError): string {
  const what = subresource === undefined ? resource : `${resource}/${subresource}`;
  return `verb "${verb}" on "${what}"${namespace ? ` in namespace "${namespace}"` : ""} is missing`;
}
