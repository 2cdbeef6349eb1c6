//! A chain at work in the foreground: signals, progress, its end.

use std::process;
use std::time::Duration;

use tokio::runtime::{Builder, Runtime};
use tokio::signal::unix::{Signal, SignalKind, signal};
use tracing::info;
use weir_chain::{Chain, ChainError, Notices, Progress, Running};

/// Exit status of a process that a second interrupt ended.
const INTERRUPTED: i32 = 130;

/// Catches SIGINT, SIGTERM and SIGHUP from the moment it is made.
pub(crate) struct Foreground {
    runtime: Runtime,
    interrupt: Signal,
    terminate: Signal,
    hang_up: Signal,
}

impl Foreground {
    pub(crate) fn new() -> anyhow::Result<Self> {
        let runtime = Builder::new_current_thread().enable_all().build()?;
        let [interrupt, terminate, hang_up] = {
            let _entered = runtime.enter();
            [signal(SignalKind::interrupt())?, signal(SignalKind::terminate())?, signal(SignalKind::hangup())?]
        };
        Ok(Self { runtime, interrupt, terminate, hang_up })
    }

    /// Starts a chain and runs it to its end. A signal stops it in order, a second one at once; SIGHUP has it read its files
    /// again. `started` is called
    /// when every component is open, `report` each time that `every` has passed.
    pub(crate) fn run(
        mut self,
        chain: Chain,
        every: Option<Duration>,
        started: impl FnOnce(&Running),
        mut report: impl FnMut(&Progress),
    ) -> Result<(Progress, Result<(), ChainError>), ChainError> {
        let running = chain.start_with(&Notices::to(|line| eprintln!("{line}")))?;
        started(&running);
        self.runtime.block_on(async {
            let mut looks = tokio::time::interval(Duration::from_millis(20));
            let period = every.unwrap_or(Duration::from_secs(u64::from(u32::MAX)));
            let mut ticks = tokio::time::interval_at(tokio::time::Instant::now() + period, period);
            let mut stopping = false;
            while !running.is_finished() {
                tokio::select! {
                    _ = looks.tick() => {}
                    _ = ticks.tick() => report(&running.progress()),
                    _ = self.interrupt.recv() => stop(&running, &mut stopping),
                    _ = self.terminate.recv() => stop(&running, &mut stopping),
                    _ = self.hang_up.recv() => running.reload(),
                }
            }
        });
        Ok(running.wait())
    }
}

fn stop(running: &Running, stopping: &mut bool) {
    if *stopping {
        eprintln!("interrupted again: ending without finishing");
        process::exit(INTERRUPTED);
    }
    *stopping = true;
    info!("stopping: what is under way is finished; another signal ends at once");
    running.stop();
}
