/** The reason that a parent shows when several children are blocked. */

/** Unlisted reasons have rank 0. */
const RANKS: ReadonlyMap<string, number> = new Map(
  Object.entries({
    NetworkFailedToCreate: 7,
    NetworkNotFound: 6,
    NoMatchingLocations: 6,
    NoMatchingLocation: 6,
    AmbiguousServingLocation: 6,
    CityCodeMismatch: 6,
    DeploymentNameTaken: 6,
    InstanceNameTaken: 6,
    TemplateTooLarge: 6,
    NetworkChanged: 6,
    ForeignNetwork: 6,
    NetworksNotRead: 6,
    SourceNotFound: 5,
    SourceTooLarge: 5,
    SourceUnauthorized: 5,
    ImageUnavailable: 5,
    InstanceCrashing: 5,
    ConfigurationError: 5,
    ReferencedDataNotReady: 4,
    AwaitingPropagation: 4,
    Resolving: 4,
    QuotaNotGranted: 3,
    PendingQuota: 3,
    NetworkProvisioning: 2,
    InstancesProvisioning: 1,
    Provisioning: 1,
  }),
);

export function rankOf(reason: string): number {
  return RANKS.get(reason) ?? 0;
}

/** The candidate with the highest rank; the first of equals. `base` when none is above it. */
export function worstOf<T extends { readonly reason: string }>(base: T, candidates: readonly T[]): T {
  return candidates.reduce((worst, one) => (rankOf(one.reason) > rankOf(worst.reason) ? one : worst), base);
}
