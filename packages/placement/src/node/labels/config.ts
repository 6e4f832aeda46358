import { z } from "zod";
import { isProtectedKey, labelKeyProblem } from "../validate.ts";

/** Options of the label rules. */
export interface LabelOptions {
  /**
   * Label keys (`node-role.kubernetes.io/edge`) and domains (`node-role.kubernetes.io`, without its subdomains) under
   * `kubernetes.io` or `k8s.io` that rules may write. Default: none, because a rule there can rewrite what Kubernetes
   * itself relies on, and later delete it.
   */
  readonly allowReserved: readonly string[];
}

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
  })
  .readonly();

export const defaultLabelOptions: LabelOptions = Object.freeze({ allowReserved: Object.freeze([]) });

/** May a rule write this key as far as reserved domains are concerned? */
export function isAllowedKey(key: string, options: LabelOptions): boolean {
  if (!isProtectedKey(key)) return true;
  const domain = key.slice(0, key.indexOf("/"));
  return options.allowReserved.includes(key) || options.allowReserved.includes(domain);
}
