/** Whether a cluster can be a Cell. Pure. */
import type { Cell } from "../../api/cell.ts";
import { CITY } from "../../fleet/document.ts";
import { isDeleting } from "../../hub/source.ts";

/** A cluster, as its kubeconfig shows it. */
export interface Candidate {
  /** Of the Cell. */
  readonly name: string;
  readonly city: string;
  readonly uid: string;
  /** Of the credential. */
  readonly fingerprint: string;
  /** Kinds that it does not serve, and permissions that the credential lacks. */
  readonly missingKinds: readonly string[];
  readonly missingRights: readonly string[];
}

/** What Berth's cluster has. */
export interface CellsThere {
  readonly cells: readonly Cell[];
  /** Of the credentials of Cells, by their names. Those that cannot be read are left out. */
  readonly fingerprints: ReadonlyMap<string, string>;
  /** Berth's cluster itself. */
  readonly own: { readonly uid: string; readonly fingerprint: string };
}

export interface CandidateFault {
  readonly reason: CandidateReason;
  readonly message: string;
}

export type CandidateReason =
  | "NameInvalid"
  | "DuplicateIdentity"
  | "SharedCredential"
  | "WrongIdentity"
  | "CellFixed"
  | "CellEnding"
  | "ApiMissing"
  | "RightsMissing";

const DNS_LABEL = /^[a-z0-9](?:[-a-z0-9]{0,61}[a-z0-9])?$/;

/** Faults of the names alone: known before anything is read. */
export function nameFaults({ name, city }: Pick<Candidate, "name" | "city">): readonly CandidateFault[] {
  const fault = (message: string): CandidateFault => ({ reason: "NameInvalid", message });
  return [
    ...(DNS_LABEL.test(name) ? [] : [fault(`${name} is no name of a cell: it must be a DNS label`)]),
    ...(CITY.test(city) ? [] : [fault(`${city} is no city code: 1 to 16 letters, digits and dashes`)]),
  ];
}

/** All reasons why it cannot be the Cell of this name. None: it can, or is already. */
export function candidateFaults(
  candidate: Candidate,
  { cells, fingerprints, own }: CellsThere,
): readonly CandidateFault[] {
  const { name, city, uid, fingerprint, missingKinds, missingRights } = candidate;
  const faults: CandidateFault[] = [];
  const add = (reason: CandidateReason, message: string): void => void faults.push({ reason, message });
  const present = cells.find(({ metadata }) => metadata?.name === name);
  const twin = cells.find((it) => it.spec?.uid === uid && it !== present);
  if (uid === own.uid) add("DuplicateIdentity", "it is the cluster that Berth runs in");
  if (twin !== undefined) add("DuplicateIdentity", `it is Cell ${twin.metadata?.name} already`);
  if (fingerprint === own.fingerprint)
    add("SharedCredential", "its credential is the one of Berth's cluster: make one for each cell");
  for (const [cell, other] of fingerprints)
    if (cell !== name && other === fingerprint)
      add("SharedCredential", `Cell ${cell} has the same credential: make one for each cell`);
  if (present?.spec !== undefined) {
    const { spec } = present;
    if (isDeleting(present)) add("CellEnding", `Cell ${name} is being deleted`);
    else if (spec.forgotten === true)
      add("CellEnding", `Cell ${name} is forgotten: add the cluster under another name`);
    if (spec.uid !== uid)
      add("WrongIdentity", `Cell ${name} is another cluster, with uid ${spec.uid}: use another name`);
    if (spec.city !== city) add("CellFixed", `Cell ${name} is in city ${spec.city}, which cannot change`);
  }
  if (missingKinds.length > 0)
    add(
      "ApiMissing",
      `it does not serve ${missingKinds.join(", ")}: install the CRDs there (\`berth manifests crds --fleet\`)`,
    );
  if (missingRights.length > 0)
    add("RightsMissing", `the credential may not do enough there; needed: ${missingRights.join(", ")}`);
  return faults;
}
