import type { FactObserver, RegistryRequest } from "@berth/registry";
import type { MetricsRegistry } from "@berth/runtime";

/**
 * Metrics of image lookups. Image and registry names are no labels, because tenants choose them.
 *
 * @param countFacts read at each scrape.
 */
export function createImageMetrics(
  registry: MetricsRegistry,
  countFacts: () => { readonly tags: number; readonly digests: number },
): Omit<FactObserver, "listenerFailed"> & { readonly onRequest: (request: RegistryRequest) => void } {
  const requests = registry.counter<"kind" | "code">({
    name: "berth_registry_requests_total",
    help: "Requests to image registries, redirects and tokens included, by status code; `none` without an answer.",
    labels: ["kind", "code"],
  });
  const questions = registry.counter<"outcome">({
    name: "berth_image_questions_total",
    help: "Images requested from registries, by outcome: read, renewed (the tag has not moved), or the kind of failure.",
    labels: ["outcome"],
  });
  const looks = registry.counter<"state">({
    name: "berth_image_looks_total",
    help: "Lookups of images answered from memory, by result.",
    labels: ["state"],
  });
  registry.gauge<"by">({
    name: "berth_image_facts",
    help: "Images with known architectures, by tag or by digest.",
    labels: ["by"],
    collect(gauge) {
      const { tags, digests } = countFacts();
      gauge.set(tags, { by: "tag" });
      gauge.set(digests, { by: "digest" });
    },
  });
  return {
    onRequest: ({ kind, status }) =>
      requests.inc({ kind, code: status === undefined ? "none" : codeOf(status) }),
    looked: (state) => looks.inc({ state }),
    asked: (outcome) => questions.inc({ outcome }),
  };
}

/** A registry may answer with any number: only known HTTP codes get their own series. */
function codeOf(status: number): string {
  const isKnown = [
    200, 206, 301, 302, 303, 307, 308, 400, 401, 403, 404, 405, 429, 500, 502, 503, 504,
  ].includes(status);
  return isKnown ? String(status) : `${Math.trunc(status / 100)}xx`;
}
