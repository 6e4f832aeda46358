import type { ConnectOptions, KubeClient, Namespace } from "@berth/kube";
import { type ClusterAccess, type ClusterName, clusterName, type Logger } from "@berth/runtime";
import { describe, expect, it } from "vitest";
import { MILO, type Project } from "../../api/milo.ts";
import { aHubNamespace } from "../../hub/testing/fixtures.ts";
import type { HubConnections, ListedProject, Planes, ProjectPlane } from "./planes.ts";
import { ProjectMembers } from "./project-members.ts";
import { hub } from "./testing/hub-world.ts";
import { Objects } from "./testing/objects.ts";

/** A project of the list. */
const listed = (path: string): ListedProject => ({
  path,
  to: { server: `https://${path}` } as unknown as ConnectOptions,
});
const [web, shop] = [listed("acme/web"), listed("acme/shop")];

/** The server of Milo, which answers nothing. */
const milo = { under: (path: string) => ({ server: path }) } as unknown as KubeClient;

function aProject(name: string, ready: "True" | "False" | "Unknown", organisation?: string): Project {
  return {
    metadata: { name },
    spec: { ...(organisation && { ownerRef: { kind: "Organization", name: organisation } }) },
    status: {
      conditions: [{ type: "Ready", status: ready, reason: "R", message: "", lastTransitionTime: "" }],
    },
  };
}

/** The members of a process, of which only the memberships are told. */
async function world(projects: NonNullable<HubConnections["projects"]>, isHubRead = true) {
  const told: string[] = [];
  const uids = new Map<ClusterName, string>();
  let tell: (of: ClusterName) => void = () => undefined;
  const set = {
    subscribe: (handler: typeof tell) => void (tell = handler),
    get: (of: ClusterName) => (uids.has(of) ? { identity: uids.get(of) } : undefined),
    join(of: ClusterName, { to, identity }: ClusterAccess) {
      told.push(`${of} joins ${to.server}${identity === undefined ? "" : ` as ${identity}`}`);
    },
    leave(of: ClusterName) {
      told.push(`${of} leaves`);
      uids.delete(of);
      return Promise.resolve();
    },
  };
  const namespaces = new Objects<Namespace>(hub);
  namespaces.isRead = isHubRead;
  const discovered = new Objects<Project>(MILO);
  const projectNamed = new Map<string, ProjectPlane>();
  const planes = {
    hub: { set, name: hub },
    projects: set,
    projectNamed,
    views: { hub: { namespaces: namespaces.view }, discovered: discovered.view },
  } as unknown as Planes;
  const log = { warn: () => undefined, error: () => undefined } as unknown as Logger;
  const members = new ProjectMembers({ planes, projects, log });
  const component = members.component();
  await component.start(new AbortController().signal);
  const settle = async (): Promise<readonly string[]> => {
    await new Promise((resolve) => setImmediate(resolve));
    return told.splice(0);
  };
  return {
    namespaces,
    discovered,
    members,
    note: () => component.note?.(),
    paths: () => [...projectNamed.values()].map(({ path }) => path),
    looked: () => (members.look(), settle()),
    used: (list: readonly ListedProject[]) => (members.use(list), settle()),
    /** The first probe of a project has ended. */
    met: (name: string, uid: string) => {
      uids.set(clusterName(name), uid);
      tell(clusterName(name));
      return settle();
    },
    settle,
  };
}

describe("projects of a list", () => {
  it("join, leave and come back while Berth runs, and those that stay are left alone", async () => {
    const { settle, used, paths } = await world({ listed: [web, shop] });
    expect(await settle()).toEqual(["web joins https://acme/web", "shop joins https://acme/shop"]);
    expect(await used([web])).toEqual(["shop leaves"]);
    expect(paths()).toEqual(["acme/web"]);
    expect(await used([web, shop])).toEqual(["shop joins https://acme/shop"]);
  });

  it("take another connection, and keep what they are", async () => {
    const { settle, used, namespaces } = await world({ listed: [web] });
    await settle();
    namespaces.set(aHubNamespace({}, "uid-web"));
    const moved = { ...web, to: { server: "https://other" } as unknown as ConnectOptions };
    expect(await used([moved])).toEqual(["web joins https://other"]);
  });

  it("join when the hub is read, as the clusters that they were", async () => {
    const { settle, looked, namespaces } = await world({ listed: [web, shop] }, false);
    expect(await settle()).toEqual([]);
    namespaces.set(aHubNamespace({}, "uid-web"));
    namespaces.isRead = true;
    expect(await looked()).toEqual(["web joins https://acme/web as uid-web", "shop joins https://acme/shop"]);
  });
});

describe("two projects that are one cluster", () => {
  it("the second is left out, and may join once the first has left", async () => {
    const { settle, met, used, looked, paths, note } = await world({ listed: [web, shop] });
    await settle();
    await met("web", "uid-1");
    expect(await met("shop", "uid-1")).toEqual(["shop leaves"]);
    expect(await looked()).toEqual([]);
    expect(paths()).toEqual(["acme/web"]);
    expect(note()).toBe("projects with the cluster of another one: shop: give each its own");
    expect(await used([shop])).toEqual(["web leaves", "shop joins https://acme/shop"]);
    expect(note()).toBe(undefined);
  });

  it("the one that the hub knows stays, whichever answers first", async () => {
    const { settle, met, namespaces } = await world({ listed: [shop, web] });
    await settle();
    namespaces.set(aHubNamespace({}, "uid-1"));
    expect(await met("shop", "uid-1")).toEqual(["shop leaves"]);
    expect(await met("web", "uid-1")).toEqual([]);
  });

  it("the one that the hub knows stays, also where it is known after the other one answered", async () => {
    const { settle, met, namespaces } = await world({ listed: [shop, web] });
    await settle();
    expect(await met("shop", "uid-1")).toEqual([]);
    namespaces.set(aHubNamespace({}, "uid-1"));
    expect(await met("web", "uid-1")).toEqual(["shop leaves"]);
  });
});

describe("projects of Milo", () => {
  const under = (name: string): string =>
    `/apis/resourcemanager.miloapis.com/v1alpha1/projects/${name}/control-plane`;

  it("join once they are Ready, below the path of Milo, and leave when they are gone", async () => {
    const { settle, discovered, paths } = await world({ milo });
    discovered.set(aProject("web", "True", "acme"));
    discovered.set(aProject("shop", "Unknown", "acme"));
    discovered.set(aProject("not.a.label", "True"));
    expect(await settle()).toEqual([`web joins ${under("web")}`]);
    discovered.set(aProject("shop", "True"));
    expect(await settle()).toEqual([`shop joins ${under("shop")}`]);
    expect(paths()).toEqual(["acme/web", "shop"]);
    discovered.set(aProject("web", "False", "acme"));
    expect(await settle()).toEqual([]);
    discovered.delete(aProject("web", "False"));
    expect(await settle()).toEqual(["web leaves"]);
  });

  it("stay while Milo cannot be read", async () => {
    const { settle, discovered, looked } = await world({ milo });
    discovered.set(aProject("web", "True"));
    await settle();
    discovered.isRead = false;
    discovered.delete(aProject("web", "True"));
    expect(await looked()).toEqual([]);
  });
});
