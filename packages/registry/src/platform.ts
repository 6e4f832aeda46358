/** The platform of an image, in the words of Go and of `kubernetes.io/arch`: `linux`, `arm64`, `v8`. */

/** One platform of an image. */
export interface Platform {
  readonly os: string;
  readonly architecture: string;
  /** `v7` for `arm`; absent where the image names none. */
  readonly variant?: string;
  /** For Windows images: `10.0.20348.2031`. */
  readonly osVersion?: string;
}

/** `linux/arm/v7` */
export function platformText({ os, architecture, variant }: Platform): string {
  return [os, architecture, variant].filter((part) => part !== undefined && part !== "").join("/");
}
