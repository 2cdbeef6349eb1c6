// What values are called: labels and countries that the server knows of addresses, asked in one request for all that are shown;
// names of interfaces, by the options of their exporters; and the usual names of ports and countries, which need no server.
import { SvelteMap } from "svelte/reactivity";
import type { AnswerColumn, Cell, Interface, KnownNames } from "./api.ts";
import { Problem, request } from "./client.ts";
import { countryName } from "./countries.ts";
import { isAddress } from "./filterText.ts";
import { server } from "./server.svelte.ts";
import type { Surroundings } from "./things.ts";
import { toParameter } from "./times.ts";

/** What is shown within this time is asked in one request. */
const GATHER_MS = 40;
/** Addresses of a request; the server takes 500. */
const ADDRESSES_MAX = 200;
/** How often a request that the server refuses is asked in halves: enough to find two of its addresses. */
const HALVINGS_MAX = 16;
/** The column of addresses in requests: what is known of one is the same in all columns. */
const COLUMN = "src_addr";
/** Statuses of servers without names, or without names for who asks. */
const WITHOUT_NAMES = [403, 404, 405];
/** Names of interfaces are those of exporters that sent in this time. */
const INTERFACES_FROM = "-1h";

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

class Names {
  /** By the time that they are of and the address; without a time, the newest. */
  #addresses = new SvelteMap<string, string>();
  #interfaces = new SvelteMap<string, Interface>();
  #asked = new Set<string>();
  /** Addresses by the time that their names are wanted of. */
  #waiting = new Map<string, string[]>();
  #timer: ReturnType<typeof setTimeout> | undefined;
  /** Servers without names say so once, and are not asked again. */
  #isOff = false;
  #hasInterfaces = false;

  /**
   * In one line: `backup server DE`, `xe-0/0/3`, `https`. What is not known yet is asked for. Addresses are called what they were
   * at the end of the question's time, `until`; interfaces what they are now.
   */
  text(column: Pick<AnswerColumn, "name" | "type">, value: Cell | undefined, row: Surroundings = {}, until = "now"): string {
    if (value === null || value === undefined || value === "") return "";
    const text = String(value);
    if (/_port$/.test(column.name)) return PORTS[text] ?? "";
    if (/(^|_)country$/.test(column.name)) return countryName(text);
    if (/^(in|out)_if$/.test(column.name)) return typeof row.exporter === "string" ? interfaceText(this.interface(row.exporter, text)) : "";
    // Addresses that a statement or a watch gives a name of its own are of type text.
    return column.type === "address" || column.type === "text" ? this.#address(text, until) : "";
  }

  ofThing(kind: string, name: string, until: string): string {
    if (kind === "service") return PORTS[name.split("/").at(-1) ?? ""] ?? "";
    if (kind === "interface") return name.includes("/") ? interfaceText(this.interface(name.slice(0, name.lastIndexOf("/")), name.slice(name.lastIndexOf("/") + 1))) : "";
    return this.#address(name, until);
  }

  interface(exporter: string, index: string): Interface | null {
    if (!this.#hasInterfaces && server.seesAll) {
      this.#hasInterfaces = true;
      void request<Interface[]>("interfaces", { from: INTERFACES_FROM })
        .then((all) => all.forEach((each) => this.#interfaces.set(`${each.exporter}/${each.index}`, each)))
        .catch(() => undefined);
    }
    return this.#interfaces.get(`${exporter}/${index}`) ?? null;
  }

  #address(text: string, until: string): string {
    if (!isAddress(text) || text.includes("/")) return "";
    const at = until === "now" ? "" : toParameter(until, Date.now());
    if (!this.#isOff && !this.#asked.has(keyOf(at, text))) {
      this.#asked.add(keyOf(at, text));
      const waiting = this.#waiting.get(at) ?? [];
      waiting.push(text);
      this.#waiting.set(at, waiting);
      this.#timer ??= setTimeout(() => void this.#ask(), GATHER_MS);
    }
    return this.#addresses.get(keyOf(at, text)) ?? "";
  }

  async #ask(): Promise<void> {
    const [at = "", waiting = []] = this.#waiting.entries().next().value ?? [];
    const taken = waiting.splice(0, ADDRESSES_MAX);
    if (waiting.length === 0) this.#waiting.delete(at);
    this.#timer = this.#waiting.size > 0 ? setTimeout(() => void this.#ask(), GATHER_MS) : undefined;
    await this.#askAbout(at, taken, { halvings: HALVINGS_MAX });
  }

  async #askAbout(at: string, addresses: string[], left: { halvings: number }): Promise<void> {
    try {
      const body = { values: { [COLUMN]: addresses }, at: at === "" ? undefined : at };
      const answer = await request<KnownNames>("names", {}, { method: "POST", body });
      for (const [address, known] of Object.entries(answer[COLUMN] ?? {})) {
        const text = [known.label ?? (known.as ? `AS${known.as}` : ""), known.country].filter((part) => part).join(" ");
        if (text !== "") this.#addresses.set(keyOf(at, address), text);
      }
    } catch (error) {
      // Names are an addition: without them everything else is as it is.
      const status = error instanceof Problem ? error.status : 0;
      if (WITHOUT_NAMES.includes(status)) this.#isOff = true;
      else if (status !== 400) addresses.forEach((address) => this.#asked.delete(keyOf(at, address)));
      // What is wrong with an address stays wrong, and costs the others nothing.
      else if (addresses.length > 1 && left.halvings > 0) {
        left.halvings -= 1;
        const middle = Math.ceil(addresses.length / 2);
        await this.#askAbout(at, addresses.slice(0, middle), left);
        await this.#askAbout(at, addresses.slice(middle), left);
      }
    }
  }
}

function keyOf(at: string, address: string): string {
  return `${at} ${address}`;
}

function interfaceText(found: Interface | null): string {
  return [found?.name, found?.description].filter((part) => part).join(" · ");
}

export const names = new Names();
