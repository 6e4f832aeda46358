/**
 * Writes `packages/kube/src/generated/{wire,resources}.ts` from the OpenAPI document of the Kubernetes release that
 * the test cluster pins. Only the kinds listed here, and what they refer to, are emitted.
 *
 *   npm run generate
 */
import { execFileSync } from "node:child_process";
import { readFileSync, writeFileSync } from "node:fs";
import { join } from "node:path";

interface Schema {
  readonly $ref?: string;
  readonly type?: string;
  readonly format?: string;
  readonly items?: Schema;
  readonly properties?: Readonly<Record<string, Schema>>;
  readonly additionalProperties?: Schema;
  readonly required?: readonly string[];
  readonly "x-kubernetes-group-version-kind"?: readonly { group: string; version: string; kind: string }[];
}
interface Operation {
  readonly "x-kubernetes-group-version-kind"?: { group: string; version: string; kind: string };
}
interface OpenApi {
  readonly definitions: Readonly<Record<string, Schema>>;
  readonly paths: Readonly<Record<string, Readonly<Record<string, Operation>>>>;
}

/** Definition prefix → the kinds we use of it. */
const KINDS: Readonly<Record<string, string>> = {
  "io.k8s.api.core.v1":
    "Binding ConfigMap Endpoints Event LimitRange Namespace Node PersistentVolume PersistentVolumeClaim Pod PodTemplate ReplicationController ResourceQuota Secret Service ServiceAccount",
  "io.k8s.api.apps.v1": "ControllerRevision DaemonSet Deployment ReplicaSet StatefulSet",
  "io.k8s.api.batch.v1": "CronJob Job",
  "io.k8s.api.autoscaling.v1": "Scale",
  "io.k8s.api.autoscaling.v2": "HorizontalPodAutoscaler",
  "io.k8s.api.policy.v1": "Eviction PodDisruptionBudget",
  "io.k8s.api.coordination.v1": "Lease",
  "io.k8s.api.events.v1": "Event",
  "io.k8s.api.discovery.v1": "EndpointSlice",
  "io.k8s.api.rbac.v1": "ClusterRole ClusterRoleBinding Role RoleBinding",
  "io.k8s.api.networking.v1": "Ingress IngressClass NetworkPolicy",
  "io.k8s.api.storage.v1": "CSIDriver CSINode StorageClass VolumeAttachment",
  "io.k8s.api.scheduling.v1": "PriorityClass",
  "io.k8s.api.node.v1": "RuntimeClass",
  "io.k8s.api.resource.v1": "DeviceClass ResourceClaim ResourceClaimTemplate ResourceSlice",
  "io.k8s.api.certificates.v1": "CertificateSigningRequest",
  "io.k8s.api.authentication.v1": "SelfSubjectReview TokenRequest TokenReview",
  "io.k8s.api.authorization.v1": "SelfSubjectAccessReview SelfSubjectRulesReview SubjectAccessReview",
  "io.k8s.api.admissionregistration.v1":
    "MutatingAdmissionPolicy MutatingAdmissionPolicyBinding MutatingWebhookConfiguration ValidatingAdmissionPolicy ValidatingAdmissionPolicyBinding ValidatingWebhookConfiguration",
  "io.k8s.apiextensions-apiserver.pkg.apis.apiextensions.v1": "CustomResourceDefinition",
  "io.k8s.kube-aggregator.pkg.apis.apiregistration.v1": "APIService",
  "io.k8s.apimachinery.pkg.apis.meta.v1": "APIGroupList APIResourceList Status",
};

/** Names that two groups share, or that would hide a global. */
const RENAMED: Readonly<Record<string, string>> = {
  "io.k8s.api.core.v1.Event": "CoreEvent",
  "io.k8s.api.core.v1.EventSeries": "CoreEventSeries",
  "io.k8s.api.events.v1.Event": "KubeEvent",
  "io.k8s.api.discovery.v1.EndpointPort": "DiscoveryEndpointPort",
  "io.k8s.api.authentication.v1.TokenRequest": "TokenRequest",
  "io.k8s.api.storage.v1.TokenRequest": "CsiTokenRequest",
  "io.k8s.apimachinery.pkg.apis.meta.v1.DeleteOptions": "DeleteOptionsBody",
  "io.k8s.api.rbac.v1.Subject": "RbacSubject",
  "io.k8s.api.core.v1.ResourceClaim": "ContainerResourceClaim",
  "io.k8s.kube-aggregator.pkg.apis.apiregistration.v1.ServiceReference": "ApiServiceReference",
  "io.k8s.apiextensions-apiserver.pkg.apis.apiextensions.v1.ServiceReference": "ConversionServiceReference",
  "io.k8s.apiextensions-apiserver.pkg.apis.apiextensions.v1.WebhookClientConfig":
    "ConversionWebhookClientConfig",
};

/** Definitions whose wire form is written by hand. */
const FIXED: Readonly<Record<string, string>> = {
  "io.k8s.apimachinery.pkg.apis.meta.v1.Time": "string",
  "io.k8s.apimachinery.pkg.apis.meta.v1.MicroTime": "string",
  "io.k8s.apimachinery.pkg.api.resource.Quantity": "string",
  "io.k8s.apimachinery.pkg.util.intstr.IntOrString": "number | string",
  "io.k8s.apimachinery.pkg.apis.meta.v1.FieldsV1": "Readonly<Record<string, unknown>>",
  "io.k8s.apimachinery.pkg.runtime.RawExtension": "unknown",
  "io.k8s.apiextensions-apiserver.pkg.apis.apiextensions.v1.JSON": "unknown",
  "io.k8s.apiextensions-apiserver.pkg.apis.apiextensions.v1.JSONSchemaPropsOrArray":
    "JSONSchemaProps | readonly JSONSchemaProps[]",
  "io.k8s.apiextensions-apiserver.pkg.apis.apiextensions.v1.JSONSchemaPropsOrBool":
    "JSONSchemaProps | boolean",
  "io.k8s.apiextensions-apiserver.pkg.apis.apiextensions.v1.JSONSchemaPropsOrStringArray":
    "JSONSchemaProps | readonly string[]",
  "io.k8s.apimachinery.pkg.apis.meta.v1.ObjectMeta": "ObjectMeta",
  "io.k8s.apimachinery.pkg.apis.meta.v1.OwnerReference": "OwnerReference",
  "io.k8s.apimachinery.pkg.apis.meta.v1.ManagedFieldsEntry": "ManagedFieldsEntry",
};

const root = join(import.meta.dirname, "..");
const download = execFileSync("go", ["mod", "download", "-json", "k8s.io/kubernetes"], {
  cwd: join(root, "packages/testcluster/controlplane"),
  encoding: "utf8",
});
const { Dir: module } = JSON.parse(download) as { readonly Dir: string };
const api = JSON.parse(readFileSync(join(module, "api/openapi-spec/swagger.json"), "utf8")) as OpenApi;

const wanted = Object.entries(KINDS).flatMap(([prefix, kinds]) =>
  kinds.split(" ").map((kind) => `${prefix}.${kind}`),
);
const emitted = new Map<string, string>();
for (const definition of wanted) emit(definition);

const header =
  "// Generated by scripts/generate-wire-types.ts from the OpenAPI document of Kubernetes. Do not edit.\n";
const output = join(root, "packages/kube/src/generated");
const interfaces = [...emitted.entries()].sort(([a], [b]) => (a < b ? -1 : 1)).map(([, text]) => text);
const shared = ["ManagedFieldsEntry", "ObjectMeta", "OwnerReference"].filter((name) =>
  interfaces.some((text) => new RegExp(`: .*\\b${name}\\b`).test(text)),
);
writeFileSync(
  join(output, "wire.ts"),
  `${header}import type { ${shared.join(", ")} } from "../object.ts";\n\n${interfaces.join("\n")}`,
);
writeFileSync(join(output, "resources.ts"), header + resources());

function typeName(definition: string): string {
  return RENAMED[definition] ?? definition.slice(definition.lastIndexOf(".") + 1);
}

function emit(definition: string): string {
  const fixed = FIXED[definition];
  if (fixed !== undefined) {
    for (const match of fixed.matchAll(/JSONSchemaProps/g)) {
      emit(`${definition.slice(0, definition.lastIndexOf("."))}.${match[0]}`);
    }
    return fixed.includes(" | ") ? `(${fixed})` : fixed;
  }
  const name = typeName(definition);
  const before = emitted.get(name);
  if (before !== undefined) {
    if (!before.includes(`/* ${definition} */`))
      throw new Error(`two definitions are called ${name}: ${definition}`);
    return name;
  }
  const schema = api.definitions[definition];
  if (schema === undefined) throw new Error(`the OpenAPI document has no ${definition}`);
  emitted.set(name, `/* ${definition} */`);
  const fields = Object.entries(schema.properties ?? {}).map(([field, value]) => {
    const optional = schema.required?.includes(field) ? "" : "?";
    const key = /^[A-Za-z_$][\w$]*$/.test(field) ? field : JSON.stringify(field);
    return `  readonly ${key}${optional}: ${toType(value)};\n`;
  });
  emitted.set(name, `/* ${definition} */\nexport interface ${name} {\n${fields.join("")}}\n`);
  return name;
}

function toType(schema: Schema): string {
  if (schema.$ref !== undefined) return emit(schema.$ref.replace("#/definitions/", ""));
  if (schema.type === "array") return `readonly ${toType(schema.items ?? {})}[]`;
  if (schema.additionalProperties !== undefined)
    return `Readonly<Record<string, ${toType(schema.additionalProperties)}>>`;
  if (schema.type === "integer" || schema.type === "number") return "number";
  if (schema.type === "boolean" || schema.type === "string") return schema.type;
  return "Readonly<Record<string, unknown>>";
}

/** A constant per kind that has a collection of its own, found by the paths that serve it. */
function resources(): string {
  const lines: string[] = [];
  const types: string[] = [];
  for (const definition of wanted) {
    const schema = api.definitions[definition];
    const gvk = schema?.["x-kubernetes-group-version-kind"]?.[0];
    if (gvk === undefined || definition.endsWith("meta.v1.Status")) continue;
    const prefix = gvk.group === "" ? `/api/${gvk.version}` : `/apis/${gvk.group}/${gvk.version}`;
    const served = Object.entries(api.paths)
      .filter(([path, operations]) => {
        const served = operations["post"]?.["x-kubernetes-group-version-kind"];
        return (
          served?.kind === gvk.kind &&
          served.group === gvk.group &&
          served.version === gvk.version &&
          new RegExp(`^${prefix}/(namespaces/\\{namespace\\}/)?[a-z]+$`).test(path)
        );
      })
      .map(([path]) => path)[0];
    if (served === undefined) continue;
    const plural = served.slice(served.lastIndexOf("/") + 1);
    const name = typeName(definition);
    const constant = name === "CoreEvent" ? "coreEvents" : toConstant(name, plural);
    types.push(name);
    const namespaced = served.includes("{namespace}");
    lines.push(
      `export const ${constant}: Resource<${name}> = defineResource({ group: "${gvk.group}", version: "${gvk.version}", plural: "${plural}", kind: "${gvk.kind}", namespaced: ${namespaced} });\n`,
    );
  }
  return `import { defineResource, type Resource } from "../resource.ts";\nimport type { ${types.sort().join(", ")} } from "./wire.ts";\n\n${lines.sort().join("")}`;
}

/** `ClusterRoleBinding` + `clusterrolebindings` → `clusterRoleBindings`: the plural in the kind's own capitals. */
function toConstant(kind: string, plural: string): string {
  const words = kind.replace(/^(API|CSI)/, (start) => start[0] + start.slice(1).toLowerCase());
  const plain = words[0]?.toLowerCase() + words.slice(1);
  if (kind === "KubeEvent") return "events";
  const kept = Array.from(plain).findIndex((letter, index) => letter.toLowerCase() !== plural[index]);
  return kept === -1 ? plain + plural.slice(plain.length) : plain.slice(0, kept) + plural.slice(kept);
}
