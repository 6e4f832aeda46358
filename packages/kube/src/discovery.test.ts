import { describe, expect, it } from "vitest";
import type { RequestOptions } from "./client.ts";
import { type KindName, MISS_MS, ResourceDirectory } from "./discovery.ts";
import { ApiError, type ApiFailure } from "./failure.ts";
import { deployments } from "./generated/resources.ts";

const apps = {
  kind: "APIResourceList",
  groupVersion: "apps/v1",
  resources: [
    { name: "deployments", kind: "Deployment", namespaced: true },
    { name: "deployments/scale", group: "autoscaling", version: "v1", kind: "Scale", namespaced: true },
  ],
};
const deployment: KindName = { group: "apps", version: "v1", kind: "Deployment" };

/** A server that serves these documents, and its directory on a clock of our own. */
class World {
  readonly documents = new Map<string, unknown>([["/apis/apps/v1", apps]]);
  readonly asked: string[] = [];
  now = 0;
  failure: ApiFailure | undefined;
  readonly directory = new ResourceDirectory({
    client: { read: (path, options) => this.#read(path, options) },
    monotonic: () => this.now,
  });

  async #read(path: string, { signal }: RequestOptions = {}): Promise<string> {
    this.asked.push(path);
    const request = { verb: "get", resource: path } as const;
    await Promise.resolve();
    if (signal?.aborted) throw new ApiError({ kind: "aborted" }, request);
    if (this.failure !== undefined) throw new ApiError(this.failure, request);
    if (!this.documents.has(path)) throw new ApiError({ kind: "notFound" }, request);
    return JSON.stringify(this.documents.get(path));
  }
}

describe("the directory of resources", () => {
  it("finds the resource of a kind, by one request for a group version, also for many at once", async () => {
    const world = new World();
    const found = await Promise.all([1, 2, 3].map(() => world.directory.ofKind(deployment)));
    for (const resource of found) expect(resource).toEqual(deployments);
    expect(await world.directory.ofKind(deployment)).toEqual(deployments);
    expect(world.asked).toEqual(["/apis/apps/v1"]);
  });

  it("asks nothing again of a group that is known not to have a kind", async () => {
    const world = new World();
    world.documents.set("/apis/apps", { preferredVersion: { version: "v1" } });
    for (let at = 0; at < 100; at += 1)
      await world.directory.ofKind({ group: "apps", version: "v1", kind: "Forged" });
    expect(world.asked).toEqual(["/apis/apps/v1", "/apis/apps"]);
  });

  it("finds kinds of the core group, and those that belong to no namespace", async () => {
    const world = new World();
    world.documents.set("/api/v1", { resources: [{ name: "nodes", kind: "Node", namespaced: false }] });
    expect(await world.directory.ofKind({ group: "", version: "v1", kind: "Node" })).toMatchObject({
      plural: "nodes",
      namespaced: false,
    });
    expect(await world.directory.ofKind({ group: "", version: "v1", kind: "Nothing" })).toBeUndefined();
    expect(world.asked).toEqual(["/api/v1"]);
  });

  it("takes the preferred version for one that is no longer served", async () => {
    const world = new World();
    world.documents.set("/apis/apps", { preferredVersion: { groupVersion: "apps/v1", version: "v1" } });
    expect(await world.directory.ofKind({ ...deployment, version: "v1beta1" })).toEqual(deployments);
    expect(world.asked).toEqual(["/apis/apps/v1beta1", "/apis/apps", "/apis/apps/v1"]);
  });

  it("says that there is no such kind, and looks again for one that comes later", async () => {
    const world = new World();
    const pool: KindName = { group: "ate.dev", version: "v1alpha1", kind: "WorkerPool" };
    expect(await world.directory.ofKind(pool)).toBeUndefined();
    world.documents.set("/apis/ate.dev/v1alpha1", {
      resources: [{ name: "workerpools", kind: "WorkerPool", namespaced: true }],
    });
    world.now = MISS_MS - 1;
    expect(await world.directory.ofKind(pool)).toBeUndefined();
    world.now = MISS_MS;
    expect(await world.directory.ofKind(pool)).toMatchObject({ plural: "workerpools" });
  });

  it("does not take a subresource, nor what is no list, for a resource", async () => {
    const world = new World();
    expect(await world.directory.ofKind({ ...deployment, kind: "Scale" })).toBeUndefined();
    world.documents.set("/apis/odd/v1", { resources: [null, 7, { name: "things" }, { kind: "Thing" }] });
    world.documents.set("/apis/odd/v2", { resources: "none" });
    for (const version of ["v1", "v2"])
      expect(await world.directory.ofKind({ group: "odd", version, kind: "Thing" })).toBeUndefined();
  });

  it.each<Partial<KindName>>([
    { group: ".." },
    { group: "a/b" },
    { version: ".." },
    { version: "v1?x" },
    { version: "" },
    { group: "x".repeat(300) },
  ])("asks the server nothing for %j, which names no group version", async (name) => {
    const world = new World();
    expect(await world.directory.ofKind({ ...deployment, ...name })).toBeUndefined();
    expect(world.asked).toEqual([]);
  });

  it("fails when the server does not say, and asks again the next time", async () => {
    const world = new World();
    world.failure = { kind: "serverError", status: 503 };
    await expect(world.directory.ofKind(deployment)).rejects.toThrow(ApiError);
    world.failure = undefined;
    expect(await world.directory.ofKind(deployment)).toEqual(deployments);
  });
});
