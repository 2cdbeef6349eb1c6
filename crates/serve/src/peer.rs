//! From where a request comes.

use std::net::IpAddr;

use axum::http::HeaderMap;
use weir_chain::OptionError;

/// The other end of a connection.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Peer(pub(crate) IpAddr);

/// Who sent a request.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Client(pub(crate) IpAddr);

/// Reads the addresses of proxies.
pub(crate) fn proxies(texts: &[String]) -> Result<Vec<IpAddr>, OptionError> {
    let read = |text: &String| {
        text.parse::<IpAddr>()
            .map_err(|_| OptionError::new("proxies", format!("'{text}' is not an address of a proxy")))
    };
    texts.iter().map(read).collect()
}

/// Who sent a request: the other end of the connection, or where that is one of our proxies the last address that no proxy
/// has. What stands before it in the header anybody may have written.
pub(crate) fn client(headers: &HeaderMap, peer: IpAddr, proxies: &[IpAddr]) -> IpAddr {
    let mut client = peer.to_canonical();
    let forwarded = headers.get_all("x-forwarded-for").iter().filter_map(|value| value.to_str().ok());
    let named: Vec<&str> = forwarded.flat_map(|list| list.split(',')).map(str::trim).collect();
    for name in named.iter().rev() {
        if !proxies.contains(&client) {
            break;
        }
        let Ok(before) = name.parse::<IpAddr>() else { break };
        client = before.to_canonical();
    }
    client
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_proxies_are_believed() {
        let proxies = proxies(&["10.0.0.1".to_owned(), "10.0.0.2".to_owned()]).expect("addresses");
        let of = |peer: &str, header: &str| {
            let mut headers = HeaderMap::new();
            headers.insert("x-forwarded-for", header.parse().expect("a value"));
            client(&headers, peer.parse().expect("an address"), &proxies).to_string()
        };
        assert_eq!(of("192.0.2.1", "203.0.113.9"), "192.0.2.1", "no proxy of ours");
        assert_eq!(of("10.0.0.1", "203.0.113.9"), "203.0.113.9");
        assert_eq!(of("10.0.0.1", "1.1.1.1, 203.0.113.9, 10.0.0.2"), "203.0.113.9", "the first was made up");
        assert_eq!(of("::ffff:10.0.0.1", "203.0.113.9"), "203.0.113.9");
        assert_eq!(of("10.0.0.1", "unknown"), "10.0.0.1");
        assert!(super::proxies(&["proxy".to_owned()]).is_err());
    }
}
