/**
 * An API server for each of many clusters, behind paths of one address. It keeps no objects: it makes each one when it is
 * asked for, and remembers those that were changed. What it does not know, a real API server answers.
 */
import { once } from "node:events";
import type { IncomingMessage } from "node:http";
import { createSecureServer, type Http2ServerRequest, type Http2ServerResponse } from "node:http2";
import { request } from "node:https";
import type { KubeObject } from "@berth/kube";
import type { KeyPair } from "@berth/testcluster";
import { applyMergePatch } from "../packages/fleet/src/workload/merge-patch.ts";

/** Objects of one kind. */
export interface Collection {
  readonly count: number;
  /** JSON. */
  text(index: number): string;
  /** `undefined`: there is none of this name. */
  indexOf(namespace: string, name: string): number | undefined;
}

export interface SimulatedPlane {
  /** By the path of all of a kind: `/apis/compute.datumapis.com/v1alpha/instances`. */
  readonly collections: ReadonlyMap<string, Collection>;
  /** What is asked of single objects and is in no collection, as JSON. */
  answer(path: string, query: URLSearchParams): string | undefined;
  /** Answers everything else. */
  readonly behind: { readonly url: string; readonly ca: string; readonly token: string };
}

export interface SimulatedWire extends AsyncDisposable {
  /** `https://127.0.0.1:1234` */
  readonly origin: string;
  /** Creations, changes and deletions so far, of objects of collections and of others. */
  readonly writes: readonly string[];
  /** Changes an object as its writer would, and tells those who watch it. */
  change(plane: string, collection: string, index: number, body: object): void;
}

type Path = { readonly collection: string; readonly namespace: string; readonly name: string };

/** `/apis/G/V[/namespaces/N]/PLURAL[/NAME][/status]` */
const PATH =
  /^(\/api\/v1|\/apis\/[^/]+\/[^/]+)(?:\/namespaces\/([^/]+))?\/([^/]+)(?:\/([^/]+))?(?:\/status)?$/;
/** Of objects that nobody has changed. */
const FIRST_VERSION = 1000;
const BOOKMARK_MS = 30_000;

/** @param planes by the first part of their paths. */
export async function startSimulatedWire(
  { certificate, key }: KeyPair,
  planes: (origin: string) => ReadonlyMap<string, SimulatedPlane>,
): Promise<SimulatedWire> {
  const changed = new Map<string, KubeObject>();
  const watches = new Map<string, Set<Http2ServerResponse>>();
  const writes: string[] = [];
  let version = FIRST_VERSION;
  let known: ReadonlyMap<string, SimulatedPlane> = new Map();

  const find = (plane: SimulatedPlane, path: Path): number | undefined =>
    plane.collections.get(path.collection)?.indexOf(path.namespace, path.name);
  const textOf = (of: string, plane: SimulatedPlane, { collection }: Path, index: number): string => {
    const own = changed.get(`${of} ${collection} ${index}`);
    return own === undefined ? (plane.collections.get(collection)?.text(index) ?? "") : JSON.stringify(own);
  };
  const change = (of: string, collection: string, index: number, body: object): KubeObject => {
    const plane = known.get(of);
    if (plane === undefined) throw new Error(`there is no plane ${of}`);
    const before = JSON.parse(
      textOf(of, plane, { collection, namespace: "", name: "" }, index),
    ) as KubeObject;
    version += 1;
    const { metadata, ...rest } = body as KubeObject;
    const merged = applyMergePatch(before, {
      ...rest,
      metadata: { ...metadata, resourceVersion: `${version}` },
    });
    changed.set(`${of} ${collection} ${index}`, merged as KubeObject);
    const line = `${JSON.stringify({ type: "MODIFIED", object: merged })}\n`;
    for (const watch of watches.get(`${of} ${collection}`) ?? []) watch.write(line);
    return merged as KubeObject;
  };

  function list(
    of: string,
    plane: SimulatedPlane,
    path: Path,
    query: URLSearchParams,
    res: Http2ServerResponse,
  ): void {
    const { count } = plane.collections.get(path.collection) as Collection;
    const from = Number(query.get("continue") ?? 0);
    const to = Math.min(count, from + Number(query.get("limit") ?? count));
    const metadata = JSON.stringify({
      resourceVersion: `${version}`,
      ...(to < count && { continue: `${to}` }),
    });
    const items = Array.from({ length: to - from }, (_, at) => textOf(of, plane, path, from + at));
    res.end(`{"apiVersion":"v1","kind":"List","metadata":${metadata},"items":[${items.join(",")}]}`);
  }

  function watch(of: string, { collection }: Path, query: URLSearchParams, res: Http2ServerResponse): void {
    if (query.get("sendInitialEvents") === "true") return refuse(res, 422, "Invalid");
    const key = `${of} ${collection}`;
    const all = watches.get(key) ?? new Set();
    watches.set(key, all.add(res));
    const bookmark = setInterval(() => {
      const object = { metadata: { resourceVersion: `${version}` } };
      res.write(`${JSON.stringify({ type: "BOOKMARK", object })}\n`);
    }, BOOKMARK_MS);
    const end = setTimeout(() => res.end(), Number(query.get("timeoutSeconds") ?? 300) * 1000);
    res.on("close", () => {
      clearInterval(bookmark);
      clearTimeout(end);
      all.delete(res);
    });
    res.writeHead(200, { "content-type": "application/json" });
  }

  async function answer(req: Http2ServerRequest, res: Http2ServerResponse): Promise<void> {
    const { pathname, searchParams: query, search } = new URL(req.url, "https://simulated");
    const [, of = "", rest = ""] = /^\/([^/]+)(\/.*)$/.exec(pathname) ?? [];
    const plane = known.get(of);
    if (plane === undefined) return refuse(res, 404, "NotFound");
    res.setHeader("content-type", "application/json");
    const isRead = req.method === "GET";
    const single = isRead ? plane.answer(rest, query) : undefined;
    if (single !== undefined) return void res.end(single);
    const [, group = "", namespace = "", plural = "", name = ""] = PATH.exec(rest) ?? [];
    const path = { collection: `${group}/${plural}`, namespace, name };
    const isOurs = plane.collections.has(path.collection);
    if (!isRead && !/(?:leases|events|reviews)$/.test(plural)) writes.push(`${req.method} ${rest}`);
    if (isOurs && isRead && name === "")
      return query.get("watch") ? watch(of, path, query, res) : list(of, plane, path, query, res);
    const index = isOurs ? find(plane, path) : undefined;
    if (index !== undefined && isRead) return void res.end(textOf(of, plane, path, index));
    if (index !== undefined && req.method === "PATCH")
      return void res.end(JSON.stringify(change(of, path.collection, index, JSON.parse(await bodyOf(req)))));
    await forward(plane.behind, req, `${rest}${search}`, res);
  }

  // As an API server keeps connections (`http.Server.IdleTimeout`): by default each probe would make a new one.
  const how = { allowHTTP1: true, http1Options: { keepAliveTimeout: 90_000 } };
  const server = createSecureServer({ cert: certificate, key, ...how }, (req, res) => {
    answer(req, res).catch((error: unknown) => refuse(res, 500, String(error)));
  });
  await new Promise<void>((resolve) => server.listen(0, "127.0.0.1", resolve));
  const address = server.address();
  const origin = `https://127.0.0.1:${typeof address === "object" ? address?.port : ""}`;
  known = planes(origin);
  return {
    origin,
    writes,
    change,
    async [Symbol.asyncDispose]() {
      for (const all of watches.values()) for (const res of all) res.end();
      await new Promise((resolve) => {
        server.close(resolve);
        setTimeout(resolve, 1_000).unref();
      });
    },
  };
}

async function bodyOf(req: Http2ServerRequest): Promise<string> {
  const chunks: Buffer[] = [];
  for await (const chunk of req) chunks.push(chunk as Buffer);
  return Buffer.concat(chunks).toString("utf8");
}

async function forward(
  { url, ca, token }: SimulatedPlane["behind"],
  req: Http2ServerRequest,
  path: string,
  res: Http2ServerResponse,
): Promise<void> {
  const headers: Record<string, string> = { authorization: `Bearer ${token}` };
  for (const name of ["accept", "content-type"]) {
    const value = req.headers[name];
    if (typeof value === "string") headers[name] = value;
  }
  const passed = request(`${url}${path}`, { method: req.method, headers, ca });
  res.on("close", () => passed.destroy());
  passed.on("error", () => res.end());
  passed.end(req.method === "GET" ? undefined : await bodyOf(req));
  const [answer] = (await once(passed, "response")) as [IncomingMessage];
  res.writeHead(answer.statusCode ?? 500, {
    "content-type": answer.headers["content-type"] ?? "application/json",
  });
  answer.on("error", () => res.end());
  answer.pipe(res);
}

function refuse(res: Http2ServerResponse, code: number, reason: string): void {
  if (!res.headersSent) res.writeHead(code, { "content-type": "application/json" });
  res.end(
    JSON.stringify({ kind: "Status", apiVersion: "v1", status: "Failure", code, reason, message: reason }),
  );
}
