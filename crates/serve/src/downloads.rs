//! Files that are fetched over HTTP: lists of labels, databases of countries, tables of routes.
//!
//! A file takes the place of the one before when all of it has come and it is another one, and the configuration is read again
//! then, so that it is in use as after SIGHUP. What cannot be used is put back as it was: a server that answers with a page
//! of errors must neither take names away nor keep the next start from succeeding, however the process ends meanwhile
//! (see `place`). What speaks against one thread for all files is that a slow server holds up the others, each time for as
//! long as [`TIME_MAX`] at most.
//!
//! A redirect is not followed: a header with a secret is for the server that the configuration names, and nobody else.

mod place;

use std::io::{self, Read, Write};
use std::net::IpAddr;
use std::path::PathBuf;
use std::sync::mpsc::{self, RecvTimeoutError, Sender};
use std::thread;
use std::time::{Duration, Instant};

use tempfile::NamedTempFile;
use ureq::Agent;
use ureq::http::Uri;
use ureq::tls::{RootCerts, TlsConfig, TlsProvider};
use weir_chain::{ByteSize, OptionError, Secret, TimeSpan, options};

use self::place::Place;
use crate::problem::with_causes;

/// How long an answer may take, to its last octet.
const TIME_MAX: Duration = Duration::from_mins(5);
/// The same while nothing listens yet, because the file is not there.
const TIME_MAX_AT_START: Duration = Duration::from_secs(30);
/// How much of an answer is in memory at a time.
const PIECE_OCTETS: usize = 64 * 1024;
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
    place: Place,
    /// The header `ETag` of what is in use (RFC 9110 section 8.8.3).
    tag: Option<String>,
    next: Instant,
    /// It came at this start, and nothing has shown yet that it can be used.
    is_untried: bool,
    /// Another one was put into the place, and neither is in use nor has been put back.
    is_unsettled: bool,
}

/// What came.
struct Fetched {
    file: NamedTempFile,
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
    /// [begun](Self::begin). Dropped before that, it removes what it has fetched: the start has failed, perhaps because
    /// of it. What speaks against removing is that a start that fails for another reason fetches it once more.
    ///
    /// # Errors
    ///
    /// A file that is not there cannot be fetched or written.
    pub fn fetched(options: Vec<DownloadOptions>) -> Result<Self, DownloadError> {
        let tls = TlsConfig::builder().provider(TlsProvider::NativeTls).root_certs(RootCerts::PlatformVerifier).build();
        let config = Agent::config_builder()
            .http_status_as_error(false)
            .max_redirects(0)
            .user_agent(concat!("weir/", env!("CARGO_PKG_VERSION")))
            .tls_config(tls)
            .build();
        let agent: Agent = config.into();
        let mut all: Vec<Download> = options.into_iter().map(Download::new).collect();
        all.iter_mut().try_for_each(|download| download.prepare(&agent))?;
        Ok(Self { agent, all })
    }

    /// Fetches them in a thread, until what is returned is dropped. All that reads them has begun, so those that came at
    /// this start are in use. `reload` is called when a file is another one; it says whether what it has can be used.
    ///
    /// # Errors
    ///
    /// There is no thread.
    pub fn begin(self, reload: impl Fn() -> bool + Send + 'static) -> io::Result<Downloading> {
        let Self { agent, mut all } = self;
        all.iter_mut().for_each(Download::confirm);
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
        // the thread is not joined at the end: it may wait for a server
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
    fn new(options: DownloadOptions) -> Self {
        let place = Place::of(&options.file);
        Self { options, place, tag: None, next: Instant::now(), is_untried: false, is_unsettled: false }
    }

    fn interval(&self) -> Duration {
        self.options.interval.duration().max(INTERVAL_MIN)
    }

    /// Makes good what a process left that ended while it tried the file, and fetches it when it is not there.
    fn prepare(&mut self, agent: &Agent) -> Result<(), DownloadError> {
        let file = self.options.file.display();
        if self.place.put_back_before().map_err(|source| self.unwritten(source))? {
            tracing::warn!("{file} is the one before again: the process ended before another one was in use");
        }
        if !self.place.is_wanting() {
            return Ok(());
        }
        match self.fetch(agent, TIME_MAX_AT_START) {
            Ok(Some(Fetched { file, tag })) => {
                self.place.put(file).map_err(|source| self.unwritten(source))?;
                (self.tag, self.is_untried) = (tag, true);
            }
            Ok(None) => {}
            // what is there may be of use, although nobody has used it yet
            Err(error) if self.place.is_filled() => tracing::warn!("{}", with_causes(&error)),
            Err(error) => return Err(error),
        }
        self.next = Instant::now() + self.interval();
        Ok(())
    }

    /// What is there is in use.
    fn confirm(&mut self) {
        self.is_untried = false;
        if let Err(source) = self.place.keep() {
            tracing::warn!("{}", with_causes(&self.unwritten(source)));
        }
    }

    /// Fetches the file, puts it in its place when it is another one, and back when it cannot be used.
    fn look(&mut self, agent: &Agent, reload: &impl Fn() -> bool) {
        if let Err(error) = self.renew(agent, reload) {
            tracing::warn!("{}", with_causes(&error));
        }
    }

    fn renew(&mut self, agent: &Agent, reload: &impl Fn() -> bool) -> Result<(), DownloadError> {
        if self.is_unsettled {
            // or else what could not be put back would be the same as what comes, and count as in use
            self.put_back()?;
        }
        let Some(Fetched { file, tag }) = self.fetch(agent, TIME_MAX)? else { return Ok(()) };
        if !self.place.is_same(file.path()).map_err(|source| self.unwritten(source))? {
            self.is_unsettled = true;
            self.place.put(file).map_err(|source| self.unwritten(source))?;
            if !reload() {
                self.put_back()?;
                let reason = "the configuration cannot be read with it, and what was there is put back";
                return Err(self.unfetched(reason.to_owned()));
            }
            self.is_unsettled = false;
            tracing::info!("{} was fetched: it is another one", self.options.file.display());
        }
        self.place.keep().map_err(|source| self.unwritten(source))?;
        // last, so that the server sends it again when what was before could not be removed
        self.tag = tag;
        Ok(())
    }

    fn put_back(&mut self) -> Result<(), DownloadError> {
        self.place.put_back().map_err(|source| self.unwritten(source))?;
        self.is_unsettled = false;
        Ok(())
    }

    /// What the server has; `None` when that is what it had before.
    fn fetch(&self, agent: &Agent, time_max: Duration) -> Result<Option<Fetched>, DownloadError> {
        let mut request = agent.get(self.options.url.as_str());
        if let Some(authorization) = &self.options.authorization {
            let value = authorization.read().map_err(|error| self.unfetched(error.to_string()))?;
            request = request.header("authorization", value);
        }
        if let Some(tag) = self.tag.as_deref().filter(|_| self.place.is_filled()) {
            request = request.header("if-none-match", tag);
        }
        let mut config = request.config().timeout_global(Some(time_max));
        if is_this_machine(&self.options.url) {
            config = config.proxy(None);
        }
        let mut answer = config.build().call().map_err(|error| self.unfetched(reason(&error)))?;
        match answer.status().as_u16() {
            200 => {}
            304 => return Ok(None),
            status @ 300..=399 => {
                let reason =
                    format!("the server answers {status}, and redirects are not followed: url is the file itself");
                return Err(self.unfetched(reason));
            }
            status => return Err(self.unfetched(format!("the server answers {status}"))),
        }
        let tag = answer.headers().get("etag").and_then(|tag| tag.to_str().ok()).map(str::to_owned);
        let size_max = self.options.size_max.bytes();
        let file = self.receive(answer.body_mut().with_config().limit(size_max).reader())?;
        Ok(Some(Fetched { file, tag }))
    }

    /// Writes what comes next to the file.
    fn receive(&self, mut body: impl Read) -> Result<NamedTempFile, DownloadError> {
        let mut file = self.place.create().map_err(|source| self.unwritten(source))?;
        let mut piece = vec![0; PIECE_OCTETS];
        let mut is_empty = true;
        loop {
            match body.read(&mut piece) {
                Ok(0) if is_empty => return Err(self.unfetched("the server answers with nothing".to_owned())),
                Ok(0) => return Ok(file),
                Ok(length) => file.write_all(&piece[..length]).map_err(|source| self.unwritten(source))?,
                Err(error) if error.kind() == io::ErrorKind::Interrupted => continue,
                Err(error) => return Err(self.unfetched(reason(&error.into()))),
            }
            is_empty = false;
        }
    }

    fn unfetched(&self, reason: String) -> DownloadError {
        DownloadError::Fetch { file: self.options.file.clone(), reason }
    }

    fn unwritten(&self, source: io::Error) -> DownloadError {
        DownloadError::Write { file: self.options.file.clone(), source }
    }
}

impl Drop for Download {
    fn drop(&mut self) {
        if !self.is_untried {
            return;
        }
        if let Err(source) = self.place.put_back() {
            tracing::warn!("{}", with_causes(&self.unwritten(source)));
        }
    }
}

/// Whether an address is one of this machine, which no proxy reaches.
fn is_this_machine(url: &str) -> bool {
    let uri = url.parse::<Uri>().ok();
    let host = uri.as_ref().and_then(Uri::host).unwrap_or_default().trim_matches(['[', ']']);
    host == "localhost" || host.parse::<IpAddr>().is_ok_and(|address| address.is_loopback())
}

/// Why there is no answer, without the address, and without one that the server named.
fn reason(error: &ureq::Error) -> String {
    match error {
        ureq::Error::BadUri(_) | ureq::Error::Http(_) | ureq::Error::RequireHttpsOnly(_) => {
            "the address or a header cannot be used".to_owned()
        }
        ureq::Error::Protocol(_) => "what came back is no answer of HTTP".to_owned(),
        error => error.to_string(),
    }
}

#[cfg(test)]
mod tests;
