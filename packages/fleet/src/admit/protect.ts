/**
 * Which writes of Instances and deployments are allowed. Berth alone makes and changes them. The garbage collector, the
 * namespace controller and providers may do what their work needs.
 */
import { celText, celTexts } from "@berth/host";
import type { MatchCondition } from "@berth/kube";
import { type AdmissionRequest, isSameData } from "@berth/runtime";
import { finalizers } from "../api/keys.ts";
import { instances } from "../api/workload.ts";
import type { Identities } from "../fleet/document.ts";
import { Field } from "./field.ts";

export interface Writers {
  /** Berth's own username. `undefined`: not known. Then nothing is protected, so that Berth does not lock itself out. */
  readonly self: string | undefined;
  /** Programs that run Instances. */
  readonly providers: Identities;
}

/** They delete objects and change `finalizers` and `ownerReferences`. The last one: all controllers in one account. */
const CONTROLLERS: readonly string[] = [
  "system:serviceaccount:kube-system:generic-garbage-collector",
  "system:serviceaccount:kube-system:namespace-controller",
  "system:kube-controller-manager",
];

/** The answer to users who write what Berth manages. */
export const MANAGED = "managed by compute: change or delete the Workload instead";

type ProtectedRequest = Pick<
  AdmissionRequest,
  "operation" | "resource" | "subResource" | "userInfo" | "object" | "oldObject"
>;

/** Why a write of an Instance or a deployment is refused, for the user. `undefined`: it is not. */
export function protect(request: ProtectedRequest, { self, providers }: Writers): string | undefined {
  const { operation, resource, subResource, userInfo } = request;
  const user = userInfo?.username;
  if (self === undefined || user === self) return undefined;
  const isController = user !== undefined && CONTROLLERS.includes(user);
  const isProvider = isOneOf(providers, userInfo) && resource.resource === instances.plural;
  if (subResource === "status") return isProvider && operation === "UPDATE" ? undefined : MANAGED;
  if (operation === "DELETE" && isController) return undefined;
  if (operation !== "UPDATE" || subResource !== undefined) return MANAGED;
  const [before, after] = [request.oldObject, request.object].map((it) => new Field("", it));
  if (!isSameData(before?.get("spec").value, after?.get("spec").value)) return MANAGED;
  if (isController) return undefined;
  return isSameData(ownMetadata(before, isProvider), ownMetadata(after, isProvider)) ? undefined : MANAGED;
}

function isOneOf({ users, groups }: Identities, user: AdmissionRequest["userInfo"]): boolean {
  const isUser = user?.username !== undefined && users.includes(user.username);
  return isUser || (user?.groups ?? []).some((group) => groups.includes(group));
}

/** The metadata that only Berth may change. Other labels and annotations are for users. */
function ownMetadata(object: Field | undefined, isProvider: boolean): unknown {
  const metadata = object?.get("metadata");
  return [
    metadata
      ?.get("ownerReferences")
      .items()
      .map(({ value }) => value)
      .toArray(),
    metadata
      ?.get("finalizers")
      .items()
      .map(({ value }) => value)
      .filter((it) => !isProvider || OURS.has(it))
      .toArray(),
    ...["labels", "annotations"].map((name) => {
      const map = metadata?.get(name);
      const own = map?.keys.filter((key) => OWN_KEY.test(key)).map((key) => [key, map.key(key).value]);
      return own && Object.fromEntries(own);
    }),
  ];
}

/** Without them an Instance would go before its claim. */
const OURS: ReadonlySet<unknown> = new Set(Object.values(finalizers));

const OWN_KEY = /^(?:[^/]*\.)?(?:compute\.datumapis\.com|berth\.dev)\//;

/** Spares the API server the question about most allowed writes. `protect` answers the same without them. */
export function askedAboutOthers({ self, providers }: Writers): readonly MatchCondition[] {
  const [users, groups] = [celTexts(providers.users), celTexts(providers.groups)];
  const isProvider = `(request.userInfo.username in ${users} || request.userInfo.?groups.orValue([]).exists(it, it in ${groups}))`;
  const isStatus = `request.resource.resource == ${celText(instances.plural)} && request.?subResource.orValue("") == "status" && request.operation == "UPDATE"`;
  const known = self === undefined ? CONTROLLERS : [self, ...CONTROLLERS];
  return [
    { name: "not-compute", expression: `!(request.userInfo.username in ${celTexts(known)})` },
    { name: "not-provider", expression: `!(${isStatus} && ${isProvider})` },
  ];
}
