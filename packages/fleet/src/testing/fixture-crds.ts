/** The kinds of networking and quota that the fleet uses, for tests: their own products install them elsewhere. */
import {
  type CustomResourceDefinition,
  customResourceDefinitions,
  isApiError,
  type JSONSchemaProps,
  type KubeClient,
  type Resource,
} from "@berth/kube";
import { eventually } from "@berth/testcluster";
import {
  interpreterCustomizations,
  memberClusters,
  propagationPolicies,
  resourceBindings,
} from "../api/karmada.ts";
import {
  locations,
  networkBindings,
  networkContexts,
  networks,
  subnetClaims,
  subnets,
} from "../api/networking.ts";
import { resourceClaims } from "../api/quota.ts";

type Properties = Readonly<Record<string, JSONSchemaProps>>;

const text: JSONSchemaProps = { type: "string", minLength: 1 };
const optionalText: JSONSchemaProps = { type: "string" };
const whole: JSONSchemaProps = { type: "integer", format: "int32" };
const anything: JSONSchemaProps = { type: "object", "x-kubernetes-preserve-unknown-fields": true };

const objectOf = (properties: Properties, required: readonly string[] = []): JSONSchemaProps => ({
  type: "object",
  properties,
  ...(required.length > 0 && { required }),
});

const conditions: JSONSchemaProps = {
  type: "array",
  "x-kubernetes-list-type": "map",
  "x-kubernetes-list-map-keys": ["type"],
  items: objectOf(
    {
      type: text,
      status: { type: "string", enum: ["True", "False", "Unknown"] },
      reason: { type: "string", pattern: "^[A-Za-z]([A-Za-z0-9_,:]*[A-Za-z0-9_])?$", maxLength: 1024 },
      message: { type: "string", maxLength: 32_768 },
      lastTransitionTime: { type: "string", format: "date-time" },
      observedGeneration: { type: "integer", format: "int64", minimum: 0 },
    },
    ["type", "status", "reason", "message", "lastTransitionTime"],
  ),
};

const IMMUTABLE = { "x-kubernetes-validations": [{ rule: "self == oldSelf", message: "spec is immutable" }] };

/** A kind with a status subresource. `defaults` are those of the status. */
function crd(
  { group, version, plural, kind, namespaced }: Resource,
  spec: JSONSchemaProps,
  status: Properties = {},
  defaults?: object,
): CustomResourceDefinition {
  const schema = objectOf(
    {
      spec,
      status: { ...objectOf({ conditions, ...status }), ...(defaults && { default: defaults }) },
    },
    ["spec"],
  );
  return {
    apiVersion: "apiextensions.k8s.io/v1",
    kind: "CustomResourceDefinition",
    metadata: { name: `${plural}.${group}` },
    spec: {
      group,
      scope: namespaced ? "Namespaced" : "Cluster",
      names: { plural, kind, singular: kind.toLowerCase(), listKind: `${kind}List` },
      versions: [
        {
          name: version,
          served: true,
          storage: true,
          subresources: { status: {} },
          schema: { openAPIV3Schema: schema },
        },
      ],
    },
  };
}

const located: JSONSchemaProps = objectOf({ name: text, namespace: text }, ["name", "namespace"]);
const named: JSONSchemaProps = objectOf({ name: text }, ["name"]);
const family: JSONSchemaProps = { type: "string", enum: ["IPv4", "IPv6"] };
const range: Properties = { startAddress: optionalText, prefixLength: whole };

/** `networking.datumapis.com/v1alpha`, as far as the fleet uses it. */
export const networkingCrds: readonly CustomResourceDefinition[] = [
  crd(
    locations,
    objectOf(
      {
        locationClassName: { type: "string", enum: ["datum-managed", "self-managed"] },
        topology: { type: "object", additionalProperties: { type: "string" } },
        provider: anything,
      },
      ["locationClassName", "topology", "provider"],
    ),
  ),
  crd(
    networks,
    objectOf(
      {
        ipam: objectOf({ mode: { type: "string", enum: ["Auto", "Policy"] }, ipv4Range: optionalText }, [
          "mode",
        ]),
        ipFamilies: { type: "array", items: family, default: ["IPv4"] },
        mtu: { ...whole, minimum: 1300, maximum: 8856, default: 1460 },
      },
      ["ipam"],
    ),
  ),
  crd(
    networkBindings,
    objectOf({ network: objectOf({ namespace: optionalText, name: text }, ["name"]), location: located }, [
      "network",
      "location",
    ]),
    { networkContextRef: located },
  ),
  crd(networkContexts, objectOf({ network: named, location: located }, ["network", "location"])),
  crd(
    subnetClaims,
    objectOf({ subnetClass: text, networkContext: named, location: located, ipFamily: family, ...range }, [
      "subnetClass",
      "networkContext",
      "location",
      "ipFamily",
    ]),
    { subnetRef: named, ...range },
  ),
  crd(subnets, anything, range),
];

const reference: JSONSchemaProps = objectOf({ apiGroup: text, kind: text, name: text }, [
  "apiGroup",
  "kind",
  "name",
]);

/** What the API server shows of a claim that the quota service has not looked at: a condition without a real time. */
const PENDING = {
  conditions: [
    {
      type: "Granted",
      status: "False",
      reason: "PendingEvaluation",
      message: "Awaiting evaluation",
      lastTransitionTime: "1970-01-01T00:00:00Z",
    },
  ],
};

/** `quota.miloapis.com/v1alpha1`, as far as the fleet uses it. */
export const quotaCrds: readonly CustomResourceDefinition[] = [
  crd(
    resourceClaims,
    {
      ...objectOf(
        {
          consumerRef: reference,
          resourceRef: reference,
          requests: {
            type: "array",
            minItems: 1,
            maxItems: 20,
            "x-kubernetes-list-type": "map",
            "x-kubernetes-list-map-keys": ["resourceType"],
            items: objectOf(
              {
                resourceType: { ...text, maxLength: 253 },
                amount: { type: "integer", format: "int64", minimum: 0 },
              },
              ["resourceType", "amount"],
            ),
          },
        },
        ["consumerRef", "resourceRef", "requests"],
      ),
      ...IMMUTABLE,
    },
    { allocations: { type: "array", items: anything } },
    PENDING,
  ),
];

/** The kinds of Karmada, as far as its published API says what the fleet uses. Its own webhooks and controllers are missing. */
export const karmadaCrds: readonly CustomResourceDefinition[] = [
  crd(
    propagationPolicies,
    objectOf(
      {
        resourceSelectors: {
          type: "array",
          minItems: 1,
          items: {
            ...objectOf({ apiVersion: text, kind: text, namespace: optionalText, name: optionalText }, [
              "apiVersion",
              "kind",
            ]),
            "x-kubernetes-preserve-unknown-fields": true,
          },
        },
        placement: anything,
      },
      ["resourceSelectors"],
    ),
  ),
  crd(
    resourceBindings,
    objectOf(
      {
        resource: objectOf(
          {
            apiVersion: text,
            kind: text,
            name: text,
            namespace: optionalText,
            uid: optionalText,
            resourceVersion: optionalText,
          },
          ["apiVersion", "kind", "name"],
        ),
        clusters: { type: "array", items: objectOf({ name: text, replicas: whole }, ["name"]) },
      },
      ["resource"],
    ),
    {
      aggregatedStatus: {
        type: "array",
        items: objectOf(
          {
            clusterName: text,
            status: anything,
            applied: { type: "boolean" },
            appliedMessage: optionalText,
            health: { type: "string", enum: ["Healthy", "Unhealthy", "Unknown"] },
          },
          ["clusterName"],
        ),
      },
    },
  ),
  crd(memberClusters, anything),
  crd(
    interpreterCustomizations,
    objectOf(
      {
        target: objectOf({ apiVersion: text, kind: text }, ["apiVersion", "kind"]),
        customizations: anything,
      },
      ["target", "customizations"],
    ),
  ),
];

/** Creates those that are missing. Resolves when the API server answers for each kind. */
export async function installCrds(
  client: KubeClient,
  crds: readonly CustomResourceDefinition[],
): Promise<void> {
  for (const each of crds) {
    try {
      await client.create(customResourceDefinitions, each);
    } catch (error) {
      if (!isApiError(error, "alreadyExists")) throw error;
    }
  }
  for (const { spec } of crds) {
    const { group, names, versions } = spec ?? {};
    await eventually(() => client.read(`/apis/${group}/${versions?.[0]?.name}/${names?.plural}?limit=1`));
  }
}
