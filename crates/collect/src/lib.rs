//! The Collecting Process: export datagrams into flow batches, with books that balance
