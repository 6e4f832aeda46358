/** `NodeNotifier`: what Berth tells others about changes of Nodes. A document of files only. */
import path from "node:path";
import { type DocumentKind, duration, durationMs, selector, text } from "@berth/host";
import * as z from "zod";
import { selectorFaults } from "../../node/selector.ts";
import { labelKeyProblem } from "../../node/validate.ts";

/** At the end of an entry of `keys`: each key of the domain. */
export const EACH_KEY = "/*";

const MAX_KEYS = 64;
const MAX_URL = 2048;
const MAX_TIMEOUT_MS = 30_000;
/** CronJobs have at most 52 characters (`MaxCronJobNameLength` in the validation of Kubernetes). */
const MAX_CRON_JOB = 52;
const NAME = /^[a-z0-9](?:[-a-z0-9.]*[a-z0-9])?$/;

/** Domains whose keys the kubelet, storage drivers and networks write all the time. */
const NOISE: ReadonlySet<string> = new Set([
  "node.alpha.kubernetes.io",
  "volumes.kubernetes.io",
  "csi.volume.kubernetes.io",
  "flannel.alpha.coreos.com",
  "projectcalico.org",
  "k8s.ovn.org",
]);

const key = text({ min: 1, max: 317 }).superRefine((given, context) => {
  const isDomain = given.endsWith(EACH_KEY);
  const domain = given.slice(0, -EACH_KEY.length);
  if (labelKeyProblem(isDomain ? `${domain}/x` : given) !== undefined) {
    context.addIssue({ code: "custom", message: "must be a key such as example.com/gpu, or example.com/*" });
  } else if (isDomain && NOISE.has(domain)) {
    const message = `the kubelet, storage or the network changes keys of ${domain} all the time: name each key`;
    context.addIssue({ code: "custom", message });
  }
});

/** The message never contains the address, because it may contain a password or a token. */
const url = text({ min: 1, max: MAX_URL }).superRefine((given, context) => {
  const { protocol, username, password } = URL.parse(given) ?? {};
  if (protocol !== "http:" && protocol !== "https:") {
    context.addIssue({ code: "custom", message: "must be an address that begins with http:// or https://" });
  } else if (username !== "" || password !== "") {
    context.addIssue({ code: "custom", message: "must not contain a user or a password" });
  }
});

const timeout = duration.refine((given) => {
  const ms = durationMs(given);
  return ms > 0 && ms <= MAX_TIMEOUT_MS;
}, "must be above 0 and at most 30s");

const name = (max: number): z.ZodString =>
  z.string().max(max).regex(NAME, "must be the name of an object: lower-case letters, digits, - and .");

const spec = z
  .strictObject({
    nodeSelector: selector
      .prefault({})
      .superRefine((given, context) => {
        for (const { path, message } of selectorFaults(given, []))
          context.addIssue({ code: "custom", path: [...path], message });
      })
      .describe("These nodes, by their labels before or after the change. Default all."),
    keys: z
      .array(key)
      .min(1)
      .max(MAX_KEYS)
      .readonly()
      .describe("Keys of labels and annotations; example.com/* is each key of that domain."),
    post: z
      .strictObject({
        url: url.describe("An http or https address."),
        timeout: timeout.default("10s").describe("For one request, at most 30s."),
        certificateAuthority: text({ min: 1, max: MAX_URL })
          .optional()
          .describe("PEM file with authorities to trust besides those of the system. Read for each request."),
      })
      .optional()
      .describe("Sends the change as JSON, in a POST request."),
    job: z
      .strictObject({
        namespace: name(63).describe("Of the CronJob and of the Job."),
        cronJob: name(MAX_CRON_JOB).describe("Its jobTemplate becomes the Job."),
      })
      .optional()
      .describe("Creates a Job, as kubectl create job --from=cronjob/name does."),
    retries: z
      .int()
      .min(0)
      .max(100)
      .default(5)
      .describe("How often one change is tried again, after 1s, 2s, 4s and so on, up to 5 minutes."),
  })
  .refine(({ post, job }) => (post === undefined) !== (job === undefined), "must have either post or job");
export type NodeNotifierSpec = z.infer<typeof spec>;

export const nodeNotifierKind: DocumentKind<NodeNotifierSpec> = {
  kind: "NodeNotifier",
  spec,
  placed({ post, ...given }, { folder }) {
    const file = post?.certificateAuthority;
    const placed = file === undefined ? {} : { certificateAuthority: path.resolve(folder, file) };
    return { ...given, ...(post && { post: { ...post, ...placed } }) };
  },
};
