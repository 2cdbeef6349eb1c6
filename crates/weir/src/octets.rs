//! Amounts of memory as people write them: `64M`, `2G`.

use std::str::FromStr;

/// A number of octets; the suffixes K, M, G and T are powers of 1024.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Octets(pub(crate) usize);

impl FromStr for Octets {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let upper = text.to_ascii_uppercase();
        let (digits, shift) = match upper.strip_suffix(['K', 'M', 'G', 'T']) {
            Some(digits) if upper.ends_with('K') => (digits, 10),
            Some(digits) if upper.ends_with('M') => (digits, 20),
            Some(digits) if upper.ends_with('G') => (digits, 30),
            Some(digits) => (digits, 40),
            None => (upper.as_str(), 0),
        };
        let number: Option<usize> = digits.parse().ok();
        let octets = number.and_then(|number| number.checked_mul(1 << shift));
        octets.map(Self).ok_or_else(|| format!("'{text}' is not an amount of octets such as 4096, 64M or 2G"))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn suffixes() {
        let octets = |text: &str| text.parse::<Octets>().map(|octets| octets.0);
        assert_eq!((octets("4096"), octets("64M"), octets("2g")), (Ok(4096), Ok(64 << 20), Ok(2 << 30)));
        assert_eq!(octets("1t"), Ok(1 << 40));
        assert!(octets("64X").is_err() && octets("").is_err() && octets("99999999999G").is_err());
    }
}
