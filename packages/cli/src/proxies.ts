/**
 * The proxies that the environment names, by the rules of Go's `golang.org/x/net/http/httpproxy`: so the kubelet,
 * container runtimes and kubectl find theirs.
 */
import { BlockList, isIP } from "node:net";
import type { ProxyFor } from "@berth/registry";
import type { Environment } from "./command-deps.ts";
import { CommandError, exitCodes } from "./exit-codes.ts";

/** Servers that are reached without a proxy. */
interface Exceptions {
  readonly all: boolean;
  /** Addresses by port; `""` is any port. */
  readonly addresses: ReadonlyMap<string, BlockList>;
  /** `.example.com` stands for the names below, `example.com` for itself too. With a port: `example.com:8443`. */
  readonly names: ReadonlySet<string>;
}

/**
 * `HTTPS_PROXY`, `HTTP_PROXY` and `NO_PROXY`, in upper or lower case. This machine is never reached through a proxy.
 *
 * @throws CommandError for a proxy that is no http or https URL. It does not repeat the value, which may hold a password.
 */
export function proxiesOf(environment: Environment): ProxyFor {
  const valueOf = (name: string): string => environment[name] || environment[name.toLowerCase()] || "";
  const proxies = {
    "https:": toProxy("HTTPS_PROXY", valueOf("HTTPS_PROXY")),
    "http:": toProxy("HTTP_PROXY", valueOf("HTTP_PROXY")),
  };
  const without = toExceptions(valueOf("NO_PROXY"));
  return ({ protocol, hostname, port }) => {
    const proxy = protocol === "https:" || protocol === "http:" ? proxies[protocol] : undefined;
    const host = hostname.replace(/^\[|\]$|\.$/g, "").toLowerCase();
    const reached = port || (protocol === "https:" ? "443" : "80");
    return proxy === undefined || isExcepted(host, reached, without) ? undefined : proxy;
  };
}

function toProxy(name: string, value: string): string | undefined {
  if (value === "") return undefined;
  const url = URL.parse(value.includes("://") ? value : `http://${value}`);
  if (url?.protocol === "http:" || url?.protocol === "https:") return url.href;
  const message = `${name} is no http:// or https:// URL of a proxy (its value is not shown: it may hold a password)`;
  throw new CommandError(message, exitCodes.usage);
}

function toExceptions(text: string): Exceptions {
  const addresses = new Map<string, BlockList>();
  const names = new Set<string>();
  const listOf = (port: string): BlockList => {
    const list = addresses.get(port) ?? new BlockList();
    addresses.set(port, list);
    return list;
  };
  const entries = text
    .toLowerCase()
    .split(",")
    .map((entry) => entry.trim());
  for (const entry of entries) {
    const [, range = "", bits = ""] = /^([0-9a-f.:]+)\/(\d{1,3})$/.exec(entry) ?? [];
    const family = isIP(range);
    if (family !== 0) {
      if (Number(bits) <= (family === 6 ? 128 : 32))
        listOf("").addSubnet(range, Number(bits), nameOf(family));
      continue;
    }
    const [, named = "", port = ""] = isIP(entry) ? [entry, entry] : (/^(.*?)(?::(\d+))?$/.exec(entry) ?? []);
    const host = named.replace(/^\[|\]$/g, "");
    if (isIP(host) !== 0) listOf(port).addAddress(host, nameOf(isIP(host)));
    else if (host !== "" && host !== "*") names.add(`${host.replace(/^\*\./, ".")}${port && `:${port}`}`);
  }
  return { all: entries.includes("*"), addresses, names };
}

const nameOf = (family: number): "ipv4" | "ipv6" => (family === 6 ? "ipv6" : "ipv4");

function isExcepted(host: string, port: string, { all, addresses, names }: Exceptions): boolean {
  const family = isIP(host);
  if (all || host === "localhost" || (family !== 0 && LOOPBACK.check(host, nameOf(family)))) return true;
  if (family !== 0) return ["", port].some((one) => addresses.get(one)?.check(host, nameOf(family)) === true);
  const labels = host.split(".");
  const above = labels.slice(1).flatMap((_, index) => {
    const domain = labels.slice(index + 1).join(".");
    return [domain, `.${domain}`];
  });
  return [host, ...above].some((name) => names.has(name) || names.has(`${name}:${port}`));
}

const LOOPBACK = new BlockList();
LOOPBACK.addSubnet("127.0.0.0", 8, "ipv4");
LOOPBACK.addAddress("::1", "ipv6");
