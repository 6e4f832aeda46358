import path from "node:path";
import type { DocumentKind } from "@berth/host";
import { z } from "zod";
import { isProtectedKey, labelKeyProblem } from "../node/validate.ts";

/** Options of the label rules, with the defaults of the schema. */
export interface LabelOptions {
  /**
   * Label keys (`node-role.kubernetes.io/edge`) and domains (`node-role.kubernetes.io`, without its subdomains).
   * Default: none. A rule for such a key can change and later delete labels that Kubernetes itself needs.
   */
  readonly allowReserved: readonly string[];
  /** `Plain` lines are compared byte for byte. */
  readonly format?: LabelFormat | undefined;
}

export const labelFormats = ["Plain", "Extended"] as const;
export type LabelFormat = (typeof labelFormats)[number];

const reserved: z.ZodType<string> = z.string().refine((entry) => {
  const key = entry.includes("/") ? entry : `${entry}/name`;
  return isProtectedKey(key) && labelKeyProblem(key) === undefined;
}, "must be a label key or a domain under kubernetes.io or k8s.io");

const options = z.strictObject({
  allowReserved: z
    .array(reserved)
    .readonly()
    .default([])
    .describe("Label keys and domains under kubernetes.io or k8s.io that rules may write. Default: none."),
  format: z
    .enum(labelFormats)
    .default("Plain")
    .describe("Plain: a label key a line. Extended: a label selector a line, with comments and values."),
});

/** The one schema behind flags, files and reference documentation. */
export const labelOptionsSchema: z.ZodType<LabelOptions> = options.readonly();

export interface LabelFolderSource {
  /** Absolute. */
  readonly path: string;
  /** As the user wrote it, for messages. */
  readonly shown: string;
  readonly options: LabelOptions;
}

/** `LabelFolder`, a document of files: label rules come from a folder as `--label-dir` takes it. */
export const labelFolderKind: DocumentKind<LabelFolderSource> = {
  kind: "LabelFolder",
  spec: z
    .strictObject({ path: z.string().min(1, "must not be empty"), ...options.shape })
    .transform(({ path: shown, ...given }) => ({ path: shown, shown, options: given })),
  placed: ({ shown, options: given }, { folder, file }) => ({
    path: path.resolve(folder, shown),
    shown: `${shown} (${file})`,
    options: given,
  }),
  tooMany: ({ spec: { shown } }) => ({
    reason: "TooManyLabelFolders",
    message: `there can be one label folder, and there is already ${shown}`,
  }),
};

export const defaultLabelOptions: LabelOptions = Object.freeze(labelOptionsSchema.parse({}));

/** False for a key in a reserved domain that the user has not allowed. */
export function isAllowedKey(key: string, options: Pick<LabelOptions, "allowReserved">): boolean {
  if (!isProtectedKey(key)) return true;
  const domain = key.slice(0, key.indexOf("/"));
  return options.allowReserved.includes(key) || options.allowReserved.includes(domain);
}
