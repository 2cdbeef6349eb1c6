//! The source `snmp`: what agents say about interfaces, beside flows.

use std::sync::Arc;
use std::sync::mpsc::{Receiver, RecvTimeoutError, sync_channel};
use std::time::Duration;

use tokio::runtime::{Builder, Runtime};
use weir_chain::{
    Built, Burst, ComponentContext, ComponentError, ComponentKind, Opener, OptionError, Outlet, PullResult, Role,
    Source,
};
use weir_flow::{Delivery, SideTables};

use crate::SnmpOptions;
use crate::poller::{PollCounters, poll_for_ever};

/// Asks agents for their interfaces.
pub const KIND: ComponentKind<SnmpOptions> = ComponentKind {
    name: "snmp",
    role: Role::Source,
    inputs: &[],
    doc: "Asks the SNMP agents of exporters for their interfaces (IF-MIB, RFC 2863), at an interval, by v2c or v3. It has no \
          flows: names go to `exporter_options`, speeds, states and counters of octets to `interface_counters`, beside the \
          flows of other sources. A name is written when it is new or another, and once an hour. Each agent is asked by itself: \
          one that is silent holds up no other. It counts polls, polls_unanswered (silence, which is also what a wrong \
          community gets), polls_refused (a wrong user or password), polls_failed (an agent that cannot be reached or \
          understood, or shows no interfaces), polls_cut (there were more interfaces than the limit), polls_incomplete (the \
          agent fell silent or the interval was over before all was read: names, types, speeds, states and counters that were \
          read to their end by then are kept, and the next poll begins with the others), polls_dropped (the chain did not take \
          them in time), columns_bad (columns of tables that were answered wrongly, and left out with those that belong to \
          them: texts that depend on them stay as they were written, and from the fourth poll in a row on they are made \
          without them, which is logged), interfaces_read and names_written.",
    configure,
};

/// How long a call of the source waits.
const WAIT: Duration = Duration::from_millis(100);
/// Polls that wait for the chain.
const WAITING_MAX: usize = 256;

fn configure(options: SnmpOptions) -> Result<Opener, OptionError> {
    options.check()?;
    Ok(Box::new(|context: &ComponentContext| {
        Ok(Built::Source(Box::new(Snmp::open(options, context)?) as Box<dyn Source>))
    }))
}

/// Finds out whether agents could be asked with these options, as the start does first: a secret that is missing is an error then;
/// one that is gone later fails the polls that need it. No agent is asked.
pub fn check(options: &SnmpOptions) -> Result<(), ComponentError> {
    let usable = options.security.auth().map(drop);
    usable.map_err(|error| ComponentError::caused("agents cannot be asked by SNMP", error))
}

/// Takes what the tasks of agents have found.
struct Snmp {
    /// `None` once it is stopped.
    found: Option<Receiver<SideTables>>,
    /// Ends the tasks when it is gone.
    runtime: Option<Runtime>,
}

impl Snmp {
    fn open(options: SnmpOptions, context: &ComponentContext) -> Result<Self, ComponentError> {
        check(&options)?;
        let runtime = Builder::new_multi_thread().worker_threads(1).thread_name("weir-snmp").enable_all().build();
        let runtime = runtime.map_err(|error| ComponentError::caused("there is no thread to ask agents", error))?;
        let (sender, found) = sync_channel(WAITING_MAX);
        let counters = Arc::new(PollCounters::new(&context.counters));
        let options = Arc::new(options);
        for (number, polled) in options.exporters.iter().enumerate() {
            let task = poll_for_ever(number, *polled, Arc::clone(&options), Arc::clone(&counters), sender.clone());
            runtime.spawn(task);
        }
        Ok(Self { found: Some(found), runtime: Some(runtime) })
    }
}

impl Source for Snmp {
    fn pull(&mut self, out: &mut Outlet) -> Result<PullResult, ComponentError> {
        let Some(found) = &self.found else { return Ok(PullResult::Ended) };
        match found.recv_timeout(WAIT) {
            Ok(side_tables) => {
                out.burst(Burst::from(Delivery { flows: None, side_tables }));
                Ok(PullResult::More)
            }
            Err(RecvTimeoutError::Timeout) => Ok(PullResult::Nothing),
            Err(RecvTimeoutError::Disconnected) => {
                Err(ComponentError::new("the tasks that ask agents by SNMP have ended"))
            }
        }
    }

    fn stop(&mut self) {
        self.found = None;
        // polls that are under way are not waited for
        if let Some(runtime) = self.runtime.take() {
            runtime.shutdown_background();
        }
    }
}

impl Drop for Snmp {
    fn drop(&mut self) {
        self.stop();
    }
}
