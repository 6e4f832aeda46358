/** What would change a block, by its reason. Pure. */

const TEMPLATE =
  "Berth replaces Instances that are not ready as soon as the template of the Workload is corrected";

const ADVICE: Readonly<Record<string, string>> = {
  ImageUnavailable: `Correct the image or its pull secret, or push the image. ${TEMPLATE}.`,
  InstanceCrashing: `Read the logs of the container and correct what it needs. ${TEMPLATE}.`,
  ConfigurationError: `Correct what the message names. ${TEMPLATE}.`,
  QuotaExceeded: "Raise the budget of the project, or lower minReplicas. Berth asks again by itself.",
  QuotaNoBudget: "Give the project a budget for Instances, vCPUs and memory. Berth asks again by itself.",
  PendingEvaluation: "The quota service decides about the ResourceClaim.",
  ValidationFailed: "Register the resource types of the claim with the quota service.",
  QuotaBackendUnavailable: "The quota service must answer again. Berth asks by itself.",
  QuotaMisconfigured: "Give Berth the permission to read, create and delete ResourceClaims of the project.",
  QuotaProjectNotFound: "Create the project, or correct the project of the Fleet.",
  QuotaNamespaceNotFound: "Create the namespace in the project.",
  QuotaProjectIDUnresolvable: "Label the namespace with its project.",
  NetworkFailedToCreate: "Correct the Network, and delete the NetworkBinding that failed.",
  NetworkNotFound: "Create the Network, or correct networkInterfaces of the Workload.",
  NetworkProvisioning: "The networking service must report the objects of the network as ready.",
  CellUnreachable:
    "The API server of the cell must answer again; `berth cell list` says why it does not. What runs there goes on.",
  CellUnheard: "Berth must run in the cell: `berth run --mode cell --cell NAME`. What runs there goes on.",
  CellTooLarge:
    "Something in the cell makes objects without end: find it, and delete them. What runs there goes on.",
  HubUnreachable: "The API server of the hub must answer again. What runs in cells goes on.",
  CellsNotRead: "All cells of the city must answer, or be given up: `berth cell forget`.",
  StillLocal: "Delete the Workload, and apply it again: then its Instances run in cells.",
  NoMatchingLocation: "Create a Location with the city code, or remove the city from the placement.",
  NoMatchingLocations: "Create a Location with the city code, or remove the city from the placement.",
  AmbiguousServingLocation: "Keep one Location of the city.",
  DeploymentNameTaken: "Rename the Workload or the placement.",
  RollPaused: "The quota service must answer again. Berth goes on with the roll by itself.",
  Deleting: "What its finalizers name must be gone.",
  Provisioning: "The pod must become ready; `berth explain pod NAMESPACE/NAME` says where it may run.",
  ProgrammingInProgress:
    "A node must take the pod; `berth explain pod NAMESPACE/NAME` says where it may run.",
  SchedulingGatesPresent: "Its scheduling gates must be opened; the tree shows what each waits for.",
  Pending: "A running Berth must look at it: is there a `berth run` with a Fleet?",
};

const IN_CELL =
  "The pod in the cell must become ready; there `berth explain pod NAMESPACE/NAME --kubeconfig FILE` says where it may run.";
const ADD_CELL = "Add a cell of the city (`berth cell add`), or remove the city from the placement.";

/** Where cells run the Instances. */
const WITH_CELLS: Readonly<Record<string, string>> = {
  ...ADVICE,
  Provisioning: IN_CELL,
  ProgrammingInProgress: IN_CELL,
  NoMatchingLocation: ADD_CELL,
  NoMatchingLocations: ADD_CELL,
  Pending: "A running Berth must look at it: is there a `berth run` with a Fleet in mode management?",
};

/** A sentence; `undefined` for reasons of other programs, and for those that pass by themselves. */
export function adviceFor(reason: string, { hasCells }: { readonly hasCells: boolean }): string | undefined {
  const advice = hasCells ? WITH_CELLS : ADVICE;
  return Object.hasOwn(advice, reason) ? advice[reason] : undefined;
}
