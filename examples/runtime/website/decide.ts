import type { ConfigMap } from "@berth/kube";
import { hasFinalizer, mergeConditions } from "@berth/runtime";
import type { Website, WebsiteStatus } from "./website.ts";

/** Where pages are published, one ConfigMap for each host. */
export const PAGES = "websites";
/** On a page: `namespace/name` of its website. An owner reference cannot cross namespaces, hence the finalizer. */
export const OF = "example.com/website";
export const FINALIZER = "example.com/website";

export interface Observed {
  /** `undefined` when it is gone. */
  readonly site: Website | undefined;
  /** The pages that name this website as theirs. */
  readonly pages: readonly ConfigMap[];
  /** Whatever stands at the host of the website now, of any owner. */
  readonly atHost: ConfigMap | undefined;
}

/** What to do. Nothing at all means settled. */
export interface Decision {
  /** Added before the first page, so that none is forgotten; removed after the last. */
  readonly finalizer?: "add" | "remove";
  readonly publish?: ConfigMap;
  readonly withdraw: readonly ConfigMap[];
  readonly status?: WebsiteStatus;
}

export function decide({ site, pages, atHost }: Observed, nowMs: number): Decision {
  // A page that the cache did not show yet when its website went, or whose finalizer was taken off by hand.
  if (site === undefined) return { withdraw: pages };
  const guarded = hasFinalizer(site, FINALIZER);
  if (site.metadata?.deletionTimestamp !== undefined)
    return { withdraw: pages, ...(guarded && { finalizer: "remove" }) };
  if (!guarded) return { withdraw: [], finalizer: "add" };
  const taken = atHost !== undefined && atHost.metadata?.annotations?.[OF] !== nameOf(site);
  const asWanted = taken || atHost?.data?.["index.html"] === site.spec.html;
  const status = statusOf(site, taken, nowMs);
  return {
    ...(!asWanted && { publish: pageOf(site) }),
    withdraw: pages.filter((page) => page.metadata?.name !== site.spec.host),
    ...(status && { status }),
  };
}

/** `undefined` when it says so already. */
function statusOf(site: Website, taken: boolean, nowMs: number): WebsiteStatus | undefined {
  const { host } = site.spec;
  const conditions = mergeConditions(
    site.status?.conditions,
    [
      {
        type: "Ready",
        status: taken ? "False" : "True",
        reason: taken ? "HostTaken" : "Published",
        message: taken ? `${host} belongs to another owner` : `published at ${host}`,
        ...(site.metadata?.generation !== undefined && { observedGeneration: site.metadata.generation }),
      },
    ],
    nowMs,
  );
  const url = taken ? undefined : `https://${host}/`;
  if (conditions === site.status?.conditions && url === site.status?.url) return undefined;
  return { conditions, ...(url && { url }) };
}

function pageOf(site: Website): ConfigMap {
  const { host, html } = site.spec;
  return {
    metadata: { namespace: PAGES, name: host, annotations: { [OF]: nameOf(site) } },
    data: { "index.html": html },
  };
}

function nameOf({ metadata }: Website): string {
  return `${metadata?.namespace}/${metadata?.name}`;
}
