/** Addresses that Berth connects to: image names, redirects and token services are untrusted input. */
import { BlockList, isIP } from "node:net";

/** This machine, its link, and the addresses where clouds serve machine credentials. */
const FORBIDDEN = [
  "0.0.0.0/8",
  "127.0.0.0/8",
  "169.254.0.0/16",
  "100.100.100.200/32",
  "168.63.129.16/32",
  "192.0.0.0/24",
  // Benchmarks, multicast, reserved and broadcast.
  "198.18.0.0/15",
  "224.0.0.0/3",
  // `::`, `::1`, and the old form of IPv4 addresses in IPv6.
  "::/96",
  "fe80::/10",
  // IPv4 addresses in other prefixes than those below: SIIT, local NAT64 (RFC 8215), Teredo; and multicast.
  "::ffff:0:0:0/96",
  "64:ff9b:1::/48",
  "2001::/32",
  "ff00::/8",
  "fd00:ec2::254/128",
  "fd20:ce::254/128",
];
const PRIVATE = ["10.0.0.0/8", "100.64.0.0/10", "172.16.0.0/12", "192.168.0.0/16", "fc00::/7", "fec0::/10"];

/** Forbidden addresses of connections. `net.connect` checks each address before it connects. */
export class AddressGuard {
  /** For hosts that any image name can hold: private registries are allowed. */
  readonly ofImages: BlockList;
  /** For hosts named by a server at a public address. */
  readonly ofPublic: BlockList;

  /** @param forbidden ranges (CIDR); these and `inside` are parameters because tests have loopback only. */
  constructor(forbidden: readonly string[] = FORBIDDEN, inside: readonly string[] = PRIVATE) {
    this.ofImages = blocking(forbidden);
    this.ofPublic = blocking([...forbidden, ...inside]);
  }

  /** Whether this is an address that must not be connected to. Names are not. */
  isBlocked(host: string, byPublic: boolean): boolean {
    const family = isIP(host);
    const list = byPublic ? this.ofPublic : this.ofImages;
    return family !== 0 && list.check(host, family === 6 ? "ipv6" : "ipv4");
  }

  /** Whether an address is neither private nor forbidden. An unknown address counts as public. */
  isPublic(address = ""): boolean {
    const [bare = ""] = address.split("%");
    const family = isIP(bare);
    return family === 0 || !this.ofPublic.check(bare, family === 6 ? "ipv6" : "ipv4");
  }
}

/** A BlockList takes `::ffff:127.0.0.1` for `127.0.0.1`; NAT64 (RFC 6052) and 6to4 (RFC 3056) are added here. */
function blocking(ranges: readonly string[]): BlockList {
  const list = new BlockList();
  for (const range of ranges) {
    const [address = "", bits = ""] = range.split("/");
    if (isIP(address) === 6) {
      list.addSubnet(address, Number(bits), "ipv6");
      continue;
    }
    const [a, b, c, d] = address.split(".").map((byte) => Number(byte).toString(16).padStart(2, "0"));
    list.addSubnet(address, Number(bits), "ipv4");
    list.addSubnet(`64:ff9b::${a}${b}:${c}${d}`, 96 + Number(bits), "ipv6");
    list.addSubnet(`2002:${a}${b}:${c}${d}::`, 16 + Number(bits), "ipv6");
  }
  return list;
}
