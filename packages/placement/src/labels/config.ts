import { z } from "zod";
import { isProtectedKey, labelKeyProblem } from "../node/validate.ts";

/** Options of the label rules. */
export interface LabelOptions {
  /**
   * Label keys (`node-role.kubernetes.io/edge`) and domains (`node-role.kubernetes.io`, without its subdomains) under
   * `kubernetes.io` or `k8s.io` that rules may write. Default: none, because a rule there can rewrite what Kubernetes
   * itself relies on, and later delete it.
   */
  readonly allowReserved: readonly string[];
  /**
   * How rule files are read. `Plain` (default): a label key a line, byte for byte, as the format has always been.
   * `Extended`: a label selector a line, with comments and values.
   */
  readonly format?: LabelFormat | undefined;
}

export const labelFormats = ["Plain", "Extended"] as const;
export type LabelFormat = (typeof labelFormats)[number];

const reserved: z.ZodType<string> = z.string().refine((entry) => {
  const key = entry.includes("/") ? entry : `${entry}/name`;
  return isProtectedKey(key) && labelKeyProblem(key) === undefined;
}, "must be a label key or a domain under kubernetes.io or k8s.io");

/** The one schema behind flags, files and reference documentation. */
export const labelOptionsSchema: z.ZodType<LabelOptions> = z
  .strictObject({
    allowReserved: z
      .array(reserved)
      .readonly()
      .default([])
      .describe("Label keys and domains under kubernetes.io or k8s.io that rules may write. Default: none."),
    format: z
      .enum(labelFormats)
      .default("Plain")
      .describe("Plain: a label key a line. Extended: a label selector a line, with comments and values."),
  })
  .readonly();

export const defaultLabelOptions: LabelOptions = Object.freeze({
  allowReserved: Object.freeze([]),
  format: "Plain",
});

/** May a rule write this key as far as reserved domains are concerned? */
export function isAllowedKey(key: string, options: Pick<LabelOptions, "allowReserved">): boolean {
  if (!isProtectedKey(key)) return true;
  const domain = key.slice(0, key.indexOf("/"));
  return options.allowReserved.includes(key) || options.allowReserved.includes(domain);
}
