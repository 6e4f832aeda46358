/** The common part of every controller program: documents, statuses, admission, faults and start. */
import type { KubeClient, ObjectReference } from "@berth/kube";
import {
  type Clock,
  type ClusterName,
  type Component,
  createJsonLogger,
  createRuntime,
  createSharedInformers,
  type EventRecorder,
  type GuardedClient,
  type Informer,
  type Logger,
  type MetricsRegistry,
  type RunEnd,
  type Runtime,
  type RuntimeOptions,
  type SharedInformers,
  type StartStage,
  systemClock,
} from "@berth/runtime";
import {
  type Admission,
  type AdmissionHandle,
  type AdmissionMember,
  createAdmission,
} from "./admission/admission.ts";
import type { ReviewedKind } from "./admission/document-warnings.ts";
import type { AdmissionSettings } from "./admission/settings.ts";
import { createAwayReport } from "./documents/away-report.ts";
import type { Documents } from "./documents/config-files.ts";
import type { DocumentObject, KindList } from "./documents/document-kind.ts";
import { type DocumentRules, DocumentSource } from "./documents/document-source.ts";
import type { Fault } from "./documents/fault.ts";
import { faultEvent } from "./documents/fault-event.ts";
import { FaultReport } from "./documents/fault-report.ts";
import {
  CRD_GRACE_MS,
  createDocumentFollower,
  type DocumentTraces,
  type FollowedKind,
} from "./documents/follow-cluster.ts";
import { createConfigFollower } from "./documents/follow-files.ts";
import type { LocatedDocument } from "./documents/read-documents.ts";
import { createPost, type PostJson } from "./post.ts";
import type { Installed, Product } from "./product.ts";
import type { BaseStatus } from "./status/decide-status.ts";
import {
  createStatusController,
  type StatusController,
  type StatusRules,
} from "./status/status-controller.ts";

export interface HostOptions extends Omit<RuntimeOptions, "name" | "reportingController"> {
  readonly product: Product;
  /** Identifies the program's own objects. Two on one cluster need different names. Default: the product's. */
  readonly installation?: string;
  /** All document kinds of the program's capabilities. */
  readonly kinds: KindList;
  /** Configuration files and folders, watched. Default none. */
  readonly config?: readonly { readonly path: string; readonly shown: string }[];
  /** Documents that the program builds from flags. Default none. */
  readonly ofFlags?: readonly LocatedDocument[];
  /** See `FollowerDeps.graceMs`. Default `CRD_GRACE_MS`, ten minutes. */
  readonly crdGraceMs?: number;
  /** How the API server calls admission. Default: it does not. */
  readonly admission?: AdmissionSettings | undefined;
  /** Asks the API server what reviews need to know, on connections of its own. Default: `client`. */
  readonly questions?: KubeClient;
  /** Marks that documents left on objects. Default: no marks that outlive the process. */
  readonly traces?: DocumentTraces;
  /** The object of Events about files: the pod, or the namespace of its state. Absent: no such Events. */
  readonly self?: ObjectReference | undefined;
  /** The proxy of `post`, by address. Default: none. */
  readonly proxyFor?: (url: URL) => string | undefined;
}

/** Input of `Host.documents`. `S` is the spec of one document, `C` the compiled form of all of them. */
export interface HeldKind<S, C, T extends DocumentObject, St extends BaseStatus>
  extends StatusRules<T, St>,
    Pick<FollowedKind<T>, "onKnown" | "onLook"> {
  /** The capability that the traces of these documents are recorded for. Default: the kind. */
  readonly capability?: string;
  readonly rules: DocumentRules<S, C>;
  /** Called when documents came into force or ceased to be. The host updates their statuses afterwards. */
  readonly onChange: (inForce: C) => void;
}

/** The documents of one kind. The host follows and compiles them, and writes their statuses. */
export interface HeldDocuments<S, C, T extends DocumentObject>
  extends Pick<StatusController, "askRule" | "askAll" | "askChanged"> {
  readonly source: DocumentSource<S, C>;
  /** `undefined` until some source has been read. */
  readonly inForce: C | undefined;
  /** The documents of the cluster. */
  readonly objects: Informer<T>;
}

export interface Host extends Installed {
  readonly runtime: Runtime;
  readonly client: GuardedClient;
  /** Informers that come and go with documents. All that read one resource share its watches. */
  readonly informers: SharedInformers;
  readonly cluster: ClusterName;
  readonly events: EventRecorder;
  readonly metrics: MetricsRegistry;
  readonly log: Logger;
  readonly clock: Clock;
  readonly post: PostJson;
  /** Resolves once the configuration files have been read for the first time. */
  readonly filesRead: Promise<void>;
  /** Logs a fault of a file and records an Event. */
  onFault(fault: Fault): void;
  /** Calls the listener with all documents of files, each time they were read without an error. */
  onFiles(listener: (documents: Documents) => void): void;
  documents<S, C, T extends DocumentObject & { readonly status?: St }, St extends BaseStatus>(
    held: HeldKind<S, C, T, St>,
  ): HeldDocuments<S, C, T>;
  /** Adds admission rules, if the host has admission settings. Rules answer in the order in which they are added. */
  review(member: AdmissionMember): AdmissionHandle;
  /** Adds components to run. @param stage default `first`. */
  add(components: readonly Component[], stage?: StartStage): void;
  /** See `Runtime.run`. */
  run(signal: AbortSignal): Promise<RunEnd>;
}

/** Creates a host. Nothing runs before `run`. */
export function createHost(options: HostOptions): Host {
  const {
    product,
    installation = product.name,
    kinds,
    config = [],
    ofFlags,
    self,
    admission: settings,
  } = options;
  const { clock = systemClock, log = createJsonLogger(), crdGraceMs: graceMs = CRD_GRACE_MS } = options;
  const { questions = options.client } = options;
  const { traces = { whenKnown: () => Promise.resolve(true), of: () => false } } = options;
  const runtime = createRuntime({
    ...options,
    name: product.name,
    reportingController: `${product.domain}/controller`,
    clock,
    log,
  });
  const { client, cluster, events, metrics } = runtime;
  const machine = { client, cluster, clock, log, metrics };
  const listeners: ((documents: Documents) => void)[] = [];
  const members: AdmissionMember[] = [];
  const reviewed: ReviewedKind[] = [];
  let admission: Admission | undefined;
  const onFault = (fault: Fault): void => {
    const { file, line, column, severity, reason, message } = fault;
    log[severity === "error" ? "error" : "warn"](message, { file, line, column, reason });
    if (self !== undefined) events.record(faultEvent(fault, self));
  };
  const onAway = createAwayReport({ kinds, events, self, metrics, log });
  const files = createConfigFollower({
    config,
    kinds,
    ...(ofFlags && { ofFlags }),
    clock,
    log,
    onDocuments(documents) {
      for (const listener of listeners) listener(documents);
    },
    onFault,
  });
  runtime.add(files, "first");
  return {
    runtime,
    ...machine,
    informers: createSharedInformers({ client, cluster, clock }),
    product,
    installation,
    events,
    post: createPost(clock, product.name, options.proxyFor),
    filesRead: files.firstReading,
    onFault,
    onFiles: (listener) => listeners.push(listener),
    documents<S, C, T extends DocumentObject & { readonly status?: St }, St extends BaseStatus>(
      held: HeldKind<S, C, T, St>,
    ): HeldDocuments<S, C, T> {
      const { kind } = held.rules;
      const objects = runtime.informer(kind.resource, { optional: true }) as Informer<T>;
      const faults = new FaultReport(onFault);
      const source = new DocumentSource<S, C>(held.rules, (inForce) => {
        faults.report(kind.kind, source.configFaults());
        held.onChange(inForce);
        statuses.askAll();
      });
      const statuses = createStatusController<T, St>({
        ...held,
        ...machine,
        resource: kind.resource as never,
        objects,
        source,
        events,
      });
      const followed = { capability: kind.kind, ...held, kind, documents: objects, source };
      runtime.add(
        createDocumentFollower(followed, { product, client, traces, clock, graceMs, onAway }),
        "everywhere",
      );
      runtime.add(statuses.controller, "elected");
      listeners.push((documents) => source.setConfig(documents.documentsOf(kind)));
      reviewed.push({ resource: kind.resource, remarksOn: (object) => source.remarksOn(object) });
      return {
        source,
        objects,
        ...statuses,
        get inForce() {
          return source.inForce;
        },
      };
    },
    review(member) {
      members.push(member);
      const handle = (): AdmissionHandle | undefined => admission?.of(member.rules.name);
      return {
        state: () => handle()?.state(),
        changed: () => handle()?.changed(),
        seen: (change) => handle()?.seen(change),
      };
    },
    add(components, stage) {
      for (const component of components) runtime.add(component, stage);
    },
    run(signal) {
      const { lease } = options;
      if (settings !== undefined && members.length > 0) {
        admission = createAdmission(settings, {
          ...machine,
          questions: runtime.guard(questions),
          product,
          installation,
          members,
          documents: reviewed,
          ...(lease && { lease }),
        });
        for (const component of admission.always) runtime.add(component, "everywhere");
        for (const component of admission.elected) runtime.add(component, "elected");
      }
      return runtime.run(signal);
    },
  };
}
