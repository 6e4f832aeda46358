/** The message for a user whose image cannot be read: the image, the server, why, and the remedy. */
import { type ExchangeError, speaksPlain } from "./exchange-error.ts";
import { RegistryError, type RegistryFailureKind } from "./failure.ts";
import { referenceText } from "./reference.ts";
import type { ImageReference } from "./types.ts";

export interface Circumstances {
  readonly reference: ImageReference;
  /** The host that failed last. */
  readonly host: string;
  /** The one that asks. */
  readonly program: string;
  /** Where its registries are configured. */
  readonly settings: string;
  /** The number of credentials tried. */
  readonly credentials: number;
  /** Mirrors that failed before it. */
  readonly mirrors: readonly string[];
}

export function explain(error: ExchangeError, about: Circumstances): RegistryError {
  const { kind, retryAfterMs, elsewhere } = error;
  const image = referenceText(about.reference);
  const mirrors = about.mirrors.length === 0 ? "" : ` (and before it ${about.mirrors.join(", ")} failed)`;
  const isPlain = speaksPlain(error);
  const advice = isPlain ? plainHttp(about) : adviceFor(kind, about, retryAfterMs);
  // Nearly always the same words: details would show a tenant what listens in Berth's network.
  const why =
    kind === "unreachable" && !isPlain
      ? `${about.host}, or a server that it names, cannot be reached`
      : error.why;
  const message = `${image} cannot be read: ${why}${mirrors}${advice === undefined ? "" : `. ${advice}`}`;
  const waiting = retryAfterMs === undefined ? {} : { retryAfterMs };
  return new RegistryError(kind, message, { registry: about.host, elsewhere, ...waiting });
}

function plainHttp({ settings }: Circumstances): string {
  return `If it speaks plain http, set plainHttp of this registry in ${settings}`;
}

function adviceFor(
  kind: RegistryFailureKind,
  { reference: { registry }, credentials, program }: Circumstances,
  retryAfterMs: number | undefined,
): string | undefined {
  const refused = kind === "unauthorized" || kind === "forbidden";
  if (refused && credentials === 0)
    return (
      `The image does not exist, or it is private: check its name, or give credentials for ${registry}: an ` +
      "imagePullSecret of the pod or its service account, or a credential plugin"
    );
  if (refused)
    return (
      `None of the credentials given (${credentials}) may read it: check the imagePullSecrets and the ` +
      `credential plugins for ${registry}, and that the image exists`
    );
  if (kind === "notFound") return "Check its name, tag and digest";
  if (kind === "unreachable")
    return `Check that ${program} can reach this registry (its log says why not), or configure a mirror of it`;
  if (kind !== "rateLimited") return undefined;
  const again =
    retryAfterMs === undefined ? "" : `It may be asked again in ${Math.ceil(retryAfterMs / 1000)} s. `;
  return `${again}An imagePullSecret for ${registry} or a mirror may raise the limit`;
}
