//! `weir serve`: everything over HTTP, and collecting in the same process.

mod chains;
mod demo;
pub(super) mod origin;
mod reload_signals;
pub(super) mod sections;
pub(super) mod settings;
mod start_check;

use std::cell::RefCell;
use std::io::{self, Write};
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread;
use std::time::Duration;

use anyhow::{Context, anyhow};
use weir_chain::{ByteSize, Notices, Progress, Running};
use weir_collect::{inherited, intake};
use weir_serve::server::RunningServer;
use weir_serve::{Downloading, Downloads, ServeError, Server, Status, hash_password, scram_verifier};
use weir_watch::RunnerOptions;

use self::chains::Chains;
use self::demo::Demo;
use self::settings::Settings;
use super::chain_parts::show_or_build;
use super::collect::{WatchThread, log_progress};
use super::report::{print_archived, print_books};
use super::watch::WatchSession;
use crate::running::{Foreground, Hooks, Signals, was_stopped};
use crate::service_manager::{InheritedSockets, Liveness, ServiceManager};

/// How often the service is told how far collecting is.
const EVERY: Duration = Duration::from_secs(1);
/// How many times of these until progress is logged.
const LOGGED_EVERY: u32 = 60;

/// Examples at the end of the long help.
const EXAMPLES: &str = "\
Examples:
  Try it, with traffic that is made up:
    weir serve --demo
  Collect NetFlow, IPFIX and sFlow on the usual port, keep the archive in a folder, and look at it at http://127.0.0.1:2080:
    weir serve --archive flows --collect 0.0.0.0:2055
  Look at an archive that another process writes:
    weir serve --archive flows
  Let psql, Grafana and other clients of Postgres ask as well:
    weir serve --archive flows --postgres 127.0.0.1:5433
  With a configuration file, of which weir config init writes a sample:
    weir serve weir.toml
    weir serve weir.toml --check";

/// Answer questions over HTTP, show pages, and collect in the same process
///
/// Without a file and without --archive it collects on 127.0.0.1:2055 into an archive in the user's data folder. It listens on
/// this machine only, unless the configuration has users. SIGINT and SIGTERM end it in order: what the kernel still holds is
/// read, everything is written, synced and sealed. SIGHUP has users, roles, certificates, files about addresses and networks of senders read again.
/// Options here win over the file.
#[derive(Debug, Default, clap::Args)]
#[command(after_long_help = EXAMPLES)]
pub(crate) struct Args {
    /// The configuration
    #[arg(value_name = "CONFIG")]
    config: Option<PathBuf>,
    /// Folder of the archive; made when missing and something is collected [default: weir/archive in the user's data folder]
    #[arg(long, short = 'R', value_name = "DIR", env = "WEIR_ARCHIVE")]
    archive: Option<PathBuf>,
    /// Listen for HTTP here; port 0 takes a free one [default: 127.0.0.1:2080]
    #[arg(long, value_name = "ADDR:PORT")]
    listen: Option<SocketAddr>,
    /// Speak the wire of Postgres here; port 0 takes a free one
    ///
    /// For psql, Grafana, DBeaver, JDBC and drivers. Clients of other machines need a certificate and users, in the sections
    /// [postgres] and [[users]] of the configuration. Without the option or the section nobody is listened for.
    #[arg(long, value_name = "ADDR:PORT")]
    postgres: Option<SocketAddr>,
    /// Speak Flight SQL here; port 0 takes a free one
    ///
    /// For ADBC, JDBC and other clients that take Arrow. As --postgres otherwise, with the section [flight].
    #[arg(long, value_name = "ADDR:PORT")]
    flight: Option<SocketAddr>,
    /// Collect here, an address and port with the transport before them; the option may be repeated
    ///
    /// As --listen of weir collect. All other options of collecting are in the sections [collect] and [archive] of the
    /// configuration.
    #[arg(long = "collect", value_name = "ADDR:PORT")]
    collect: Vec<String>,
    /// Override the sampling intervals that exporters report by those of a CSV file, as --sampling-corrections of weir query
    #[arg(long, value_name = "FILE", env = "WEIR_SAMPLING_CORRECTIONS")]
    sampling_corrections: Option<PathBuf>,
    /// Keep statistics over time in the folder statistics of the archive
    #[arg(long)]
    statistics: bool,
    /// Run the watch files of this folder, and let admins change them
    #[arg(long = "watch", value_name = "FOLDER")]
    watch: Option<PathBuf>,
    /// Send made-up traffic to the own collector
    ///
    /// Without --archive the archive is weir/demo in the user's data folder; without --collect the collector has a free port.
    #[arg(long, help_heading = "Trying out")]
    demo: bool,
    /// Made-up flows a second
    #[arg(long, value_name = "N", default_value_t = 500, value_parser = clap::value_parser!(u32).range(1..=1_000_000), help_heading = "Trying out")]
    demo_rate: u32,
    /// Check the configuration and exit
    #[arg(long)]
    check: bool,
    /// Print the chain that collects as a chain file, and exit
    #[arg(long)]
    show_chain: bool,
    /// Read a password from standard input, print its hash for the configuration, and exit
    #[arg(long, exclusive = true)]
    hash_password: bool,
    /// Read a password from standard input, print what clients of Postgres prove it with, and exit
    #[arg(long, exclusive = true)]
    scram_password: bool,
}

impl Args {
    /// Sections of the configuration of which an option is on the command line, or in the environment.
    fn replaced_sections(&self) -> Vec<&'static str> {
        let sections = [
            ("http", self.listen.is_some()),
            ("archive", self.archive.is_some()),
            ("postgres", self.postgres.is_some()),
            ("flight", self.flight.is_some()),
            ("collect", !self.collect.is_empty()),
            ("questions", self.sampling_corrections.is_some()),
            ("watch", self.watch.is_some()),
        ];
        sections.into_iter().filter(|(_, is_replaced)| *is_replaced).map(|(section, _)| section).collect()
    }
}

/// Finds out whether a service could begin with a configuration, in the environment of this process.
pub(super) fn check(config: &Path) -> anyhow::Result<()> {
    let of_environment = |section, key| origin::of_environment(section, key).map(|(_, value)| PathBuf::from(value));
    let args = Args {
        config: Some(config.to_owned()),
        archive: of_environment("archive", "folder"),
        sampling_corrections: of_environment("questions", "sampling_corrections"),
        ..Args::default()
    };
    Settings::of(&args)?.check()
}

pub(crate) fn run(args: &Args) -> anyhow::Result<ExitCode> {
    if args.hash_password {
        return print_hash();
    }
    if args.scram_password {
        return print_verifier();
    }
    let settings = Settings::of(args)?;
    if args.check {
        settings.check()?;
        println!("the configuration is right");
        return Ok(ExitCode::SUCCESS);
    }
    // Before anything is made of them. Until then signals end the process at once: there is nothing to end in order.
    let downloads = (!args.show_chain).then(|| Downloads::fetched(settings.downloads.clone())).transpose()?;
    match settings.chain() {
        Some(chain) => {
            if !args.show_chain {
                settings.check_options(&chain)?;
            }
            let Some(chain) = show_or_build(chain, args.show_chain)? else { return Ok(ExitCode::SUCCESS) };
            collect(settings, downloads, chain)
        }
        None => attend(settings, downloads),
    }
}

/// Serves an archive that another process writes, or nobody.
fn attend(settings: Settings, downloads: Option<Downloads>) -> anyhow::Result<ExitCode> {
    let signals = Signals::new()?;
    let (chains, reloads) = (Chains::read(&settings.chains)?, Arc::clone(&settings.running));
    let (mut service, watching) = Service::bind(settings, downloads, false)?;
    service.start()?;
    chains.begin(&reloads)?;
    service.download();
    let manager = ServiceManager::of_environment();
    manager.ready("it answers");
    let watching = watching.inspect(WatchThread::begin);
    while !signals.is_stopping() {
        manager.alive();
        if signals.take_hang_up() {
            service.reload();
        }
        chains.look(&service.status);
        thread::sleep(Duration::from_millis(50));
    }
    manager.stopping();
    chains.end();
    service.end();
    watching.into_iter().for_each(WatchThread::end);
    Ok(ExitCode::SUCCESS)
}

/// Serves the archive that this process writes.
fn collect(settings: Settings, downloads: Option<Downloads>, chain: weir_chain::Chain) -> anyhow::Result<ExitCode> {
    let demo = settings.demo_rate.map(Demo::new);
    let reloads = Arc::clone(&settings.running);
    let chains = Chains::read(&settings.chains)?;
    if let Some(ingest) = &settings.service.ingest {
        intake::offer(Arc::clone(&ingest.intake));
    }
    let has_file = settings.service.reloader.is_some();
    let (service, watching) = Service::bind(settings, downloads, true)?;
    let (status, service) = (Arc::clone(&service.status), Mutex::new(service));
    let target = demo.as_ref().map(Demo::target);
    let notices = Notices::to(move |line| {
        eprintln!("{line}");
        if let Some(target) = &target {
            target.notice(line);
        }
    });
    let failed: Mutex<Option<anyhow::Error>> = Mutex::default();
    let manager = ServiceManager::of_environment();
    let begin = |running: &Running| {
        locked(&reloads).set_collecting(running.reload_signal());
        status.set_progress(running.progress());
        let started = locked(&service).start().map_err(anyhow::Error::from).and_then(|()| chains.begin(&reloads));
        if let Err(error) = started {
            *locked(&failed) = Some(error);
            running.stop();
            return;
        }
        locked(&service).download();
        watching.iter().for_each(WatchThread::begin);
        demo.iter().for_each(Demo::begin);
        for address in inherited::left() {
            eprintln!(
                "error: nothing listens on {address}, a socket that was handed over\nhint: name it under [collect] listen"
            );
        }
        manager.ready("it collects and answers");
    };
    let ticks = AtomicU32::new(0);
    let liveness = RefCell::new(Liveness::default());
    let report = |progress: &Progress| {
        status.set_progress(progress.clone());
        manager.look(&mut liveness.borrow_mut(), progress);
        chains.look(&status);
        if was_stopped() {
            manager.stopping();
        }
        if ticks.fetch_add(1, Ordering::Relaxed) % LOGGED_EVERY == LOGGED_EVERY - 1 {
            log_progress(progress);
        }
    };
    // the service asks the components once the configuration is right; without one there is nothing to be wrong
    let hang_up = |running: &Running| if has_file { locked(&service).reload() } else { running.reload() };
    let hooks =
        Hooks { started: Box::new(begin), every: Some(EVERY), report: Box::new(report), hang_up: Box::new(hang_up) };
    let (progress, ended) = Foreground::new()?.run_with(chain, &notices, hooks)?;
    demo.into_iter().for_each(Demo::end);
    chains.end();
    watching.into_iter().for_each(WatchThread::end);
    service.into_inner().unwrap_or_else(PoisonError::into_inner).end();
    print_books(&progress, "collector");
    print_archived(&progress);
    if let Some(error) = failed.into_inner().unwrap_or_else(PoisonError::into_inner) {
        return Err(error);
    }
    ended.context("collecting ended")?;
    Ok(ExitCode::SUCCESS)
}

fn locked<T>(mutex: &Mutex<T>) -> std::sync::MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

/// The service before, while and after it answers.
struct Service {
    bound: Option<Server>,
    running: Option<RunningServer>,
    status: Arc<Status>,
    downloads: Option<Downloads>,
    downloading: Option<Downloading>,
}

impl Service {
    /// Listens, so that an address that cannot be had is an error before anything is collected. Files that were not there
    /// are fetched already, because what is prepared here reads them.
    fn bind(
        settings: Settings,
        downloads: Option<Downloads>,
        is_collecting: bool,
    ) -> anyhow::Result<(Self, Option<WatchThread>)> {
        let status = Arc::new(Status::new(is_collecting));
        let origin = settings.origin;
        let mut options = RunnerOptions::new(&settings.service.archive);
        let corrections = settings.service.questions.corrections().map_err(ServeError::Corrections);
        let corrections = corrections.map_err(|error| origin.cannot_serve(error))?;
        options.standing.corrections = Arc::new(corrections);
        options.standing.window_octets_max =
            settings.watch_memory.map_or(options.standing.window_octets_max, ByteSize::bytes);
        let watching = settings.service.watches.clone().map(|folder| {
            WatchThread::new(WatchSession {
                options,
                files: vec![folder],
                json: false,
                ends_with_reader: false,
                status: Some(Arc::clone(&status)),
            })
        });
        let InheritedSockets { udp, mut tcp } = InheritedSockets::of_environment();
        udp.into_iter().for_each(inherited::inherit);
        let server = Server::on(tcp.pop(), settings.service).map_err(|error| origin.cannot_serve(error))?;
        Ok((Self { bound: Some(server), running: None, status, downloads, downloading: None }, watching))
    }

    /// Answers from now on, and says where.
    fn start(&mut self) -> Result<(), ServeError> {
        let Some(server) = self.bound.take() else { return Ok(()) };
        let (postgres, flight) = server.wires();
        let running = server.start(Arc::clone(&self.status))?;
        // whoever reads it may have gone
        drop(writeln!(io::stdout(), "weir answers at {}", running.url()));
        for (scheme, address) in [("postgresql", postgres), ("grpc", flight)] {
            if let Some(address) = address {
                drop(writeln!(io::stdout(), "and at {scheme}://{address}/"));
            }
        }
        self.running = Some(running);
        Ok(())
    }

    /// Fetches files from now on: all that reads them has begun.
    fn download(&mut self) {
        let Some(running) = &self.running else { return };
        let begun = self.downloads.take().map(|downloads| downloads.begin(running.reloader("download")));
        self.downloading = begun.transpose().unwrap_or_else(|error| {
            eprintln!("error: no file is fetched: {error}");
            None
        });
    }

    /// Has the configuration read again, in a thread: files may be large, and signals wait.
    fn reload(&self) {
        let Some(running) = &self.running else { return };
        if let Err(error) = thread::Builder::new().name("weir-reload".to_owned()).spawn(running.reloader("SIGHUP")) {
            eprintln!("error: the configuration cannot be read again: {error}");
        }
    }

    fn end(self) {
        self.running.into_iter().for_each(RunningServer::end);
    }
}

fn print_verifier() -> anyhow::Result<ExitCode> {
    let password = super::password::read_password()?;
    println!("{}", scram_verifier(&password).context("the system has no random numbers")?);
    Ok(ExitCode::SUCCESS)
}

fn print_hash() -> anyhow::Result<ExitCode> {
    let password = super::password::read_password()?;
    let hash = hash_password(&password).map_err(|error| anyhow!("the password cannot be hashed: {error}"))?;
    println!("{hash}");
    Ok(ExitCode::SUCCESS)
}
