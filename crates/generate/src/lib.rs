//! A seed into deterministic synthetic flows and the datagrams that carry them
