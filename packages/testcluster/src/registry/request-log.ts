/** What clients asked of a test registry. */

/** One request that reached the registry. */
export interface RegistryRequest {
  readonly method: string;
  /** `ping` is `/v2/`; `upload` belongs to a push; `other` is everything this list has no name for. */
  readonly kind: "ping" | "manifest" | "blob" | "upload" | "tags" | "referrers" | "other";
  /** `""` for `ping` and `other`. */
  readonly repository: string;
  /** The tag or digest asked for; `""` where there is none. */
  readonly reference: string;
  /** How the client proved who it is, in lower case: `basic`, `bearer`; `""` when it did not. */
  readonly credential: string;
  /** User of a `basic` credential, never the password; else `""`. */
  readonly user: string;
  readonly userAgent: string;
  /** Path and query. */
  readonly path: string;
  /** HTTP status of the answer; 0 while there is none, and for ever when the client left before it came. */
  readonly status: number;
}

/** What a request must be to count; absent fields match everything. `userAgent` matches its beginning. */
export type RegistryRequestFilter = Partial<RegistryRequest>;

/** A moment: every request that has reached the registry before it was taken lies before it. */
export interface RegistryMark {
  readonly position: number;
}

/** How many requests of one kind came for one repository. */
export interface RegistryTally {
  readonly method: string;
  readonly kind: RegistryRequest["kind"];
  readonly repository: string;
  readonly count: number;
}

/**
 * Counts requests exactly, and at once: one is there from the moment its head has come, so before the client can have
 * the answer. What `push` sends does not count.
 */
export interface RegistryRequests {
  /** The present end. */
  mark(): RegistryMark;
  /**
   * The matching requests since `mark`, in the order in which they came.
   *
   * @throws RangeError when more than the 100,000 requests that are kept came since.
   */
  entriesSince(mark: RegistryMark, filter?: RegistryRequestFilter): readonly RegistryRequest[];
  /** How many matching requests came since `mark`. */
  countSince(mark: RegistryMark, filter?: RegistryRequestFilter): number;
  /** The matching requests by method, kind and repository, the most frequent first. */
  tallySince(mark: RegistryMark, filter?: RegistryRequestFilter): readonly RegistryTally[];
}

/** Enough for 1,000 pods of 20 images that no cache has, with room to spare; about 50 MB when full. */
const KEPT = 100_000;

/** The log, and its writing side. */
export class RequestLog implements RegistryRequests {
  #entries: { -readonly [Field in keyof RegistryRequest]: RegistryRequest[Field] }[] = [];
  /** How many were dropped from the beginning. */
  #dropped = 0;

  /** @returns how to note the status of the answer. */
  add(request: Omit<RegistryRequest, "status">): (status: number) => void {
    const entry = { ...request, status: 0 };
    this.#entries.push(entry);
    // In halves, so that a full log does not move with each request.
    if (this.#entries.length >= 2 * KEPT) {
      this.#entries = this.#entries.slice(KEPT);
      this.#dropped += KEPT;
    }
    return (status) => {
      entry.status = status;
    };
  }

  mark(): RegistryMark {
    return { position: this.#dropped + this.#entries.length };
  }

  entriesSince(mark: RegistryMark, filter?: RegistryRequestFilter): readonly RegistryRequest[] {
    // Copies: the status of an entry still comes.
    return structuredClone(this.#since(mark, filter));
  }

  countSince(mark: RegistryMark, filter?: RegistryRequestFilter): number {
    return this.#since(mark, filter).length;
  }

  tallySince(mark: RegistryMark, filter?: RegistryRequestFilter): readonly RegistryTally[] {
    const tallies = new Map<string, RegistryTally>();
    for (const { method, kind, repository } of this.#since(mark, filter)) {
      const key = JSON.stringify([method, kind, repository]);
      tallies.set(key, { method, kind, repository, count: (tallies.get(key)?.count ?? 0) + 1 });
    }
    return [...tallies.values()].sort((a, b) => b.count - a.count);
  }

  #since(mark: RegistryMark, filter: RegistryRequestFilter = {}): readonly RegistryRequest[] {
    const from = mark.position - this.#dropped;
    if (from < 0) throw new RangeError(`only the last ${KEPT} requests are kept: take the mark later`);
    return this.#entries.slice(from).filter((entry) => matches(entry, filter));
  }
}

function matches(entry: RegistryRequest, { userAgent, ...equal }: RegistryRequestFilter): boolean {
  if (userAgent !== undefined && !entry.userAgent.startsWith(userAgent)) return false;
  return Object.entries(equal).every(
    ([field, value]) => value === undefined || entry[field as keyof typeof equal] === value,
  );
}

/** What a request is for, by its method, target and headers. */
export function readRequest(
  method: string,
  path: string,
  headers: Readonly<Record<string, string | readonly string[] | undefined>>,
): Omit<RegistryRequest, "status"> {
  const [scheme = "", proof = ""] = String(headers["authorization"] ?? "").split(" ", 2);
  const credential = scheme.toLowerCase();
  return {
    method,
    ...readTarget(path.split("?", 1)[0] ?? ""),
    credential,
    user: credential === "basic" ? (Buffer.from(proof, "base64").toString().split(":", 1)[0] ?? "") : "",
    userAgent: String(headers["user-agent"] ?? ""),
    path,
  };
}

const KINDS: Readonly<Record<string, RegistryRequest["kind"]>> = {
  manifests: "manifest",
  blobs: "blob",
  tags: "tags",
  referrers: "referrers",
};

/** Endpoints of OCI distribution specification 1.1. A repository may itself have parts called `blobs`: the last counts. */
function readTarget(path: string): Pick<RegistryRequest, "kind" | "repository" | "reference"> {
  if (path === "/v2/" || path === "/v2") return { kind: "ping", repository: "", reference: "" };
  const upload = /^\/v2\/(.+)\/blobs\/uploads\/([^/]*)$/.exec(path);
  if (upload) return { kind: "upload", repository: upload[1] ?? "", reference: upload[2] ?? "" };
  const [, repository, type = "", reference = ""] =
    /^\/v2\/(.+)\/(manifests|blobs|tags|referrers)\/([^/]+)$/.exec(path) ?? [];
  const kind = KINDS[type];
  if (repository === undefined || kind === undefined) return { kind: "other", repository: "", reference: "" };
  return { kind, repository, reference: kind === "tags" ? "" : reference };
}
