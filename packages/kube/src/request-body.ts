/** What a request carries. */
import type { DeleteOptions } from "./client.ts";
import type { KubeObject } from "./object.ts";
import { apiVersionOf, type Resource } from "./resource.ts";
import type { TransportRequest } from "./transport.ts";

/** The object as it is sent: with the type of its resource, unless it names one itself. */
export function toBody(resource: Resource, object: KubeObject): Buffer {
  return Buffer.from(JSON.stringify({ apiVersion: apiVersionOf(resource), kind: resource.kind, ...object }));
}

export function deleteBody(options: DeleteOptions): Pick<TransportRequest, "body" | "contentType"> {
  const { gracePeriodSeconds, propagationPolicy, preconditions, dryRun } = options;
  const body = {
    apiVersion: "v1",
    kind: "DeleteOptions",
    ...(gracePeriodSeconds === undefined ? {} : { gracePeriodSeconds }),
    ...(propagationPolicy === undefined ? {} : { propagationPolicy }),
    ...(preconditions === undefined ? {} : { preconditions }),
    ...(dryRun ? { dryRun: ["All"] } : {}),
  };
  return { body: Buffer.from(JSON.stringify(body)), contentType: "application/json" };
}
