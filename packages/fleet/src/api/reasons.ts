/** Reasons of conditions, findings and Events about several clusters. The value is the meaning for people. */
const MEANINGS = {
  // A deployment that is not where it should be.
  NoMatchingLocation: "No cell serves the city of the deployment, or none of them takes new deployments.",
  CellsNotRead:
    "The deployment ran before. Berth places it when every Cell of its city has been read, as one of them may have it.",
  NoFreeOrdinals: "Other cells may still have Instances under all names that the deployment could use.",
  HubUnreachable: "The hub does not answer, so nothing is known of the deployment since.",
  CellUnreachable: "The cell does not answer, so nothing is known of the deployment since.",
  CellUnheard: "The API server of the cell answers, and Berth in the cell has not renewed its Lease.",
  CellTooLarge:
    "The cell has more objects than Berth reads of one cell. What was read last stays, and counts as old.",
  CellRefuses: "The cell refuses the deployment as it is now. What runs there is older.",
  StatusRefused: "The hub refuses the status that the cell has. The numbers are those of before.",
  AwaitingEcho:
    "The cell has not confirmed the present generation: it is late, or its program does not write `observedSourceGeneration`. Karmada is made to bring what is late again, once a minute.",
  AmbiguousCell:
    "Several cells have the deployment. All go on until a person says which one keeps it, and takes the city from the others.",
  NotInCell: "The cell answers and does not have the deployment.",
  Withdrawing: "Berth deletes an earlier placement of the deployment from the cell first.",
  Superseded: "A later placement of the deployment is elsewhere. This one wants no Instances any more.",
  TakenOver: "A cell has a later placement than the hub knew. Berth takes it over.",
  // A deployment whose cell is drained.
  Moving:
    "The deployment becomes ready in another cell of its city. Afterwards it leaves the cell that is drained.",
  Moved: "The deployment is ready in another cell. It leaves the cell that is drained.",
  Left: "A cell has nothing of the deployment any more.",
  MoveEnded: "The move was given up, as its cell is not drained any more, or the other one is drained too.",
  MoveTimedOut:
    "The deployment did not become ready in another cell in time, and stays. Berth tries again after an hour, or when the cell is drained again.",
  DrainUnconfirmed:
    "The hub was restored from a backup, and so may be the drain of the cell. Undrain the cell, and drain it again if it is meant.",
  NoOtherCell: "No other cell of the city can take the deployment, so it stays in the cell that is drained.",
  CellForgotten: "The operator gave up the cell, so the deployment goes elsewhere.",
  // Names that belong to others.
  NamespaceConflict:
    "The namespace on the hub or in the cell is not that of this project. Berth writes nothing there.",
  NamespaceEnding: "The namespace is being deleted. Berth makes it again when it is gone.",
  ProjectReplaced: "A new project has the name of another one, whose objects stay until they are given up.",
  NameTaken: "A deployment of another origin has the name. Berth leaves it alone.",
  StillLocal: "The deployment was made in mode `single`, and its Instances run in the project's own cluster.",
  Orphaned:
    "A cell has a deployment that this hub made, and that is not where the hub knows it. Berth deletes nothing: adopt it or forget it.",
  Adopted: "A deployment in a cell was orphaned, and is that of its project again.",
  Forged: "A deployment in a cell claims to be of this hub, and its signature is wrong.",
  CellMutates:
    "The cell stored another spec than the hub sent: a webhook there changes it, or its CRDs are older. Berth leaves it so, and tries again every ten minutes.",
  // Objects of the hub that cannot be shown in a project.
  IdentityMissing: "A label or a record is missing that says to which project the object belongs.",
  IdentityUndecodable: "The label of the project is not one that Berth writes.",
  ProjectDeploymentMissing: "The project does not have the deployment of the Instance.",
  // Warnings about a Workload.
  CityWithoutCell: "No cell serves a city of the Workload yet, so nothing runs there.",
  NoCellTakesIt: "Cells serve a city of the Workload, and none of them takes its deployment now.",
  // Verdicts on a cell.
  Chosen: "The cell has the least to run.",
  MoreLoaded: "The cell would do. Another one has less to run.",
  CellFull: "The cell has as many deployments as Berth gives to one cell: add another one to the city.",
  Draining: "The cell is drained: its deployments move to other cells of the city.",
  NotAccepting: "The cell takes no new deployments.",
  ApiMissing: "The cell does not serve the kinds of the fleet.",
} as const;

export type HubReason = keyof typeof MEANINGS;

/** All reasons with their meaning, in the order of the reference. */
export const hubReasons: readonly { readonly reason: HubReason; readonly meaning: string }[] = Object.freeze(
  Object.entries(MEANINGS).map(([reason, meaning]) => ({ reason: reason as HubReason, meaning })),
);
