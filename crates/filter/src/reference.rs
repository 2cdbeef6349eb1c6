//! The reference page of the language, from the table of primitives.

use std::fmt::Write as _;

use weir_flow::Column;

use crate::Operand;
use crate::names::{DENIED, DIRECTIONS, FIREWALL_EVENTS, FORWARDING, NAT_EVENTS, Names, PROTOCOLS};
use crate::primitive::{Direction, Form, Primitive, SPELLINGS, form_of_column, primitives, unanswerable};

const STRUCTURE: &str = "\
# Filters

A filter says which flows to take, in the language of nfdump. The empty filter takes all.

```text
src net 192.0.2.0/24 and (dst port in [80, 443] or proto icmp) and not bytes < 1k
```

* Primitives are joined by `and`, `or` and `not` (or `!`), and grouped by parentheses. `not` binds tighter than `and`,
  `and` tighter than `or`. Parentheses nest up to 128 deep.
* Words may be written in any case, over any number of lines. `#` begins a comment up to the end of the line.
* A **comparison** is `=` (or `==`, `eq`), `!=` (`ne`), `>` (`gt`), `<` (`lt`), `>=` (`ge`) or `<=` (`le`). Where none
  is written, `=` is meant. `a != b` is `not a = b`.
* A **number** is decimal, with `k`, `m`, `g` or `t` behind it for 10^3, 10^6, 10^9 or 10^12, or hexadecimal behind `0x`.
* A **list** is `in [ ... ]`, its entries parted by spaces or commas. Lists of numbers may hold ranges: `port in [80, 8000-8999]`.
* A list of addresses may be a **file**: `src ip in blocked.txt`, quoted when the name has blanks. It has an address or a
  prefix in each line, behind `#` comments; a million are no burden. `@include FILE` takes in the words of a file wherever
  it stands, as part of a list too; files may include files up to 10 deep.
* A **time** is `YYYY-MM-DDTHH:MM:SS.mmm`, cut off anywhere after the year; the rest is then the first of its kind, so
  that `first seen > 2024` means after midnight of 1 January. On the command line a time may be relative to now, as for
  `--from`: `first seen > -1h`, `first seen < yesterday 14:00`. `Z` or an offset such as `+02:00` may follow a time of
  day. Without one, the zone is UTC unless the program is told another.
* A **text** is a word, or anything in quotes. The case of its letters does not matter, unless `exactly` is before it:
  `sni 'É.example'` takes `é.example`, but `ß` is one letter and not `SS`.
  `like` takes a pattern, in quotes when it has a `%`: `%` stands for any characters, `_` for one. `sni like '%'` takes the
  flows that have a server name.
* An **Information Element** that has no column is asked for by its registered name: `element tlsCipherSuite 0x1301`,
  `element interfaceName like 'eth%'`. One that fills a column is that column.
* A **direction** stands before a primitive. Without one, `port`, `ip`, `as` and their like mean source or destination.
* **A primitive about something that a flow does not have is false**, and so `not` of it is true.
";

const DIFFERENCES: &str = "\
## Where this differs from nfdump

On purpose:

* Lists of addresses are exact sets: entries may overlap in any order, and `/0` takes in a family. nfdump's lists drop
  an entry that overlaps an earlier one.
* Host names are looked up, and files are read, only where the program allows it: on a command line, but not in a chain
  of blocks. nfdump also prints what it looks up to standard output.
* A field that the exporter did not send is absent, and no comparison with it is true. nfdump 1.7.1 reads it as 0, so
  that `out bytes 0` takes flows without such a counter; here, write `not out bytes > 0`.
* Times are UTC unless told; nfdump reads the system's zone. `Z` and offsets are accepted.
* `observation domain id` also holds the Source ID of NetFlow v9, and engine type and id of NetFlow v5.
* `icmp type` and `icmp code` need the ICMP protocol in every spelling; where an exporter sends no ICMP elements, they
  are read from the destination port.
* `duration`, `pps` and `bps` are absent where a flow ends before it starts. nfdump computes with unsigned numbers.
* `ip` takes a prefix too, `net` may leave out the last octets of an IPv4 prefix, flag letters may be lower case.
* `mask`, `vlan`, `proto` and their like take every comparison. nfdump takes equality alone.
* `geo`, `ip tor`, tunnels, payload and pf logs are refused with the reason, see below.

In addition: `!=` and `ne`, ranges in lists, lists behind every number, comparisons behind every number, `reverse packets`
and `reverse bytes`, `ip in FILE`, `ttl spread`, and every column by its name. How nfdump 1.7.1 answers, filter by filter, is
in [filter-interop.md](filter-interop.md).
";

/// The reference page, in Markdown.
pub fn reference_markdown() -> String {
    let mut page = String::from(STRUCTURE);
    page.push_str("\n## Primitives\n\n| primitive | takes | example | meaning | reads |\n|---|---|---|---|---|\n");
    primitives().filter(|primitive| !is_further(primitive)).for_each(|primitive| primitive_row(&mut page, primitive));
    page.push_str("\n### Other spellings\n\n`host` is `ip`, `xlate` is `nat`, `exporter` is `router`. ");
    page.push_str("`src or dst` and `src and dst` stand before a primitive that knows both, as in nfdump 1.6.\n\n");
    let spellings: Vec<String> =
        SPELLINGS.iter().map(|(spelling, phrase)| format!("`{spelling}`: `{phrase}`")).collect();
    let _ = writeln!(page, "{}.\n", spellings.join(", "));
    columns(&mut page);
    page.push_str("## Names\n\n");
    for names in [&PROTOCOLS, &FORWARDING, &NAT_EVENTS, &FIREWALL_EVENTS, &DENIED, &DIRECTIONS] {
        names_line(&mut page, names);
    }
    page.push('\n');
    page.push_str(DIFFERENCES);
    page.push_str("\n## What flows cannot answer\n\nnfdump's other primitives are known by name, and refused with the reason:\n\n");
    for (phrase, reason) in unanswerable() {
        let _ = writeln!(page, "* `{phrase}`: {reason}");
    }
    page
}

/// Whether it is one of `mpls label2` to `mpls label10`, or of their like: the first stands for all.
fn is_further(primitive: &Primitive) -> bool {
    let digits = primitive.name.trim_start_matches(|c: char| !c.is_ascii_digit());
    primitive.name.starts_with("mpls ") && !digits.is_empty() && digits != "1"
}

fn primitive_row(page: &mut String, primitive: &Primitive) {
    let takes = match primitive.form {
        Form::Always | Form::Family { .. } | Form::Zero | Form::Block => "",
        Form::Number | Form::RecordNumber => "comparison and number, or list",
        Form::Named(_) => "comparison and name or number, or list",
        Form::Address => "address, prefix or list",
        Form::Net => "prefix",
        Form::Mac => "MAC address",
        Form::Text => "text, `like` pattern, `exactly` text, or list",
        Form::Time => "comparison and time",
        Form::Flags => "letters, `=` letters, comparison and number, or list",
        Form::User => "text",
        Form::Ident => "word",
        Form::Unanswerable(reason) => reason,
    };
    let words: Vec<&str> = primitive.directions.iter().map(|Direction(words, _)| *words).collect();
    let phrases = if words == [""] {
        format!("`{}`", primitive.name)
    } else {
        let words = words.iter().map(|words| if words.is_empty() { "–".to_owned() } else { format!("`{words}`") });
        format!("`{}` with {}", primitive.name, words.collect::<Vec<_>>().join(", "))
    };
    let mut reads: Vec<&str> = primitive
        .directions
        .iter()
        .flat_map(|Direction(_, operands)| operands.iter().flat_map(|operand| operand.columns()))
        .map(|column| column.name())
        .collect();
    let mut seen = std::collections::HashSet::new();
    reads.retain(|name| seen.insert(*name));
    let reads = reads.join(", ");
    let _ = writeln!(page, "| {phrases} | {takes} | `{}` | {} | {reads} |", primitive.example, primitive.doc);
}

fn columns(page: &mut String) {
    page.push_str(
        "### Columns by name\n\nEvery column of flows may be asked by its name, such as `sampling_interval > 1`: ",
    );
    let in_table =
        |column: &Column| primitives().any(|p| p.directions.iter().any(|d| d.1 == [Operand::Column(*column)]));
    let named = Column::ALL.iter().filter(|column| form_of_column(**column).is_some() && !in_table(column));
    let names: Vec<String> = named.map(|column| format!("`{column}`")).collect();
    let _ = writeln!(page, "this is the only way to ask for {}.\n", names.join(", "));
}

fn names_line(page: &mut String, names: &Names) {
    let table: Vec<String> = names.table.iter().map(|(name, number)| format!("`{name}` {number}")).collect();
    let _ = writeln!(page, "* {}: {}.", names.what, table.join(", "));
}
