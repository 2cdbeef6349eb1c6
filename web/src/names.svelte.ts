// What values are called: labels and names that the server knows of addresses, AS and interfaces, asked in one request for all
// that are shown; and the usual names of ports, which need no server.
import { SvelteMap } from "svelte/reactivity";
import type { Cell, NamesAnswer, ValueName } from "./api.ts";
import { Problem, request } from "./client.ts";
import { isAddress } from "./filterText.ts";
import type { Surroundings } from "./things.ts";

/** What is shown within this time is asked in one request. */
const GATHER_MS = 40;
/** The server takes no more at a time. */
const VALUES_MAX = 500;

/** Ports whose names operators use, for TCP and UDP alike. */
const PORTS: Record<string, string> = {
  "20": "ftp-data", "21": "ftp", "22": "ssh", "23": "telnet", "25": "smtp", "43": "whois", "49": "tacacs", "53": "dns", "67": "dhcp", "68": "dhcp", "69": "tftp", "80": "http",
  "88": "kerberos", "110": "pop3", "111": "rpcbind", "119": "nntp", "123": "ntp", "135": "msrpc", "137": "netbios", "138": "netbios", "139": "netbios", "143": "imap",
  "161": "snmp", "162": "snmptrap", "179": "bgp", "389": "ldap", "443": "https", "445": "smb", "465": "smtps", "500": "isakmp", "514": "syslog", "515": "printer", "546": "dhcpv6",
  "547": "dhcpv6", "587": "submission", "623": "ipmi", "631": "ipp", "636": "ldaps", "853": "dns over tls", "873": "rsync", "989": "ftps", "990": "ftps", "993": "imaps", "995": "pop3s",
  "1080": "socks", "1194": "openvpn", "1433": "mssql", "1521": "oracle", "1701": "l2tp", "1723": "pptp", "1812": "radius", "1813": "radius", "1883": "mqtt", "1900": "ssdp",
  "2049": "nfs", "2055": "netflow", "2375": "docker", "3128": "squid", "3260": "iscsi", "3268": "global catalog", "3306": "mysql", "3389": "rdp", "3478": "stun", "4500": "ipsec nat-t",
  "4739": "ipfix", "4789": "vxlan", "5004": "rtp", "5060": "sip", "5061": "sips", "5222": "xmpp", "5353": "mdns", "5355": "llmnr", "5432": "postgresql", "5672": "amqp", "5900": "vnc",
  "6343": "sflow", "6379": "redis", "6667": "irc", "8080": "http-alt", "8443": "https-alt", "8883": "mqtts", "9042": "cassandra", "9092": "kafka", "9100": "jetdirect", "9200": "elasticsearch",
  "11211": "memcached", "27017": "mongodb", "51820": "wireguard",
};

type Group = keyof NamesAnswer;

/** What the server knows a value by: an address of any column is asked for once. */
function groupOf(column: string, value: string, row: Surroundings): { group: Group; key: string } | null {
  if (/_as$/.test(column)) return /^[1-9]\d*$/.test(value) ? { group: "as", key: value } : null;
  if (/^(in|out)_if$/.test(column)) return typeof row.exporter === "string" && isAddress(row.exporter) ? { group: "interface", key: `${row.exporter}/${value}` } : null;
  return isAddress(value) && !value.includes("/") ? { group: "address", key: value } : null;
}

class Names {
  #known = new SvelteMap<string, ValueName>();
  #asked = new Set<string>();
  #waiting: { group: Group; key: string }[] = [];
  #timer: ReturnType<typeof setTimeout> | undefined;
  /** Servers without names say so once, and are not asked again. */
  #isOff = false;

  /** What is known of a value; it is asked for when nothing is known yet. */
  of(column: string, value: Cell | undefined, row: Surroundings = {}): ValueName | null {
    if (value === null || value === undefined || value === "") return null;
    const text = String(value);
    if (/_port$/.test(column)) return PORTS[text] ? { label: PORTS[text] } : null;
    const wanted = groupOf(column, text, row);
    return wanted ? this.#get(wanted.group, wanted.key) : null;
  }

  /** In one line: `backup server`, `www.example.org`, `EXAMPLE-NET DE`. */
  text(column: string, value: Cell | undefined, row: Surroundings = {}): string {
    return written(this.of(column, value, row));
  }

  ofThing(kind: string, name: string): string {
    if (kind === "service") return PORTS[name.split("/").at(-1) ?? ""] ?? "";
    if (kind === "as" || kind === "interface") return (kind === "as" || name.includes("/")) ? written(this.#get(kind, name)) : "";
    return name.includes("/") ? "" : written(this.#get("address", name));
  }

  #get(group: Group, key: string): ValueName | null {
    const id = `${group} ${key}`;
    if (!this.#isOff && !this.#asked.has(id)) {
      this.#asked.add(id);
      this.#waiting.push({ group, key });
      this.#timer ??= setTimeout(() => void this.#ask(), GATHER_MS);
    }
    return this.#known.get(id) ?? null;
  }

  async #ask(): Promise<void> {
    const taken = this.#waiting.splice(0, VALUES_MAX);
    this.#timer = this.#waiting.length > 0 ? setTimeout(() => void this.#ask(), GATHER_MS) : undefined;
    const body: Partial<Record<Group, string[]>> = {};
    for (const { group, key } of taken) (body[group] ??= []).push(key);
    try {
      const answer = await request<NamesAnswer>("names", {}, { method: "POST", body });
      for (const group of ["address", "as", "interface"] as const) {
        for (const [key, name] of Object.entries(answer[group] ?? {})) this.#known.set(`${group} ${key}`, name);
      }
    } catch (error) {
      // Names are an addition: without them everything else is as it is.
      this.#isOff = error instanceof Problem && (error.status === 404 || error.status === 405);
      if (!this.#isOff) for (const { group, key } of taken) this.#asked.delete(`${group} ${key}`);
    }
  }
}

export function written(name: ValueName | null): string {
  if (!name) return "";
  const as = name.as_name ?? (name.as ? `AS${name.as}` : "");
  return [name.label ?? name.host ?? as, name.country].filter((part) => part).join(" ");
}

export const names = new Names();
