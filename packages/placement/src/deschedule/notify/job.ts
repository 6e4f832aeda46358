/** The Job of a CronJob for one change of a Node. Pure. */
import { createHash } from "node:crypto";
import { apiVersionOf, type CronJob, cronJobs, type Job, jobs, type ObjectMeta } from "@berth/kube";
import { toMessage } from "./diff.ts";
import type { PendingChange } from "./pending.ts";

/** On the Job and its pods: the node's name, if it fits into a label. */
const NODE_LABEL = "berth.dev/node";
/** On the Job and its pods: the change as JSON. */
const CHANGE_ANNOTATION = "berth.dev/node-change";
/** `kubectl create job --from` puts it on Jobs that no schedule has created. */
const INSTANTIATE_ANNOTATION = "cronjob.kubernetes.io/instantiate";

const MAX_LABEL_VALUE = 63;
/** With the longest CronJob and a dash, the name has the 63 characters that the label of the pods allows. */
const HASH_CHARACTERS = 10;

/**
 * The name is the same for each attempt, so the API server refuses a second Job for one change. The Job belongs to the
 * CronJob, whose history limits and deletion apply to it.
 */
export function jobOf(
  cronJob: CronJob,
  { notifier, namespace, name }: { readonly notifier: string; readonly namespace: string; name: string },
  { node, resourceVersion, change }: PendingChange,
): Job {
  const { metadata, spec } = cronJob.spec.jobTemplate;
  const of = createHash("sha256")
    .update(JSON.stringify([notifier, node, resourceVersion]))
    .digest("hex");
  const marked = ({ labels, annotations }: ObjectMeta = {}) => ({
    labels: { ...labels, ...(node.length <= MAX_LABEL_VALUE && { [NODE_LABEL]: node }) },
    annotations: { ...annotations, [CHANGE_ANNOTATION]: JSON.stringify(toMessage(node, change)) },
  });
  const { labels, annotations } = marked(metadata);
  const owner = { apiVersion: apiVersionOf(cronJobs), kind: cronJobs.kind, name, controller: true };
  return {
    apiVersion: apiVersionOf(jobs),
    kind: jobs.kind,
    metadata: {
      name: `${name}-${of.slice(0, HASH_CHARACTERS)}`,
      namespace,
      labels,
      annotations: { ...annotations, [INSTANTIATE_ANNOTATION]: "manual" },
      ownerReferences: [{ ...owner, uid: cronJob.metadata?.uid ?? "" }],
    },
    ...(spec && {
      spec: {
        ...spec,
        template: {
          ...spec.template,
          metadata: { ...spec.template.metadata, ...marked(spec.template.metadata) },
        },
      },
    }),
  };
}
