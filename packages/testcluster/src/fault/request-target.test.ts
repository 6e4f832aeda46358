import { describe, expect, it } from "vitest";
import { parseRequestTarget, type RequestTarget } from "./request-target.ts";

type Expected = Partial<Omit<RequestTarget, "method" | "path" | "query">>;

const NOTHING = { group: "", version: "", resource: "", subresource: "", namespace: "", name: "" };

const cases: readonly [what: string, request: string, expected: Expected][] = [
  [
    "a cluster-scoped object",
    "GET /api/v1/nodes/n1",
    { verb: "get", version: "v1", resource: "nodes", name: "n1" },
  ],
  [
    "a HEAD of an object",
    "HEAD /api/v1/nodes/n1",
    { verb: "get", version: "v1", resource: "nodes", name: "n1" },
  ],
  [
    "a cluster-scoped list",
    "GET /api/v1/nodes?limit=500",
    { verb: "list", version: "v1", resource: "nodes" },
  ],
  ["a list over all namespaces", "GET /api/v1/pods", { verb: "list", version: "v1", resource: "pods" }],
  [
    "a list in one namespace",
    "GET /api/v1/namespaces/kube-system/pods",
    { verb: "list", version: "v1", resource: "pods", namespace: "kube-system" },
  ],
  ["a watch", "GET /api/v1/nodes?watch=1", { verb: "watch", version: "v1", resource: "nodes" }],
  [
    "a watch asked for with true",
    "GET /api/v1/nodes?watch=true",
    { verb: "watch", version: "v1", resource: "nodes" },
  ],
  [
    "a watch with an empty value",
    "GET /api/v1/nodes?watch",
    { verb: "watch", version: "v1", resource: "nodes" },
  ],
  [
    "watch=False is a list",
    "GET /api/v1/nodes?watch=False",
    { verb: "list", version: "v1", resource: "nodes" },
  ],
  ["watch=0 is a list", "GET /api/v1/nodes?watch=0", { verb: "list", version: "v1", resource: "nodes" }],
  [
    "watch on a named object is a get",
    "GET /api/v1/nodes/n1?watch=1",
    { verb: "get", version: "v1", resource: "nodes", name: "n1" },
  ],
  [
    "a watch of one object by field selector",
    "GET /api/v1/namespaces/ns/pods?watch=1&fieldSelector=spec.nodeName%3Dx%2Cmetadata.name%3Dp1",
    { verb: "watch", version: "v1", resource: "pods", namespace: "ns", name: "p1" },
  ],
  [
    "a field selector that excludes a name",
    "GET /api/v1/nodes?fieldSelector=metadata.name%21%3Dn1",
    { verb: "list", version: "v1", resource: "nodes" },
  ],
  [
    "the old watch path",
    "GET /api/v1/watch/namespaces/ns/pods/p1",
    { verb: "watch", version: "v1", resource: "pods", namespace: "ns", name: "p1" },
  ],
  [
    "a create in a group",
    "POST /apis/apps/v1/namespaces/ns/deployments?dryRun=All",
    { verb: "create", group: "apps", version: "v1", resource: "deployments", namespace: "ns" },
  ],
  ["a patch", "PATCH /api/v1/nodes/n1", { verb: "patch", version: "v1", resource: "nodes", name: "n1" }],
  [
    "an update of a status",
    "PUT /api/v1/nodes/n1/status",
    { verb: "update", version: "v1", resource: "nodes", name: "n1", subresource: "status" },
  ],
  [
    "a scale",
    "PATCH /apis/apps/v1/namespaces/ns/deployments/x/scale",
    {
      verb: "patch",
      group: "apps",
      version: "v1",
      resource: "deployments",
      namespace: "ns",
      name: "x",
      subresource: "scale",
    },
  ],
  [
    "an eviction",
    "POST /api/v1/namespaces/ns/pods/p1/eviction",
    { verb: "create", version: "v1", resource: "pods", namespace: "ns", name: "p1", subresource: "eviction" },
  ],
  ["a delete", "DELETE /api/v1/nodes/n1", { verb: "delete", version: "v1", resource: "nodes", name: "n1" }],
  [
    "a delete of a collection",
    "DELETE /apis/coordination.k8s.io/v1/namespaces/ns/leases",
    {
      verb: "deletecollection",
      group: "coordination.k8s.io",
      version: "v1",
      resource: "leases",
      namespace: "ns",
    },
  ],
  ["all namespaces", "GET /api/v1/namespaces", { verb: "list", version: "v1", resource: "namespaces" }],
  [
    "a namespace itself",
    "GET /api/v1/namespaces/ns",
    { verb: "get", version: "v1", resource: "namespaces", namespace: "ns", name: "ns" },
  ],
  [
    "the finalize subresource of a namespace",
    "PUT /api/v1/namespaces/ns/finalize",
    {
      verb: "update",
      version: "v1",
      resource: "namespaces",
      namespace: "ns",
      name: "ns",
      subresource: "finalize",
    },
  ],
  [
    "a proxied service, whose rest is no subresource",
    "GET /api/v1/proxy/namespaces/ns/services/s1/metrics",
    { verb: "proxy", version: "v1", resource: "services", namespace: "ns", name: "s1" },
  ],
  [
    "an escaped name",
    "GET /apis/rbac.authorization.k8s.io/v1/clusterroles/system%3Anode/",
    {
      verb: "get",
      group: "rbac.authorization.k8s.io",
      version: "v1",
      resource: "clusterroles",
      name: "system:node",
    },
  ],
  ["discovery of a group", "GET /apis/apps/v1", { verb: "get" }],
  ["discovery of the core", "GET /api/v1", { verb: "get" }],
  ["the version", "GET /version?timeout=32s", { verb: "get" }],
  ["the root", "GET /", { verb: "get" }],
  ["a post to no resource", "POST /api", { verb: "post" }],
  ["an unfinished watch path", "GET /api/v1/watch", { verb: "get" }],
  ["a path with broken escapes", "GET /readyz/%E0%A4%A", { verb: "get" }],
];

describe("parseRequestTarget", () => {
  it.each(cases)("reads %s: %s", (_what, request, expected) => {
    const [method = "", path = ""] = request.split(" ");
    const { query, ...target } = parseRequestTarget(method, path);
    expect(target).toEqual({ method, path, ...NOTHING, ...expected });
    expect(query).toBeInstanceOf(URLSearchParams);
  });
});
