//! Steps into requests, and answers into what becomes of the step.
//!
//! What the receiver says decides: 2xx is stored; 429, 408 and 5xx, and no answer at all, are tried again; 400, 409 and 422 are
//! about the samples, which are then never taken, and the next step is sent; everything else (a wrong path, a wrong user)
//! is about the address, and ends forwarding, for no step would fare better.

use std::io::Read;

use ureq::Agent;
use weir_forward::{StatisticsStep, StatisticsStore, StoreError, StoredRows};

use crate::message::{TimeSeries, encode, samples};
use crate::{RemoteWriteError, RemoteWriteOptions};

/// Octets that are read of what a receiver says about an error.
const MESSAGE_OCTETS: u64 = 300;

/// Sends steps to a receiver.
#[derive(Debug)]
pub struct RemoteWriteStore {
    agent: Agent,
    options: RemoteWriteOptions,
    authorization: Option<String>,
    /// The step of which some requests were acknowledged, how many, and how many samples of them were refused.
    begun: Option<(i64, usize, usize)>,
    /// Why samples were refused last.
    refusal: Option<String>,
}

/// What became of a request.
enum Sent {
    Stored,
    /// The receiver never takes these samples, and says why.
    Refused(String),
}

impl RemoteWriteStore {
    /// A store that connects when the first step comes. Fails when the options cannot be used.
    pub fn new(options: RemoteWriteOptions) -> Result<Self, RemoteWriteError> {
        let config = Agent::config_builder()
            .tls_config(options.tls()?)
            .timeout_global(Some(options.timeout))
            .http_status_as_error(false)
            .max_redirects(0)
            .max_redirects_will_error(false)
            .user_agent(concat!("weir/", env!("CARGO_PKG_VERSION")))
            .build();
        let authorization = options.authorization()?;
        Ok(Self { agent: Agent::new_with_config(config), options, authorization, begun: None, refusal: None })
    }

    /// Logs why samples are refused, once for each reason.
    fn report_refusal(&mut self, why: String) {
        if self.refusal.as_ref() != Some(&why) {
            tracing::warn!("samples are refused: {why}");
            self.refusal = Some(why);
        }
    }

    fn send(&self, timeseries: Vec<TimeSeries>) -> Result<Sent, StoreError> {
        let url = &self.options.url;
        let unavailable =
            |why: &dyn std::fmt::Display| StoreError::Unavailable(format!("{url} does not answer: {why}"));
        let body = encode(timeseries).map_err(|error| StoreError::Refused(error.to_string()))?;
        let mut request = self
            .agent
            .post(url)
            .header("Content-Encoding", "snappy")
            .header("Content-Type", "application/x-protobuf")
            .header("X-Prometheus-Remote-Write-Version", "0.1.0");
        if let Some(authorization) = &self.authorization {
            request = request.header("Authorization", authorization);
        }
        let mut answer = match request.send(&body) {
            Ok(answer) => answer,
            Err(error @ (ureq::Error::BadUri(_) | ureq::Error::Http(_))) => {
                return Err(StoreError::Refused(format!("{url} is no address: {error}")));
            }
            Err(error) => return Err(unavailable(&error)),
        };
        let status = answer.status();
        if status.is_success() {
            return Ok(Sent::Stored);
        }
        let mut message = String::new();
        let _ = answer.body_mut().as_reader().take(MESSAGE_OCTETS).read_to_string(&mut message);
        let text = format!("{url} answers {status}: {}", clean(&message));
        match status.as_u16() {
            408 | 429 | 500..=599 => Err(StoreError::Unavailable(text)),
            400 | 409 | 422 => Ok(Sent::Refused(text)),
            _ => Err(StoreError::Refused(text)),
        }
    }
}

/// What a receiver says, without what a terminal would act upon.
fn clean(message: &str) -> String {
    message.trim().chars().map(|letter| if letter.is_control() { ' ' } else { letter }).collect()
}

impl StatisticsStore for RemoteWriteStore {
    fn store(
        &mut self,
        step: &StatisticsStep,
        _is_stopping: &mut dyn FnMut() -> bool,
    ) -> Result<StoredRows, StoreError> {
        let series = samples(step, &self.options.labels);
        let rows = step.rows.num_rows() as u64;
        // requests of this step that were acknowledged before an error are not sent again
        let begun = self.begun.filter(|(time_secs, ..)| *time_secs == step.time_secs);
        let (done, mut refused) = begun.map_or((0, 0), |(_, done, refused)| (done, refused));
        let total = series.len();
        for (at, part) in series.chunks(self.options.samples_max.max(1)).enumerate().skip(done) {
            if let Sent::Refused(why) = self.send(part.to_vec())? {
                refused += part.len();
                self.report_refusal(why);
            }
            self.begun = Some((step.time_secs, at + 1, refused));
        }
        // a row is as many samples as it has metrics: it is refused in the share of its samples
        let refused = if total == 0 { 0 } else { (rows * refused as u64).div_ceil(total as u64) };
        Ok(StoredRows { stored: rows - refused, refused })
    }
}
