//! Files that are fetched over HTTP: lists of labels, databases of countries, tables of routes.
//!
//! A file takes the place of the one before when all of it has come and it is another one, and the configuration is read again
//! then, so that it is in use as after SIGHUP. What cannot be used is put back as it was: a server that answers with a page
//! of errors must neither take names away nor keep the next start from succeeding. What speaks against one thread for all
//! files is that a slow server holds up the others, each time for as long as [`TIME_MAX`] at most.

use std::fs::{self, File};
use std::io::{self, Write};
use std::path::{Path, PathBuf};
use std::sync::mpsc::{self, RecvTimeoutError, Sender};
use std::thread;
use std::time::{Duration, Instant};

use ureq::Agent;
use ureq::tls::{RootCerts, TlsConfig, TlsProvider};
use weir_chain::{ByteSize, OptionError, Secret, TimeSpan, options};

use crate::problem::with_causes;

/// How long an answer may take, to its last octet.
const TIME_MAX: Duration = Duration::from_mins(5);
/// The shortest time between two questions for a file.
const INTERVAL_MIN: Duration = Duration::from_secs(1);

options! {
    /// A file that is fetched over HTTP.
    pub struct DownloadOptions {
        /// Fetch this address, http:// or https://. It is in no log.
        url: String,
        /// Keep what comes as this file, which other sections name, such as labels of enrichment.
        file: PathBuf,
        /// Send this header Authorization, which is in a file or an environment variable: file:PATH or env:NAME.
        authorization: Option<Secret>,
        /// Ask this often whether it is another one.
        interval: TimeSpan = TimeSpan::from_secs(3600),
        /// Refuse what is larger.
        size_max: ByteSize = ByteSize::from_mib(256) => 1..=1 << 40,
    }
}

impl DownloadOptions {
    /// Finds out what is wrong with them.
    ///
    /// # Errors
    ///
    /// The address is none of HTTP.
    pub fn check(&self) -> Result<(), OptionError> {
        if self.url.starts_with("http://") || self.url.starts_with("https://") {
            return Ok(());
        }
        Err(OptionError::new("url", "files are fetched by http:// and https:// alone"))
    }
}

/// Why a file was not fetched. The text has no address, which may have a secret in it.
#[derive(Debug, thiserror::Error)]
pub enum DownloadError {
    /// No answer that could be kept.
    #[error("{} cannot be fetched: {reason}", file.display())]
    Fetch {
        /// The file.
        file: PathBuf,
        /// Why.
        reason: String,
    },
    /// The disk does not take it.
    #[error("{} cannot be written", file.display())]
    Write {
        /// The file.
        file: PathBuf,
        /// Why.
        #[source]
        source: io::Error,
    },
}

/// A file, and what its server called it.
#[derive(Debug)]
struct Download {
    options: DownloadOptions,
    /// The header `ETag` of what is in use (RFC 9110 section 8.8.3).
    tag: Option<String>,
    next: Instant,
}

/// What came.
struct Fetched {
    body: Vec<u8>,
    tag: Option<String>,
}

/// Files that are fetched from time to time.
#[derive(Debug)]
pub struct Downloads {
    agent: Agent,
    all: Vec<Download>,
}

impl Downloads {
    /// Fetches the files that are not there: nothing can begin without them. The others are fetched once
    /// [begun](Self::begin).
    ///
    /// # Errors
    ///
    /// A file that is not there cannot be fetched or written.
    pub fn fetched(options: Vec<DownloadOptions>) -> Result<Self, DownloadError> {
        let tls = TlsConfig::builder().provider(TlsProvider::NativeTls).root_certs(RootCerts::PlatformVerifier).build();
        let config = Agent::config_builder()
            .timeout_global(Some(TIME_MAX))
            .http_status_as_error(false)
            .user_agent(concat!("weir/", env!("CARGO_PKG_VERSION")))
            .tls_config(tls)
            .build();
        let agent: Agent = config.into();
        let now = Instant::now();
        let mut all: Vec<Download> =
            options.into_iter().map(|options| Download { options, tag: None, next: now }).collect();
        for download in all.iter_mut().filter(|download| !download.options.file.exists()) {
            if let Some(Fetched { body, tag }) = download.fetch(&agent)? {
                download.put(&body)?;
                download.tag = tag;
            }
            download.next = now + download.interval();
        }
        Ok(Self { agent, all })
    }

    /// Fetches them in a thread, until what is returned is dropped. `reload` is called when a file is another one; it says
    /// whether what it has can be used.
    ///
    /// # Errors
    ///
    /// There is no thread.
    pub fn begin(self, reload: impl Fn() -> bool + Send + 'static) -> io::Result<Downloading> {
        let Self { agent, mut all } = self;
        let (stop, stopped) = mpsc::channel::<()>();
        let work = move || {
            while let Some(next) = all.iter().map(|download| download.next).min() {
                let wait = next.saturating_duration_since(Instant::now());
                if stopped.recv_timeout(wait) != Err(RecvTimeoutError::Timeout) {
                    return;
                }
                for download in all.iter_mut().filter(|download| download.next <= Instant::now()) {
                    download.look(&agent, &reload);
                    download.next = Instant::now() + download.interval();
                }
            }
        };
        // nobody waits for the thread in the end: it may wait for a server
        thread::Builder::new().name("weir-downloads".to_owned()).spawn(work)?;
        Ok(Downloading { _stop: stop })
    }
}

/// Files are fetched as long as it lives.
#[derive(Debug)]
pub struct Downloading {
    _stop: Sender<()>,
}

impl Download {
    fn interval(&self) -> Duration {
        self.options.interval.duration().max(INTERVAL_MIN)
    }

    /// Fetches the file, puts it in its place when it is another one, and back when it cannot be used.
    fn look(&mut self, agent: &Agent, reload: &impl Fn() -> bool) {
        if let Err(error) = self.renew(agent, reload) {
            tracing::warn!("{}", with_causes(&error));
        }
    }

    fn renew(&mut self, agent: &Agent, reload: &impl Fn() -> bool) -> Result<(), DownloadError> {
        let Some(Fetched { body, tag }) = self.fetch(agent)? else { return Ok(()) };
        let file = self.options.file.clone();
        let before = match fs::read(&file) {
            Ok(before) => Some(before),
            Err(error) if error.kind() == io::ErrorKind::NotFound => None,
            Err(source) => return Err(DownloadError::Write { file, source }),
        };
        if before.as_deref() != Some(&*body) {
            self.put(&body)?;
            if !reload() {
                match before {
                    Some(before) => self.put(&before)?,
                    None => fs::remove_file(&file).map_err(|source| self.unwritten(source))?,
                }
                return Err(self.unfetched("what came cannot be used, and what was there is put back".to_owned()));
            }
            tracing::info!("{} was fetched: it is another one", file.display());
        }
        self.tag = tag;
        Ok(())
    }

    /// What the server has; `None` when that is what it had before.
    fn fetch(&self, agent: &Agent) -> Result<Option<Fetched>, DownloadError> {
        let mut request = agent.get(self.options.url.as_str());
        if let Some(authorization) = &self.options.authorization {
            let value = authorization.read().map_err(|error| self.unfetched(error.to_string()))?;
            request = request.header("authorization", value);
        }
        if let Some(tag) = self.tag.as_deref().filter(|_| self.options.file.exists()) {
            request = request.header("if-none-match", tag);
        }
        let mut answer = request.call().map_err(|error| self.unfetched(reason(&error)))?;
        match answer.status().as_u16() {
            200 => {}
            304 => return Ok(None),
            status => return Err(self.unfetched(format!("the server answers {status}"))),
        }
        let tag = answer.headers().get("etag").and_then(|tag| tag.to_str().ok()).map(str::to_owned);
        let size_max = self.options.size_max.bytes();
        let body = answer.body_mut().with_config().limit(size_max).read_to_vec();
        let body = body.map_err(|error| self.unfetched(reason(&error)))?;
        if body.is_empty() {
            return Err(self.unfetched("the server answers with nothing".to_owned()));
        }
        Ok(Some(Fetched { body, tag }))
    }

    /// Writes the file beside the one before, and puts it in its place.
    fn put(&self, body: &[u8]) -> Result<(), DownloadError> {
        let file = &self.options.file;
        let mut new = file.clone().into_os_string();
        new.push(".new");
        let new = Path::new(&new);
        let write = || {
            let mut written = File::create(new)?;
            written.write_all(body)?;
            written.sync_all()?;
            fs::rename(new, file)
        };
        write().map_err(|source| self.unwritten(source))
    }

    fn unfetched(&self, reason: String) -> DownloadError {
        DownloadError::Fetch { file: self.options.file.clone(), reason }
    }

    fn unwritten(&self, source: io::Error) -> DownloadError {
        DownloadError::Write { file: self.options.file.clone(), source }
    }
}

/// Why there is no answer, without the address.
fn reason(error: &ureq::Error) -> String {
    match error {
        ureq::Error::BadUri(_) | ureq::Error::Http(_) => "the address or a header cannot be used".to_owned(),
        error => error.to_string(),
    }
}

#[cfg(test)]
mod tests;
