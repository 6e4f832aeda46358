/** Which hub made the deployment of a cell, for which source. Signed, as a cell can write anything on it. */
import { createHmac, createSecretKey, timingSafeEqual } from "node:crypto";
import type { KubeObject } from "@berth/kube";
import { annotations as keys } from "./keys.ts";

export interface Origin {
  /** The uid of the hub. */
  readonly hub: string;
  /** Of the deployment in the project. */
  readonly sourceUid: string;
  readonly epoch: number;
  readonly start: number;
}

/** Where the deployment is. A signature is worth nothing in another place. */
export interface Place {
  readonly cellUid: string;
  readonly namespace: string;
  readonly name: string;
}

export interface Signer {
  sign(origin: Origin, place: Place): string;
  /** Of the record that a project keeps of a placement: its users can write it. @param sourceUid of the deployment there. */
  signRecord(sourceUid: string, placement: string): string;
}

/** @param secret at least 32 random bytes, which no cell has. */
export function createSigner(secret: Uint8Array): Signer {
  if (secret.length < 32) throw new RangeError("the key of the signatures needs at least 32 bytes");
  // Every look at a deployment in a cell checks its signature: Node would make such a key each time.
  const key = createSecretKey(secret);
  const of = (...parts: readonly (string | number)[]): string =>
    `v1-${createHmac("sha256", key).update(JSON.stringify(parts)).digest("base64url")}`;
  return {
    sign: ({ hub, sourceUid, epoch, start }, { cellUid, namespace, name }) =>
      of("v1", hub, sourceUid, epoch, start, cellUid, namespace, name),
    signRecord: (sourceUid, placement) => of("v1-record", sourceUid, placement),
  };
}

export function originAnnotations(
  origin: Origin,
  place: Place,
  signer: Signer,
): Readonly<Record<string, string>> {
  return {
    [keys.hubUid]: origin.hub,
    [keys.sourceUid]: origin.sourceUid,
    [keys.epoch]: String(origin.epoch),
    [keys.ordinalStart]: String(origin.start),
    [keys.signature]: signer.sign(origin, place),
  };
}

/** `none`: no hub made it. `forged`: it claims an origin, and the signature does not fit. */
export type OriginSeen =
  | { readonly is: "none" }
  | { readonly is: "forged"; readonly hub: string }
  | { readonly is: "signed"; readonly origin: Origin };

export function originOf({ metadata }: KubeObject, cellUid: string, signer: Signer): OriginSeen {
  const { name = "", namespace = "" } = metadata ?? {};
  // The API server of a cell may answer with what no other one stores.
  const annotations: Readonly<Record<string, unknown>> = metadata?.annotations ?? {};
  const text = (key: string): string => {
    const value = annotations[key];
    return typeof value === "string" ? value : "";
  };
  const hub = text(keys.hubUid);
  if (hub === "") return { is: "none" };
  const origin: Origin = {
    hub,
    sourceUid: text(keys.sourceUid),
    epoch: Number(text(keys.epoch)),
    start: Number(text(keys.ordinalStart)),
  };
  const right = Buffer.from(signer.sign(origin, { cellUid, namespace, name }));
  const found = Buffer.from(text(keys.signature));
  const isSigned = right.length === found.length && timingSafeEqual(right, found);
  return isSigned ? { is: "signed", origin } : { is: "forged", hub };
}
