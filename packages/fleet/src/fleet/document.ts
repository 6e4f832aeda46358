/** `Fleet`: what Berth does about Workloads in this process. It comes from files or from `--mode`; at most one. */
import path from "node:path";
import { type DocumentKind, duration, onlyOne, type Selector, selector } from "@berth/host";
import { parseQuantity } from "@berth/runtime";
import * as z from "zod";
import { PROJECT_PATH } from "../api/keys.ts";

export interface FleetSpec {
  /**
   * `single`: Workloads, deployments and Instances are in one cluster. `cell`: another cluster brings the deployments,
   * and Berth runs their Instances here. `management`: Berth brings the deployments of projects to cells.
   */
  readonly mode: "single" | "cell" | "management";
  /** The name of this cluster, in the label `source-cluster` of claims and in the Lease. Default `single`. */
  readonly cell: string;
  /** The project of all namespaces, where this cluster is the project. A cell reads it from labels of the namespace. */
  readonly project?: { readonly id: string } | undefined;
  /**
   * Where the deployments of all projects are, in mode `management`. `self`: in this cluster. In mode `cell`: where the cell
   * writes its Instances, which only a hub with the driver `karmada` needs.
   */
  readonly hub?: HubPlace | undefined;
  /** Where Workloads are, in mode `management`. `self`: in this cluster. A list may change while Berth runs. */
  readonly projects?: ProjectPlaces | undefined;
  /**
   * What brings deployments from the hub to cells, in mode `management`. `direct` (default): Berth itself. `karmada`: the
   * Karmada whose API server is the hub.
   */
  readonly driver: "direct" | "karmada";
  /** City codes that Workloads may name while networking is off: no Location says it then. None listed: any. */
  readonly cities: readonly string[];
  /** `Auto` (default): on where the API server serves NetworkBindings. */
  readonly networking: "Auto" | "On" | "Off";
  /** `pods` (default): Berth runs each Instance as a Pod. `external`: another program runs Instances. */
  readonly provider: "pods" | "external";
  /** Deployments that leave cells which are drained, in mode `management`. */
  readonly moves: {
    /** So many at a time become ready elsewhere: their Instances run twice meanwhile. Default 10. */
    readonly atOnce: number;
    /** How long one may take until it is ready. Then it stays. Default `10m`. */
    readonly timeout: string;
  };
  /** Where ResourceClaims are. Absent: there is no quota, and every Instance is granted. */
  readonly quota?: QuotaSpec | undefined;
  /** Sizes by the name of the instance type. */
  readonly catalog: Catalog;
  /** Other programs that may write Instances, beside Berth. */
  readonly providers: Identities;
  /** Namespaces with Instances. Default: in a cell those with a project, else all but `kube-*` and Berth's own. */
  readonly namespaceSelector?: Selector | undefined;
  readonly locations: {
    /** Namespaces whose Locations count. Default: in a cell all, else Berth's own. */
    readonly namespaces?: readonly string[] | undefined;
  };
  readonly template: TemplateLimits;
  readonly pods: PodSettings;
  /** Off by default. `ContainerResources`: containers may name their own CPU and memory. */
  readonly featureGates: { readonly ContainerResources: boolean };
}

/** What the Fleet says about one Instance: its size, and what of its template reaches the Pod. */
export type InstanceRules = Pick<FleetSpec, "catalog" | "template" | "pods">;

/** What a tenant may write in a template. */
export interface TemplateLimits {
  /** Keys with a prefix that reach the Pod, as globs. Keys without a prefix always do. */
  readonly keys: readonly string[];
  /** A quantity of bytes: of one template, as JSON. */
  readonly maxSize: string;
  /** A quantity of bytes: of the template times the Instances of one Workload. */
  readonly maxTotal: string;
}

/** How Pods of Instances are confined. A change touches no Pod that runs. */
export interface PodSettings {
  /** Linux capabilities that containers keep. All others are dropped. */
  readonly capabilities: readonly string[];
  /** A quantity: the limit of each Pod. */
  readonly ephemeralStorage: string;
  /** What other admission webhooks, such as a service mesh, add after Berth. */
  readonly added: {
    /** Images of containers, as globs. */
    readonly images: readonly string[];
    /** Names of volumes. */
    readonly volumes: readonly string[];
    /** Audiences of ServiceAccount tokens in these volumes. That of the API server does not belong here. */
    readonly audiences: readonly string[];
    /** Labels and annotations with a prefix, as globs. */
    readonly keys: readonly string[];
    /** Names of priority classes, such as the default of the cluster. */
    readonly priorityClasses: readonly string[];
  };
}

/** Files are relative to the file with the document. */
export type HubPlace = "self" | { readonly kubeconfig: string; readonly context?: string | undefined };

/** `milo`: the Projects of its API server, each a control plane of its own below a path of that server. */
export type ProjectPlaces =
  | "self"
  | { readonly kubeconfigs: readonly ProjectPlace[] }
  | { readonly milo: { readonly kubeconfig: string } };

/** One control plane with Workloads. */
export interface ProjectPlace {
  /** `acme/web`, or the name alone. */
  readonly path: string;
  readonly kubeconfig: string;
}

export interface QuotaSpec {
  /**
   * `Cluster`: claims are in this cluster. `Kubeconfig`: in the cluster of `kubeconfig`. `Projects`: each project is a
   * control plane of its own, on the host of `kubeconfig`, at the path of Milo.
   */
  readonly from: "Cluster" | "Kubeconfig" | "Projects";
  /** File of the connection, relative to the file with the document. */
  readonly kubeconfig?: string | undefined;
}

/** A size: thousandths of a CPU, and MiB. */
export interface InstanceType {
  readonly millicores: number;
  readonly mebibytes: number;
}

export type Catalog = Readonly<Record<string, InstanceType>>;

/** Users and groups, as the API server knows them. */
export interface Identities {
  readonly users: readonly string[];
  readonly groups: readonly string[];
}

/** The only type of the original. */
export const DEFAULT_CATALOG: Catalog = { "datumcloud/d1-standard-2": { millicores: 1000, mebibytes: 2048 } };

/** Of a city code. */
export const CITY: RegExp = /^[A-Za-z0-9-]{1,16}$/;
const DNS_LABEL = /^[a-z0-9](?:[-a-z0-9]{0,61}[a-z0-9])?$/;

const names = (): z.ZodDefault<z.ZodArray<z.ZodString>> =>
  z.array(z.string().min(1).max(253)).max(100).default([]);

/** A positive quantity, as a text. */
const amount = (standard: string): z.ZodDefault<z.ZodString> =>
  z
    .string()
    .refine((text) => (parseQuantity(text) ?? 0n) > 0n, "must be a quantity above 0")
    .default(standard);

const texts = (standard: readonly string[] = []): z.ZodDefault<z.ZodArray<z.ZodString>> =>
  z
    .array(z.string().min(1).max(1024))
    .max(100)
    .default([...standard]);

/** Images that start as root go on working with these. */
const CAPABILITIES = "CHOWN DAC_OVERRIDE FOWNER KILL NET_BIND_SERVICE SETGID SETUID".split(" ");

const file = z.string().min(1).max(4096);

const fields = z
  .strictObject({
    mode: z.enum(["single", "cell", "management"]),
    cell: z.string().regex(DNS_LABEL, "must be a DNS label").default("single"),
    project: z.strictObject({ id: z.string().regex(DNS_LABEL, "must be a DNS label") }).optional(),
    hub: z
      .union([z.literal("self"), z.strictObject({ kubeconfig: file, context: z.string().min(1).optional() })])
      .optional(),
    projects: z
      .union([
        z.literal("self"),
        z.strictObject({
          kubeconfigs: z
            .array(
              z.strictObject({
                path: z.string().regex(PROJECT_PATH, "must be a name, or an organisation, / and a name"),
                kubeconfig: file,
              }),
            )
            .min(1)
            .max(1000),
        }),
        z.strictObject({ milo: z.strictObject({ kubeconfig: file }) }),
      ])
      .optional(),
    driver: z.enum(["direct", "karmada"]).default("direct"),
    moves: z
      .strictObject({ atOnce: z.int().min(1).max(1000).default(10), timeout: duration.default("10m") })
      .prefault({}),
    cities: z
      .array(z.string().regex(CITY, "must be 1 to 16 letters, digits and dashes"))
      .max(1000)
      .default([]),
    networking: z.enum(["Auto", "On", "Off"]).default("Auto"),
    provider: z.enum(["pods", "external"]).default("pods"),
    quota: z
      .strictObject({
        from: z.enum(["Cluster", "Kubeconfig", "Projects"]),
        kubeconfig: file.optional(),
      })
      .optional(),
    catalog: z
      .record(
        z.string().min(1).max(253),
        z.strictObject({
          millicores: z.int().min(1).max(10_000_000),
          mebibytes: z.int().min(1).max(100_000_000),
        }),
      )
      .default(DEFAULT_CATALOG),
    providers: z.strictObject({ users: names(), groups: names() }).default({ users: [], groups: [] }),
    namespaceSelector: selector.optional(),
    locations: z
      .strictObject({ namespaces: z.array(z.string().regex(DNS_LABEL)).max(100).optional() })
      .default({}),
    template: z
      .strictObject({
        keys: texts(["app.kubernetes.io/*"]),
        maxSize: amount("32Ki"),
        maxTotal: amount("16Mi"),
      })
      .prefault({}),
    pods: z
      .strictObject({
        capabilities: texts(CAPABILITIES),
        ephemeralStorage: amount("10Gi"),
        added: z
          .strictObject({
            images: texts(),
            volumes: texts(),
            audiences: texts(),
            keys: texts(),
            priorityClasses: texts(),
          })
          .prefault({}),
      })
      .prefault({}),
    featureGates: z.strictObject({ ContainerResources: z.boolean().default(false) }).prefault({}),
  })
  .superRefine(({ mode, project, quota, hub, projects, driver }, context) => {
    const fault = (field: string, message: string): void =>
      context.addIssue({ code: "custom", path: [field], message });
    if (mode === "cell" && project !== undefined)
      fault("project", "a cell reads the project from the labels of each namespace");
    if (mode === "single" && quota !== undefined && project === undefined)
      fault("project", "quota needs the project that pays: give project.id");
    if (mode === "management" && quota !== undefined)
      fault("quota", "cells ask for quota: give it in theirs");
    if (mode === "management" && hub === undefined) fault("hub", "must be self, or have a kubeconfig");
    if (mode === "management" && projects === undefined)
      fault("projects", "must be self, or have kubeconfigs or milo");
    if (mode === "single" && hub !== undefined) fault("hub", "mode single has no hub");
    if (mode === "cell" && hub === "self") fault("hub", "a cell is no hub: give a kubeconfig");
    if (mode !== "management" && projects !== undefined)
      fault("projects", "only mode management has projects");
    if (mode !== "management" && driver !== "direct")
      fault("driver", "only mode management brings deployments to cells");
    const names = (listedProjects(projects) ?? []).map(nameOfProject);
    const twice = names.find((name, at) => names.indexOf(name) !== at);
    if (twice !== undefined) fault("projects", `two projects are called ${twice}`);
    if (quota !== undefined && quota.from !== "Cluster" && quota.kubeconfig === undefined)
      fault("quota", `from ${quota.from} needs a kubeconfig`);
  });

/** The name by which Berth knows a project: the last part of its path. */
export function nameOfProject({ path: full }: Pick<ProjectPlace, "path">): string {
  return full.slice(full.lastIndexOf("/") + 1);
}

/** Those that the Fleet lists. `undefined`: it lists none. */
export function listedProjects(projects: ProjectPlaces | undefined): readonly ProjectPlace[] | undefined {
  return typeof projects === "object" && "kubeconfigs" in projects ? projects.kubeconfigs : undefined;
}

/** The city codes of the Fleet. `undefined`: it lists none, and Workloads may name any while networks are off. */
export function listedCities({ cities }: Pick<FleetSpec, "cities">): readonly string[] | undefined {
  return cities.length === 0 ? undefined : cities;
}

/** Of a cell that the original ran: there it may have the name `single`. */
export const takenOverSpec: z.ZodType<FleetSpec> = fields;

export const fleetKind: DocumentKind<FleetSpec> = {
  kind: "Fleet",
  spec: fields.superRefine(({ mode, cell }, context) => {
    if (mode === "cell" && cell === "single")
      context.addIssue({ code: "custom", path: ["cell"], message: "a cell needs its name" });
  }),
  placed({ quota, hub, projects, ...spec }, { folder }) {
    const at = <T extends { readonly kubeconfig?: string | undefined }>(it: T): T =>
      it.kubeconfig === undefined ? it : { ...it, kubeconfig: path.resolve(folder, it.kubeconfig) };
    const placesOf = (it: ProjectPlaces): ProjectPlaces => {
      if (it === "self") return it;
      return "milo" in it ? { milo: at(it.milo) } : { kubeconfigs: it.kubeconfigs.map(at) };
    };
    return {
      ...spec,
      ...(hub && { hub: hub === "self" ? hub : at(hub) }),
      ...(projects && { projects: placesOf(projects) }),
      ...(quota && { quota: at(quota) }),
    };
  },
  tooMany: onlyOne("Fleet"),
};
