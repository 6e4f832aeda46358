import { expect, it } from "vitest";
import { parseRequestTarget, type RequestTarget } from "./request-target.ts";

const cases: readonly [what: string, request: string, expected: string][] = [
  ["a cluster-scoped object", "GET /api/v1/nodes/n1", "get v1 nodes named n1"],
  ["a HEAD of an object", "HEAD /api/v1/nodes/n1", "get v1 nodes named n1"],
  ["a cluster-scoped list", "GET /api/v1/nodes?limit=500", "list v1 nodes"],
  ["a list over all namespaces", "GET /api/v1/pods", "list v1 pods"],
  ["a list in one namespace", "GET /api/v1/namespaces/kube-system/pods", "list v1 pods in kube-system"],
  ["a watch", "GET /api/v1/nodes?watch=1", "watch v1 nodes"],
  ["a watch asked for with true", "GET /api/v1/nodes?watch=true", "watch v1 nodes"],
  ["a watch with an empty value", "GET /api/v1/nodes?watch", "watch v1 nodes"],
  ["watch=False is a list", "GET /api/v1/nodes?watch=False", "list v1 nodes"],
  ["watch=0 is a list", "GET /api/v1/nodes?watch=0", "list v1 nodes"],
  ["watch on a named object is a get", "GET /api/v1/nodes/n1?watch=1", "get v1 nodes named n1"],
  [
    "a watch of one object by field selector",
    "GET /api/v1/namespaces/ns/pods?watch=1&fieldSelector=spec.nodeName%3Dx%2Cmetadata.name%3Dp1",
    "watch v1 pods in ns named p1",
  ],
  [
    "a field selector that excludes a name",
    "GET /api/v1/nodes?fieldSelector=metadata.name%21%3Dn1",
    "list v1 nodes",
  ],
  ["the old watch path", "GET /api/v1/watch/namespaces/ns/pods/p1", "watch v1 pods in ns named p1"],
  [
    "a create in a group",
    "POST /apis/apps/v1/namespaces/ns/deployments?dryRun=All",
    "create apps/v1 deployments in ns",
  ],
  ["a patch", "PATCH /api/v1/nodes/n1", "patch v1 nodes named n1"],
  ["an update of a status", "PUT /api/v1/nodes/n1/status", "update v1 nodes/status named n1"],
  [
    "a scale",
    "PATCH /apis/apps/v1/namespaces/ns/deployments/x/scale",
    "patch apps/v1 deployments/scale in ns named x",
  ],
  ["an eviction", "POST /api/v1/namespaces/ns/pods/p1/eviction", "create v1 pods/eviction in ns named p1"],
  ["a delete", "DELETE /api/v1/nodes/n1", "delete v1 nodes named n1"],
  [
    "a delete of a collection",
    "DELETE /apis/coordination.k8s.io/v1/namespaces/ns/leases",
    "deletecollection coordination.k8s.io/v1 leases in ns",
  ],
  ["all namespaces", "GET /api/v1/namespaces", "list v1 namespaces"],
  ["a namespace itself", "GET /api/v1/namespaces/ns", "get v1 namespaces in ns named ns"],
  [
    "the finalize subresource of a namespace",
    "PUT /api/v1/namespaces/ns/finalize",
    "update v1 namespaces/finalize in ns named ns",
  ],
  [
    "a proxied service, whose rest is no subresource",
    "GET /api/v1/proxy/namespaces/ns/services/s1/metrics",
    "proxy v1 services in ns named s1",
  ],
  [
    "an escaped name",
    "GET /apis/rbac.authorization.k8s.io/v1/clusterroles/system%3Anode/",
    "get rbac.authorization.k8s.io/v1 clusterroles named system:node",
  ],
  ["discovery of a group", "GET /apis/apps/v1", "get"],
  ["discovery of the core", "GET /api/v1", "get"],
  ["the version", "GET /version?timeout=32s", "get"],
  ["the root", "GET /", "get"],
  ["a post to no resource", "POST /api", "post"],
  ["an unfinished watch path", "GET /api/v1/watch", "get"],
  ["a path with broken escapes", "GET /readyz/%E0%A4%A", "get"],
];

/** `patch apps/v1 deployments/scale in ns named x`. */
function told({ verb, group, version, resource, subresource, namespace, name }: RequestTarget): string {
  const place = [namespace && `in ${namespace}`, name && `named ${name}`];
  const parts = [
    [group, version],
    [resource, subresource],
  ].map((each) => each.filter(Boolean).join("/"));
  return [verb, ...parts, ...place].filter(Boolean).join(" ");
}

it.each(cases)("parseRequestTarget reads %s: %s", (_what, request, expected) => {
  const [method = "", path = ""] = request.split(" ");
  const target = parseRequestTarget(method, path);
  expect(told(target)).toBe(expected);
  expect(target).toMatchObject({ method, path, query: expect.any(URLSearchParams) as unknown });
});
