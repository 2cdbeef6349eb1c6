//! What a wrong filter is told: each case is the text, and the carets, message and hint under it.

use weir_filter::parse;

#[track_caller]
fn check(text: &str, below: &str) {
    let error = parse(text).expect_err(text);
    assert!(error.span.start <= error.span.end && error.span.end <= text.len(), "{text}: {:?}", error.span);
    let rendered = error.render(text);
    let line = rendered.split('\n').next().expect("a line");
    let rest = &rendered[line.len() + 1..];
    assert!(text.contains(line), "{text}");
    assert_eq!(rest, below, "\n{text}");
}

#[test]
fn unknown_words() {
    check("src prot 80", "    ^^^^ unknown word 'prot' after 'src'\nhint: did you mean 'port'?");
    check("prto tcp", "^^^^ unknown word 'prto'\nhint: did you mean 'proto'?");
    check("packts > 5", "^^^^^^ unknown word 'packts'\nhint: did you mean 'packets'?");
    check("banana", "^^^^^^ unknown word 'banana'");
    check(
        "ipVersion 4",
        "^^^^^^^^^ unknown word 'ipversion'\nhint: it is an Information Element: write 'element ipversion'",
    );
    check("src_ip 10.0.0.1", "^^^^^^ unknown word 'src_ip'\nhint: did you mean 'src_addr'?");
    check("dport 80", "^^^^^ unknown word 'dport'\nhint: did you mean 'dst_port'?");
    check("octets > 5", "^^^^^^ unknown word 'octets'\nhint: did you mean 'bytes'?");
    check("10.0.0.1", "^^^^^^^^ unknown word '10.0.0.1'\nhint: write 'ip 10.0.0.1'");
    check("10.0.0.0/8", "^^^^^^^^^^ unknown word '10.0.0.0/8'\nhint: write 'net 10.0.0.0/8'");
    check("any and 80", "        ^^ unknown word '80'\nhint: a number needs a primitive before it: 'port 80'");
    check("tcp", "^^^ unknown word 'tcp'\nhint: write 'proto tcp'");
    check("first sen > 2024", "      ^^^ unknown word 'sen' after 'first'\nhint: did you mean 'seen'?");
    check("icmp 8", "     ^ unknown word '8' after 'icmp'\nhint: after 'icmp' may come: code, type");
}

/// What is meant goes by what may stand there: behind a direction that is never the protocol.
#[test]
fn misspellings_in_their_context() {
    for (text, wrong, meant) in [
        ("prot 6", "prot", "protocol"),
        ("proto udp and prot 6", "prot", "protocol"),
        ("src prot 80", "prot", "port"),
        ("not dst prot 80", "prot", "port"),
        ("src or dst prot 80", "prot", "port"),
        ("src and dst prot 80", "prot", "port"),
        ("(src nat prot 80)", "prot", "port"),
        ("dst nat prot in [80 443]", "prot", "port"),
        ("src_prot 80", "src_prot", "src_port"),
        ("src prt 80", "prt", "port"),
        ("dst porrt 80", "porrt", "port"),
        ("proto tcp and src hots 192.0.2.1", "hots", "host"),
        ("dst maks 24", "maks", "mask"),
        ("src vlam 3", "vlam", "vlan"),
        ("dst contry CH", "contry", "country"),
    ] {
        let error = parse(text).expect_err(text);
        assert_eq!(&text[error.span.clone()], wrong, "{text}");
        let rendered = error.render(text);
        assert!(rendered.ends_with(&format!("\nhint: did you mean '{meant}'?")), "{rendered}");
    }
}

#[test]
fn unknown_directions() {
    check("in port 80", "^^ 'port' has no direction 'in'\nhint: 'port' knows: none, dst, nat, src, dst nat, src nat");
    check("src if 3", "^^^ 'if' has no direction 'src'\nhint: 'if' knows: none, in, out");
    check("any and src vrf 3", "        ^^^ 'vrf' has no direction 'src'\nhint: 'vrf' knows: egress, ingress");
    check("bgp next as 3", "^^^^^^^^ 'as' has no direction 'bgp next'\nhint: 'as' knows: none, dst, next, prev, src");
}

#[test]
fn incomplete() {
    check(
        "src",
        "   ^ 'src' is not complete\nhint: after 'src' may come: and, as, country, geo, host, ip, label, mac, mask, nat, net, nip, nport, or, port, tos, tun, tz, vlan, xip, xlate, xport",
    );
    check("port", "    ^ expected a number after 'port', found the end");
    check(
        "proto tcp and",
        "             ^ expected a primitive, found the end\nhint: a primitive is, for example, 'src ip 192.0.2.1' or 'dst port 53'",
    );
    check("proto tcp and or any", "              ^^ expected a primitive, found 'or'");
    check("(proto tcp", "^ this '(' is not closed\nhint: add ')'");
    check("proto tcp)", "         ^ this ')' was never opened");
    check("port in [80 443", "        ^ this '[' is not closed\nhint: add ']'");
    check("port in 80", "        ^^ expected '[' after 'in', found '80'\nhint: a list is written [ A, B, C ]");
    check(
        "src port 80 dst port 443",
        "            ^^^ expected 'and' or 'or' before 'dst'\nhint: write 'and dst' or 'or dst'",
    );
    check("src port 80 adn any", "            ^^^ expected 'and' or 'or' before 'adn'\nhint: did you mean 'and'?");
    check(
        "()",
        " ^ expected a primitive, found )\nhint: a primitive is, for example, 'src ip 192.0.2.1' or 'dst port 53'",
    );
    check(
        "proto tcp and\nsrc prot 80\nand any",
        "    ^^^^ unknown word 'prot' after 'src'\nhint: did you mean 'port'?",
    );
}

#[test]
fn wrong_values() {
    check("port 70000", "     ^^^^^ 'port' is at most 65535");
    check("port in [1, 70000]", "            ^^^^^ 'port' is at most 65535");
    check("port in [9-1]", "         ^^^ the range ends before it begins");
    check("port 80-90", "     ^^^^^ expected a number after 'port', found '80-90'\nhint: write 'port in [80-90]'");
    check("port 80, 443", "       ^ several values need a list\nhint: write 'in [ … ]'");
    check("mask 129", "     ^^^ 'mask' is at most 128");
    check("port http", "     ^^^^ expected a number after 'port', found 'http'");
    check("proto tpc", "      ^^^ unknown protocol 'tpc'\nhint: did you mean 'tcp'?");
    check("proto 256", "      ^^^ 'proto' is at most 255");
    check("flowdir up", "        ^^ unknown flow direction 'up'");
    check(
        "bytes > 99999999999999999999",
        "        ^^^^^^^^^^^^^^^^^^^^ expected a number after 'bytes', found '99999999999999999999'\nhint: a number is decimal, with k, m, g or t behind it, or 0x and hexadecimal; at most 64 bits",
    );
    check(
        "bytes > 20000000t",
        "        ^^^^^^^^^ expected a number after 'bytes', found '20000000t'\nhint: a number is decimal, with k, m, g or t behind it, or 0x and hexadecimal; at most 64 bits",
    );
    check(
        "ip 10.0.0.256",
        "   ^^^^^^^^^^ expected an address, found '10.0.0.256'\nhint: an address is, for example, 192.0.2.1 or 2001:db8::1",
    );
    check(
        "ip 10.0.0.0/33",
        "   ^^^^^^^^^^^ expected an address, found '10.0.0.0/33'\nhint: '33' is not a prefix length from 0 to 32",
    );
    check(
        "ip www.example.net",
        "   ^^^^^^^^^^^^^^^ expected an address, found 'www.example.net'\nhint: host names are not looked up here; write the address",
    );
    check(
        "src ip in blocked.txt",
        "          ^^^^^^^^^^^ files are not read here\nhint: a list is written [ A, B, C ]",
    );
    check(
        "ip in 10.0.0.1",
        "      ^^^^^^^^ expected '[' after 'in', found '10.0.0.1'\nhint: a list is written [ A, B, C ]",
    );
    check("asa user [", "         ^ expected a text after 'asa user', found '['");
    check("mpls label1 > 1048576", "              ^^^^^^^ 'mpls label1' is at most 1048575");
    check("ip > 10.0.0.1", "   ^ only '=' and '!=' fit here");
    check(
        "net 10.0.0.0",
        "    ^^^^^^^^ the network has no length\nhint: write '10.0.0.0/LENGTH', or 'ip 10.0.0.0' for a single address",
    );
    check("net 10.0.0.0 255.0.255.0", "             ^^^^^^^^^^^ the ones of mask 255.0.255.0 are not at its front");
    check("flags SQ", "       ^ 'Q' is not a TCP flag\nhint: the letters are F S R P A U E C, and X for the first six");
    check("flags > S", "      ^ only '=' and '!=' fit here");
    check(
        "mac 1:2:3",
        "    ^^^^^ expected a MAC address, found '1:2:3'\nhint: a MAC address is, for example, 00:1b:21:01:02:ff",
    );
    check(
        "first seen > 2024-13",
        "             ^^^^^^^ expected a time, found '2024-13'\nhint: a time is YYYY-MM-DDTHH:MM:SS.mmm, cut off anywhere after the year",
    );
    check(
        "first seen > 24:00",
        "             ^^^^^ expected a time, found '24:00'\nhint: a time is YYYY-MM-DDTHH:MM:SS.mmm, cut off anywhere after the year",
    );
}

#[test]
fn strange_characters() {
    check("any && any", "    ^ a filter has no '&'\nhint: write 'and'");
    check("any | any", "    ^ a filter has no '|'\nhint: write 'or'");
    check("pört 80", " ^ a filter has no 'ö'");
    for (text, at) in [("~port 80", 0), ("any and ~ port 80", 8), ("(~any)", 1)] {
        check(text, &format!("{}^ a filter has no '~'\nhint: write 'not'", " ".repeat(at)));
    }
    for (text, stray, at) in [
        ("server_name ~ google", '~', 12),
        ("server_name =~ 'google'", '~', 13),
        ("server_name *google*", '*', 12),
        ("server_name ~google and port 443", '~', 12),
    ] {
        let hint = "hint: write like '%google%' for texts with this in them";
        check(text, &format!("{}^ a filter has no '{stray}'\n{hint}", " ".repeat(at)));
    }
    check("src ip 10.0.0.*", "              ^ a filter has no '*'\nhint: write a network as in 'net 10.0.0.0/24'");
    check(
        "dns_name google*",
        "               ^ a filter has no '*'\nhint: write like '%…%' for texts with this in them",
    );
    check(
        "@include other.nf",
        "^^^^^^^^^^^^^^^^^ '@include' is not allowed here\nhint: a filter in this place is one text; put the contents of the file here",
    );
    check("any and @include", "        ^^^^^^^^ expected the name of a file after '@include'");
    check("any and @inclde x", "        ^^^^^^^ a filter has no '@inclde'\nhint: '@include FILE' takes in a file");
    check("proto 'tcp", "      ^ the quoted text does not end\nhint: put a ' at its end");
    check("port = = 80", "       ^ expected a number after 'port', found '='");
}

#[test]
fn what_flows_cannot_answer_is_named() {
    check(
        "any and src nat geo CH",
        "        ^^^^^^^^^^^ 'src nat geo' cannot be answered\nhint: flows carry no country of translated addresses; filter by 'src nat net'",
    );
    check("mpls label11 > 3", "     ^^^^^^^ unknown word 'label11' after 'mpls'\nhint: did you mean 'label10'?");
    check("count > 3", "^^^^^ 'count' cannot be answered\nhint: flows of an archive have no order of reading");
    check(
        "element nonsense 1",
        "        ^^^^^^^^ expected the name of an Information Element, found 'nonsense'\nhint: an element is written \
         'element tlsCipherSuite', or 'element 39499/336'",
    );
    check(
        "element basicList 1",
        "        ^^^^^^^^^ 'basicList' is neither a number nor a text\nhint: weir sql shows it: element(elements, 'NAME')",
    );
    check("sni", "   ^ expected a text after 'sni', found the end");
    check("payload content 'x'", "^^^^^^^ 'payload' cannot be answered\nhint: flows carry no payload");
    check(
        "ip tor",
        "^^^^^^ 'ip tor' cannot be answered\nhint: flows are not compared with the list of Tor relays; filter by 'ip in [...]'",
    );
    check(
        "sysid 3",
        "^^^^^ 'sysid' cannot be answered\nhint: exporters have no internal number; filter by 'router ip' or 'observation domain id'",
    );
    for word in ["ja4s x", "pf rule 3", "tun ip 10.0.0.1", "cnt 5", "ident x", "src tun geo CH", "dst tz 'UTC'"] {
        assert!(parse(word).expect_err(word).message.ends_with("cannot be answered"), "{word}");
    }
}

#[test]
fn nesting_has_a_limit() {
    let nested = |depth: usize| format!("{}any{}", "(".repeat(depth), ")".repeat(depth));
    assert!(parse(&nested(128)).is_ok());
    assert_eq!(parse(&nested(129)).expect_err("too deep").message, "parentheses nest deeper than 128");
    assert!(parse(&format!("{}any", "not ".repeat(100_000))).is_ok());
    assert!(parse(&format!("{}any", "(".repeat(1_000_000))).is_err());
}
