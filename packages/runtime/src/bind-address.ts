/** Where a server listens. `host` absent: on all addresses, IPv6 and IPv4. Port 0: any free one. */
export interface BindAddress {
  readonly host?: string;
  readonly port: number;
}

/**
 * Reads an address as controller-runtime's flags have it: `:8080` (all addresses), `127.0.0.1:8080`,
 * `localhost:0`, `[::1]:8080`; `0` means off and gives `undefined`.
 * @throws RangeError for anything else, saying what is expected.
 */
export function parseBindAddress(text: string): BindAddress | undefined {
  if (text === "0") return undefined;
  const match = /^(?:\[(?<ipv6>[0-9A-Fa-f:.%\w]+)\]|(?<host>[A-Za-z0-9.-]*)):(?<port>\d{1,5})$/.exec(text);
  const port = Number(match?.groups?.["port"]);
  if (match === null || port > 65_535) {
    throw new RangeError(
      `${JSON.stringify(text)} is no address to listen on: expected ":8080", "127.0.0.1:8080", "[::1]:8080" or "0" for off`,
    );
  }
  const host = match.groups?.["ipv6"] ?? match.groups?.["host"] ?? "";
  return host === "" ? { port } : { host, port };
}
