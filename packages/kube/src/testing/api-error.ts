import { type ApiError, type ApiFailure, isApiError } from "../failure.ts";

/** The error with which a request failed. @throws Error when it did not fail, or with another error. */
export async function errorOf(request: Promise<unknown>): Promise<ApiError> {
  const error = await request.then(
    () => undefined,
    (reason: unknown) => reason,
  );
  if (isApiError(error)) return error;
  throw new Error("it did not fail with an ApiError", { cause: error });
}

/** As which failure a request failed. @throws Error as `errorOf` does. */
export async function failureOf(request: Promise<unknown>): Promise<ApiFailure> {
  return (await errorOf(request)).failure;
}
