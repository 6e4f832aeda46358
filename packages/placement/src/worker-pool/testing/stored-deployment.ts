/** A Deployment as the API server stores what was applied: with defaults, and with the fields of the apply. */
import type { Deployment } from "@berth/kube";
import type { DeploymentBody } from "../deployment.ts";
import { WORKER_POOL_FIELD_MANAGER } from "../keys.ts";

type Fields = Readonly<Record<string, unknown>>;

/** As kube-apiserver 1.36 answered for a pool with a node selector and resources. */
export const FIELDS: Fields = {
  "f:metadata": { "f:ownerReferences": { 'k:{"uid":"u"}': {} } },
  "f:spec": {
    "f:replicas": {},
    "f:selector": {},
    "f:template": {
      "f:metadata": { "f:labels": { "f:ate.dev/worker-pool": {} } },
      "f:spec": {
        "f:affinity": {},
        "f:containers": {
          'k:{"name":"ateom"}': {
            ".": {},
            "f:args": {},
            "f:env": {
              'k:{"name":"POD_UID"}': { ".": {}, "f:name": {}, "f:valueFrom": { "f:fieldRef": {} } },
            },
            "f:image": {},
            "f:name": {},
            "f:resources": { "f:requests": { "f:cpu": {} } },
            "f:securityContext": { "f:privileged": {}, "f:runAsGroup": {}, "f:runAsUser": {} },
            "f:volumeMounts": {
              'k:{"mountPath":"/var/lib/ateom-gvisor"}': { ".": {}, "f:mountPath": {}, "f:name": {} },
            },
          },
        },
        "f:nodeSelector": {},
        "f:priorityClassName": {},
        "f:securityContext": { "f:runAsGroup": {}, "f:runAsUser": {} },
        "f:volumes": {
          'k:{"name":"run-ateom"}': {
            ".": {},
            "f:hostPath": { "f:path": {}, "f:type": {} },
            "f:name": {},
          },
        },
      },
    },
  },
};

/** The body with what the server makes of it; `fieldsV1` as it is then. */
export function storedOf(body: DeploymentBody, fieldsV1: Fields = FIELDS): Deployment {
  const { template } = body.spec;
  const { priorityClassName: _, ...podSpec } = template.spec ?? { containers: [] };
  const [container] = podSpec.containers;
  return {
    ...body,
    metadata: {
      ...body.metadata,
      uid: "d",
      resourceVersion: "10",
      generation: 1,
      managedFields: [{ manager: WORKER_POOL_FIELD_MANAGER, operation: "Apply", fieldsV1 }],
    },
    spec: {
      ...body.spec,
      progressDeadlineSeconds: 600,
      revisionHistoryLimit: 10,
      strategy: { type: "RollingUpdate", rollingUpdate: { maxSurge: "25%", maxUnavailable: "25%" } },
      template: {
        ...template,
        spec: {
          ...podSpec,
          restartPolicy: "Always",
          containers: container ? [{ imagePullPolicy: "IfNotPresent", ...container }] : [],
        },
      },
    },
  };
}
