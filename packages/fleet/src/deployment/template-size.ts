/** How large templates may be: each Instance, its Pod and each cache has a copy. */
import { parseQuantity } from "@berth/runtime";
import type { FleetSpec, TemplateLimits } from "../fleet/document.ts";

/** Bytes. */
export interface SizeLimits {
  /** Of one template. */
  readonly template: number;
  /** Of the template times the Instances. */
  readonly total: number;
}

export function sizeLimits({ maxSize, maxTotal }: Pick<TemplateLimits, "maxSize" | "maxTotal">): SizeLimits {
  return { template: bytesOf(maxSize), total: bytesOf(maxTotal) };
}

/** For deployments that another cluster handed down: no review of this cluster has seen their Workload. */
export function handedDownLimits({ mode, template }: FleetSpec): SizeLimits | undefined {
  return mode === "cell" ? sizeLimits(template) : undefined;
}

/** Bytes of the template as JSON. */
export function templateSize(template: unknown): number {
  return template === undefined ? 0 : Buffer.byteLength(JSON.stringify(template));
}

/** What is too large, for the user. */
export function sizeProblems(size: number, instances: number, limits: SizeLimits): readonly string[] {
  const total = size * instances;
  return [
    size > limits.template &&
      `the template has ${size} bytes of JSON, and may have ${limits.template}: move data to ConfigMaps`,
    total > limits.total &&
      `the template of ${size} bytes times ${instances} Instances is ${total} bytes, and may be ${limits.total}: use a smaller template or fewer Instances`,
  ].filter((it) => it !== false);
}

function bytesOf(quantity: string): number {
  return Number((parseQuantity(quantity) ?? 0n) / 1_000_000_000n);
}
