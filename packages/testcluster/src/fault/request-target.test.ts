import { expect, it } from "vitest";
import { parseRequestTarget, type RequestTarget } from "./request-target.ts";

const cases: readonly [request: string, expected: string][] = [
  ["GET /api/v1/nodes/n1", "get v1 nodes named n1"],
  ["HEAD /api/v1/nodes/n1", "get v1 nodes named n1"],
  ["GET /api/v1/nodes?limit=500", "list v1 nodes"],
  ["GET /api/v1/pods", "list v1 pods"],
  ["GET /api/v1/namespaces/kube-system/pods", "list v1 pods in kube-system"],
  ["GET /api/v1/nodes?watch=1", "watch v1 nodes"],
  ["GET /api/v1/nodes?watch=true", "watch v1 nodes"],
  ["GET /api/v1/nodes?watch", "watch v1 nodes"],
  ["GET /api/v1/nodes?watch=False", "list v1 nodes"],
  ["GET /api/v1/nodes?watch=0", "list v1 nodes"],
  ["GET /api/v1/nodes/n1?watch=1", "get v1 nodes named n1"],
  [
    "GET /api/v1/namespaces/ns/pods?watch=1&fieldSelector=spec.nodeName%3Dx%2Cmetadata.name%3Dp1",
    "watch v1 pods in ns named p1",
  ],
  ["GET /api/v1/nodes?fieldSelector=metadata.name%21%3Dn1", "list v1 nodes"],
  ["GET /api/v1/watch/namespaces/ns/pods/p1", "watch v1 pods in ns named p1"],
  ["POST /apis/apps/v1/namespaces/ns/deployments?dryRun=All", "create apps/v1 deployments in ns"],
  ["PATCH /api/v1/nodes/n1", "patch v1 nodes named n1"],
  ["PUT /api/v1/nodes/n1/status", "update v1 nodes/status named n1"],
  ["PATCH /apis/apps/v1/namespaces/ns/deployments/x/scale", "patch apps/v1 deployments/scale in ns named x"],
  ["POST /api/v1/namespaces/ns/pods/p1/eviction", "create v1 pods/eviction in ns named p1"],
  ["DELETE /api/v1/nodes/n1", "delete v1 nodes named n1"],
  [
    "DELETE /apis/coordination.k8s.io/v1/namespaces/ns/leases",
    "deletecollection coordination.k8s.io/v1 leases in ns",
  ],
  ["GET /api/v1/namespaces", "list v1 namespaces"],
  ["GET /api/v1/namespaces/ns", "get v1 namespaces in ns named ns"],
  ["PUT /api/v1/namespaces/ns/finalize", "update v1 namespaces/finalize in ns named ns"],
  ["GET /api/v1/proxy/namespaces/ns/services/s1/metrics", "proxy v1 services in ns named s1"],
  [
    "GET /apis/rbac.authorization.k8s.io/v1/clusterroles/system%3Anode/",
    "get rbac.authorization.k8s.io/v1 clusterroles named system:node",
  ],
  ["GET /apis/apps/v1", "get"],
  ["GET /api/v1", "get"],
  ["GET /version?timeout=32s", "get"],
  ["GET /", "get"],
  ["POST /api", "post"],
  ["GET /api/v1/watch", "get"],
  ["GET /readyz/%E0%A4%A", "get"],
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

it.each(cases)("parseRequestTarget reads %s as %s", (request, expected) => {
  const [method = "", path = ""] = request.split(" ");
  const target = parseRequestTarget(method, path);
  expect(told(target)).toBe(expected);
  expect(target).toMatchObject({ method, path, query: expect.any(URLSearchParams) as unknown });
});
