/** What a command has read, as a file, and a command that reads that file in place of the cluster. */
import {
  ApiError,
  apiVersionOf,
  type CollectionScope,
  isApiError,
  type KubeObject,
  nameOfResource,
  type Resource,
} from "@berth/kube";
import { contains, type InformerRequest, includes, type SharedInformer, scopeOf } from "@berth/runtime";
import * as z from "zod";
import {
  createListedInformers,
  failReader,
  type ListedInformers,
  type ListedInformersOptions,
  type Reader,
} from "../views/listed-informers.ts";

/** The form of the file. Another one is refused: a newer program may keep other fields of an object. */
export const SNAPSHOT_FORMAT = "snapshot/1";

/** What an informer held. */
interface View {
  /** Name of the informer. */
  readonly reader: string;
  /** `pods/v1`, and `metadata` where only that was asked for. */
  readonly resource: string;
  readonly scope: CollectionScope;
  /** The server refused to list the objects, or does not have the resource. */
  readonly failure?: Failure;
  readonly objects: readonly KubeObject[];
}

interface Failure extends Pick<ApiError, "failure" | "request"> {
  readonly message: string;
}

export interface Snapshot {
  readonly format: string;
  /** ISO 8601. A command that reads the snapshot takes this for now. */
  readonly takenAt: string;
  /** Address of the API server. */
  readonly server: string;
  readonly views: readonly View[];
  /** Of lookups, by question. */
  readonly answers: Readonly<Record<string, { readonly value: unknown } | Failure>>;
}

/** A name of Kubernetes holds nothing else. A terminal would obey other characters. */
const NAME = /^[\p{L}\p{N}._:@-]*$/u;
const name = z.string().max(253).regex(NAME, "is no name of an object");
const failure = z.strictObject({
  failure: z.looseObject({ kind: z.string() }),
  request: z.looseObject({ verb: z.string(), resource: z.string() }),
  message: z.string(),
});
const scope = z.strictObject({
  namespace: name.exactOptional(),
  labelSelector: z.string().exactOptional(),
  fieldSelector: z.string().exactOptional(),
});
const view = z.strictObject({
  reader: z.string(),
  resource: z.string(),
  scope,
  failure: failure.exactOptional(),
  objects: z.array(z.looseObject({ metadata: z.looseObject({ name, namespace: name.exactOptional() }) })),
});
const snapshot = z.strictObject({
  format: z.literal(SNAPSHOT_FORMAT),
  takenAt: z.iso.datetime(),
  server: z.string().max(2048),
  views: z.array(view),
  answers: z.record(z.string(), z.union([z.strictObject({ value: z.unknown() }), failure])),
});

/** @throws Error that says why the text is no snapshot. */
export function parseSnapshot(text: string): Snapshot {
  let data: unknown;
  try {
    data = JSON.parse(text);
  } catch {
    throw new Error("it is cut off, or no snapshot: its text is no JSON");
  }
  const read = snapshot.safeParse(data);
  // The kinds of failures and verbs are those of the program that wrote the file.
  if (read.success) return read.data as Snapshot;
  const [issue] = read.error.issues;
  if (issue?.path[0] === "format") {
    const format = z.looseObject({ format: z.unknown() }).safeParse(data).data?.format;
    throw new Error(`its format is ${JSON.stringify(format)}, and this program reads ${SNAPSHOT_FORMAT}`);
  }
  throw new Error(`${issue?.path.join(".") ?? ""}: ${issue?.message ?? "it is no snapshot"}`);
}

/**
 * Asks something that no informer holds, such as an owner. The question names it in full.
 * @param unasked the answer of a snapshot for which nothing asked this. Default: a `SnapshotGap`.
 */
export type Ask = <A>(question: string, ask: () => Promise<A>, unasked?: A) => Promise<A>;

/** The snapshot does not hold what the command reads. */
export class SnapshotGap extends Error {
  override readonly name = "SnapshotGap";

  constructor(what: string) {
    super(
      `the snapshot does not hold ${what}: give the command the files and options that it was taken with`,
    );
  }
}

export const askCluster: Ask = (_, ask) => ask();

export interface Recorder {
  readonly informers: ListedInformers;
  readonly ask: Ask;
  /** What was read until now. */
  readonly taken: () => Pick<Snapshot, "views" | "answers">;
}

/** Records what a command reads through these informers, and what it asks. */
export function recordReads(informers: ListedInformers): Recorder {
  const read: { readonly asked: InformerRequest<KubeObject>; readonly of: SharedInformer<KubeObject> }[] = [];
  const answers: Record<string, { readonly value: unknown } | Failure> = {};
  return {
    informers: {
      informer(asked) {
        const of = informers.informer(asked);
        // A snapshot holds objects of all kinds.
        read.push({ asked, of } as unknown as (typeof read)[number]);
        return of;
      },
      settled: () => informers.settled(),
    },
    async ask(question, ask) {
      try {
        const value = await ask();
        answers[question] = { value };
        return value;
      } catch (error) {
        if (isApiError(error)) answers[question] = toFailure(error);
        throw error;
      }
    },
    taken: () => ({
      views: read.map(({ asked, of }) => toView(asked, of)),
      answers,
    }),
  };
}

/** Informers and answers of a snapshot. What it does not hold is an error that says so. */
export function replayReads(
  { views, answers }: Snapshot,
  options: Omit<ListedInformersOptions, "fill">,
): Pick<Recorder, "informers" | "ask"> {
  const fill = async (reader: Reader): Promise<void> => {
    const { reader: name, resource } = placeOf(reader.asked);
    const found = views.find(
      (it) => it.reader === name && it.resource === resource && includes(scopeOf(it.scope), reader.scope),
    );
    if (found === undefined) throw new SnapshotGap(`${resource} for ${name}`);
    if (found.failure !== undefined) return failReader(reader, toError(found.failure));
    const isWhole = scopeOf(found.scope).text === reader.scope.text;
    const taken = reader.sink.beginSnapshot();
    for (const one of found.objects) if (isWhole || contains(reader.scope, one)) taken.put(one);
    await reader.sink.replace(taken);
  };
  return {
    informers: createListedInformers({
      ...options,
      fill: async (readers) => void (await Promise.all(readers.map(fill))),
    }),
    ask<A>(question: string, _: () => Promise<A>, unasked?: A) {
      const answer = answers[question];
      if (answer === undefined)
        return unasked === undefined ? Promise.reject(new SnapshotGap(question)) : Promise.resolve(unasked);
      return "value" in answer ? Promise.resolve(answer.value as A) : Promise.reject(toError(answer));
    },
  };
}

/** Informers over these objects, as if a cluster had no others. What no informer holds is asked as of a cluster. */
export function sampleReads(
  objects: readonly KubeObject[],
  options: Omit<ListedInformersOptions, "fill">,
): Pick<Recorder, "informers" | "ask"> {
  const fill = async ({ asked, scope: wanted, sink }: Reader): Promise<void> => {
    const taken = sink.beginSnapshot();
    for (const one of objects)
      if (isOf(asked.resource, one) && contains(wanted, one)) taken.put(structuredClone(one));
    await sink.replace(taken);
  };
  return {
    informers: createListedInformers({
      ...options,
      fill: async (readers) => void (await Promise.all(readers.map(fill))),
    }),
    ask: (_, ask, unasked) => (unasked === undefined ? ask() : Promise.resolve(unasked)),
  };
}

/** Is the object one of this resource? */
export function isOf(resource: Resource, { apiVersion, kind }: KubeObject): boolean {
  return apiVersion === apiVersionOf(resource) && kind === resource.kind;
}

function toView(asked: InformerRequest<KubeObject>, of: SharedInformer<KubeObject>): View {
  const absence = { verb: "list", resource: nameOfResource(asked.resource) } as const;
  const why = of.refused ?? (of.isMissing ? new ApiError({ kind: "notFound" }, absence) : undefined);
  return {
    ...placeOf(asked),
    scope: asked.scope ?? {},
    ...(why && { failure: toFailure(why) }),
    objects: [...of.informer.list()],
  };
}

function placeOf({ name: reader = "", resource, metadataOnly = false }: InformerRequest<KubeObject>) {
  const version = `${nameOfResource(resource)}/${resource.version}`;
  return { reader, resource: metadataOnly ? `${version} metadata` : version };
}

function toFailure({ failure: of, request, message }: ApiError): Failure {
  return { failure: of, request, message };
}

function toError({ failure: of, request, message }: Failure): ApiError {
  return Object.assign(new ApiError(of, request), { message });
}
