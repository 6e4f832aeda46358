import { Pool } from "undici";

export interface RawPatch {
  readonly node: string;
  readonly body: object;
}

export interface RawTarget {
  readonly url: string;
  readonly ca: string;
  readonly token: string;
}

export interface RawOptions {
  /** Default 16: as many as the measured controllers have. */
  readonly inFlight?: number;
  /** Default `bench-raw`. */
  readonly userAgent?: string;
}

/**
 * The limit of everything that writes labels: one merge patch a node, 16 in flight over HTTP/1.1, nothing read,
 * decided or kept. @throws when a patch is refused.
 */
export async function sendRawPatches(
  target: RawTarget,
  patches: readonly RawPatch[],
  { inFlight = 16, userAgent = "bench-raw" }: RawOptions = {},
): Promise<void> {
  const pool = new Pool(target.url, {
    connections: inFlight,
    connect: { ca: target.ca },
    allowH2: false,
  });
  const headers = {
    authorization: `Bearer ${target.token}`,
    "content-type": "application/merge-patch+json",
    "user-agent": userAgent,
  };
  const left = patches.values();
  const work = async (): Promise<void> => {
    for (const patch of left) {
      const { statusCode, body } = await pool.request({
        method: "PATCH",
        path: `/api/v1/nodes/${patch.node}?fieldManager=bench-raw`,
        headers,
        body: JSON.stringify(patch.body),
      });
      await body.dump({ limit: 1024 * 1024 });
      if (statusCode !== 200) throw new Error(`raw patch of ${patch.node}: HTTP ${statusCode}`);
    }
  };
  try {
    await Promise.all(Array.from({ length: inFlight }, work));
  } finally {
    await pool.close();
  }
}
