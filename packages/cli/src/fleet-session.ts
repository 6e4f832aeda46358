/** What commands about Workloads share: the object that the user names, and the Fleet of `--config`. */
import type { Change, FleetReading, Workload } from "@berth/fleet";
import { fleetKind, forecastWorkload, formatForecast, readFleetFacts, workloads } from "@berth/fleet";
import { styleFor } from "@berth/host";
import { isApiError } from "@berth/kube";
import type { CommandDeps } from "./command-deps.ts";
import { loadSettings } from "./config/settings.ts";
import type { ConnectionOptions } from "./connection.ts";
import { CommandError, exitCodes } from "./exit-codes.ts";
import { openFleet } from "./fleet-settings.ts";
import { openSession, readOne, type Session } from "./session.ts";

/** The options of a command about one object of a namespace. */
export interface FleetObjectOptions extends ConnectionOptions {
  /** `NAME`, or `NAMESPACE/NAME`. */
  readonly name: string;
  readonly namespace?: string;
}

/** `-n`, else that of the context, else `default`. */
export function namespaceOf(namespace: string | undefined, { choice: cluster }: Session): string {
  return namespace ?? cluster.namespace ?? "default";
}

/** @throws CommandError when the name is no name, or `-n` names another namespace. */
export function objectOf(
  { name: given, namespace }: FleetObjectOptions,
  session: Session,
): { readonly namespace: string; readonly name: string } {
  const [first = "", second, ...rest] = given.split("/");
  if (first === "" || second === "" || rest.length > 0)
    throw new CommandError(`${given}: expected NAME or NAMESPACE/NAME`, exitCodes.usage);
  if (second === undefined) return { namespace: namespaceOf(namespace, session), name: first };
  if (namespace !== undefined && namespace !== first)
    throw new CommandError(`${given}: --namespace ${namespace} names another namespace`, exitCodes.usage);
  return { namespace: first, name: second };
}

/** Reads the document Fleet, and connects to its quota service. Without one there is no `fleet`. */
export async function readGivenFleet(
  { config }: { readonly config?: readonly string[] },
  deps: CommandDeps,
  owned: AsyncDisposableStack,
): Promise<Pick<FleetReading, "fleet">> {
  const settings = await loadSettings({ ...(config && { config }) }, deps.folder);
  const spec = settings.specOf(fleetKind);
  return spec === undefined ? {} : { fleet: owned.use(await openFleet({ spec }, deps)) };
}

/** Sends the change, and shows it with what follows from it. */
export async function changeWorkload(
  options: FleetObjectOptions,
  deps: CommandDeps,
  changeOf: (workload: Workload) => Change,
): Promise<void> {
  await using session = await openSession(options, deps);
  const of = objectOf(options, session);
  const { client, signal } = session;
  const called = `Workload ${of.namespace}/${of.name}`;
  const change = changeOf(await readOne(workloads, of, session));
  if ("problem" in change) throw new CommandError(`${called} is not changed: ${change.problem}`);
  const { what, before, after } = change;
  if (before === after) {
    deps.stdout.write(`${called}: ${what} is ${after} already.\n`);
    return;
  }
  // Read before the change: a running Berth acts on it at once.
  const facts = await readFleetFacts({ run: session, namespace: of.namespace }, { withPods: false });
  await client
    .patch(workloads, of, change.patch, { signal })
    .catch((error: unknown) => refuse(called, error));
  const forecast = formatForecast(forecastWorkload(change.next, facts), styleFor(deps.stdout));
  deps.stdout.write(`${called}: ${what}: ${before} → ${after}\n\n${forecast}`);
}

/** @throws CommandError with all causes when admission refused the object, and the error itself otherwise. */
function refuse(called: string, error: unknown): never {
  if (!isApiError(error, "invalid") || error.failure.kind !== "invalid") throw error;
  const causes = error.failure.causes.map(({ field = "", message = "" }) =>
    [field, message].filter((part) => part !== "").join(": "),
  );
  const why = causes.length === 0 ? error.message : causes.map((cause) => `\n  ${cause}`).join("");
  throw new CommandError(
    `${called} is not changed, the API server refuses it:${causes.length === 0 ? " " : ""}${why}`,
    exitCodes.failed,
    {
      cause: error,
    },
  );
}
