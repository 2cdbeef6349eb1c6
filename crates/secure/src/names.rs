//! Names in certificates (RFC 7011 section 11.3).

use std::net::IpAddr;

use openssl::nid::Nid;
use openssl::x509::X509Ref;

/// Whether a certificate has one of these names: a DNS name or an address among its alternative names, or, when it has
/// no DNS names, its common name. Names are compared whole: `*.example.net` in a certificate is a name like others.
pub(crate) fn has_one_of(certificate: &X509Ref, names: &[String]) -> bool {
    let is_listed = |name: &str| names.iter().any(|known| known.eq_ignore_ascii_case(name));
    let mut has_dns_names = false;
    for name in certificate.subject_alt_names().iter().flatten() {
        if let Some(name) = name.dnsname() {
            has_dns_names = true;
            if is_listed(name) {
                return true;
            }
        }
        let address = name.ipaddress().and_then(address);
        if address.is_some_and(|address| names.iter().any(|known| known.parse() == Ok(address))) {
            return true;
        }
    }
    let common = certificate.subject_name().entries_by_nid(Nid::COMMONNAME);
    !has_dns_names && common.filter_map(|entry| entry.data().to_string().ok()).any(|name| is_listed(&name))
}

fn address(octets: &[u8]) -> Option<IpAddr> {
    let v4 = <[u8; 4]>::try_from(octets).map(IpAddr::from);
    v4.or_else(|_| <[u8; 16]>::try_from(octets).map(IpAddr::from)).ok()
}
