//! The wire of Postgres: message by message, by real clients, and under attack.

mod attack;
mod clients;
mod protocol;
mod raw;
mod service;

use std::net::SocketAddr;
use std::sync::Arc;

use tokio::runtime::Runtime;
use tokio::sync::watch;
use weir_postgres::{PostgresCounts, PostgresOptions, PostgresServer};

use self::service::{TestService, wait_until};

/// A server on a free port, until it is dropped.
struct Server {
    address: SocketAddr,
    counts: Arc<PostgresCounts>,
    service: TestService,
    ending: watch::Sender<bool>,
    runtime: Option<Runtime>,
}

impl Server {
    fn start() -> Self {
        Self::start_with(PostgresOptions::default(), false)
    }

    fn start_with(options: PostgresOptions, has_users: bool) -> Self {
        let options = PostgresOptions { listen: "127.0.0.1:0".parse().ok(), ..options };
        let server = PostgresServer::bind(&options, has_users).expect("it listens").expect("it listens");
        let (address, counts, service) = (server.address(), server.counts(), TestService::new(has_users));
        let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build();
        let runtime = runtime.expect("threads");
        let (ending, is_ending) = watch::channel(false);
        runtime.spawn(server.run(Arc::new(service.clone()), is_ending));
        Self { address, counts, service, ending, runtime: Some(runtime) }
    }

    /// The value of a counter.
    fn count(&self, name: &str) -> u64 {
        let found = self.counts.all().into_iter().find(|(known, ..)| *known == name);
        found.unwrap_or_else(|| panic!("there is no counter {name}")).2
    }

    fn wait_for_count(&self, name: &str, is_it: impl Fn(u64) -> bool) {
        wait_until(name, || is_it(self.count(name)));
    }

    fn wait_for_open(&self, open: u64) {
        wait_until("connections are open", || self.counts.open() == open);
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        self.ending.send_replace(true);
        if let Some(runtime) = self.runtime.take() {
            runtime.shutdown_background();
        }
    }
}
