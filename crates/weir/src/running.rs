//! A chain at work in the foreground: signals, progress, its end.

use std::process;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use anyhow::anyhow;
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

/// What a command does while its chain runs. The default does nothing but to have files read again at SIGHUP.
pub(crate) struct Hooks<'h> {
    /// Called when every component is open.
    pub(crate) started: Box<dyn FnOnce(&Running) + 'h>,
    /// How often `report` is called; `None`: never.
    pub(crate) every: Option<Duration>,
    /// Called with the progress of the chain.
    pub(crate) report: Box<dyn FnMut(&Progress) + 'h>,
    /// Called at each SIGHUP. The default asks the components to read their files again.
    pub(crate) hang_up: Box<dyn Fn(&Running) + 'h>,
}

impl Default for Hooks<'_> {
    fn default() -> Self {
        Self { started: Box::new(|_| ()), every: None, report: Box::new(|_| ()), hang_up: Box::new(Running::reload) }
    }
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

    /// Starts the chain of a command and runs it to its end. A signal stops it in order, a second one at once; at SIGHUP its
    /// components read their files again. `started` is called when every component is open, `report` each time that `every` has
    /// passed. Errors name no component.
    pub(crate) fn run(
        self,
        chain: Chain,
        every: Option<Duration>,
        started: impl FnOnce(&Running),
        report: impl FnMut(&Progress),
    ) -> anyhow::Result<(Progress, anyhow::Result<()>)> {
        let hooks = Hooks { started: Box::new(started), every, report: Box::new(report), ..Hooks::default() };
        self.run_with(chain, &Notices::to(|line| eprintln!("{line}")), hooks)
    }

    /// The same with another taker of notices and all hooks.
    pub(crate) fn run_with(
        self,
        chain: Chain,
        notices: &Notices,
        hooks: Hooks<'_>,
    ) -> anyhow::Result<(Progress, anyhow::Result<()>)> {
        let ran = self.run_chain(chain, notices, hooks);
        let (progress, ended) = ran.map_err(without_component)?;
        Ok((progress, ended.map_err(without_component)))
    }

    /// The same for the chain of a file. Errors name its components.
    pub(crate) fn run_file(
        self,
        chain: Chain,
        every: Option<Duration>,
        report: impl FnMut(&Progress),
    ) -> Result<(Progress, Result<(), ChainError>), ChainError> {
        let hooks = Hooks { every, report: Box::new(report), ..Hooks::default() };
        self.run_chain(chain, &Notices::to(|line| eprintln!("{line}")), hooks)
    }

    fn run_chain(
        mut self,
        chain: Chain,
        notices: &Notices,
        hooks: Hooks<'_>,
    ) -> Result<(Progress, Result<(), ChainError>), ChainError> {
        let Hooks { started, every, mut report, hang_up } = hooks;
        let running = chain.start_with(notices)?;
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
                    _ = self.hang_up.recv() => hang_up(&running),
                }
            }
        });
        Ok(running.wait())
    }
}

/// The error of a chain that ended early or could not begin, for a command: its user knows of no components, so a component is
/// named only when it panicked.
pub(crate) fn without_component(error: ChainError) -> anyhow::Error {
    match error {
        ChainError::Open { source, .. } | ChainError::Failed { source, .. } => source.into(),
        ChainError::Panicked { component, message } => anyhow!("weir has a defect: {component} panicked: {message}"),
        error @ ChainError::Thread { .. } => error.into(),
    }
}

/// Whether a chain was stopped before its end: what it read is not all there is.
pub(crate) fn was_stopped() -> bool {
    WAS_STOPPED.load(Ordering::Relaxed)
}

static WAS_STOPPED: AtomicBool = AtomicBool::new(false);

/// Whether the process was asked to stop, for a command that looks at it from time to time.
pub(crate) struct Signals {
    is_stopping: Arc<AtomicBool>,
    has_hung_up: Arc<AtomicBool>,
}

impl Signals {
    /// Catches SIGINT, SIGTERM and SIGHUP from now on; a second one of the first two ends the process at once.
    pub(crate) fn new() -> anyhow::Result<Self> {
        let mut foreground = Foreground::new()?;
        let is_stopping = Arc::new(AtomicBool::new(false));
        let has_hung_up = Arc::new(AtomicBool::new(false));
        let (caught, hung_up) = (Arc::clone(&is_stopping), Arc::clone(&has_hung_up));
        let wait = move || {
            foreground.runtime.block_on(async {
                loop {
                    tokio::select! {
                        _ = foreground.interrupt.recv() => {}
                        _ = foreground.terminate.recv() => {}
                        _ = foreground.hang_up.recv() => {
                            hung_up.store(true, Ordering::Relaxed);
                            continue;
                        }
                    }
                    if caught.swap(true, Ordering::Relaxed) {
                        eprintln!("interrupted again: ending without finishing");
                        process::exit(INTERRUPTED);
                    }
                }
            });
        };
        std::thread::Builder::new().name("signals".to_owned()).spawn(wait)?;
        Ok(Self { is_stopping, has_hung_up })
    }

    /// Whether one came.
    pub(crate) fn is_stopping(&self) -> bool {
        self.is_stopping.load(Ordering::Relaxed)
    }

    /// Whether SIGHUP came since the last call.
    pub(crate) fn take_hang_up(&self) -> bool {
        self.has_hung_up.swap(false, Ordering::Relaxed)
    }
}

fn stop(running: &Running, stopping: &mut bool) {
    if *stopping {
        eprintln!("interrupted again: ending without finishing");
        process::exit(INTERRUPTED);
    }
    *stopping = true;
    WAS_STOPPED.store(true, Ordering::Relaxed);
    info!("stopping: what is under way is finished; another signal ends at once");
    running.stop();
}
