//! The contract of a component between source and sink.

use arrow::array::RecordBatch;

use crate::{ComponentError, Outlet};

/// What a component holds at the moment.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct State {
    /// Rows, or entries of a table.
    pub rows: u64,
    /// Octets of memory, about.
    pub octets: u64,
    /// Data time up to which the component has handed on everything, milliseconds since the epoch.
    pub edge_ms: Option<i64>,
}

/// Turns rows into rows: it filters, changes, joins or counts them.
///
/// **Same rows, whatever the bursts.** A component sees its input as a sequence of rows. How that sequence is cut into
/// bursts, and in which thread the component runs, must not change what it hands on: decisions are made row by row, even
/// where the work is done column by column. This is what makes one thread and many threads give the same answer.
///
/// **State.** Whatever a component keeps is its own; nothing is shared between components. It is held as columns or flat tables
/// rather than as an object per row, and has a limit with a name, a default and a counter for when it is hit: over the
/// limit a component spills to disk or sheds, as its options say. [`state`](Self::state) returns how much it is.
///
/// **Time.** Windows move by the times in the rows, never by the clock, so that a file gives what live data gave. The
/// *watermark* of an input is the time up to which a component considers it complete: the largest time seen in it minus what
/// the component allows for rows out of order. Rows behind it are *late*: counted, and dropped or passed on as configured.
///
/// **Several inputs.** Inputs have names, and `input` is the index of the name in
/// [`ComponentKind::inputs`](crate::ComponentKind::inputs). In which order bursts of different inputs come is not defined. A
/// component whose answer needs an order keeps what comes early, takes rows of all inputs in the order of their times, and
/// tells by [`wanted`](Self::wanted) which input it cannot go on without; the chain then leaves the others waiting in
/// their queues as far as that cannot stall the chain. `wanted` may say the same input until it has ended.
///
/// **Back-pressure.** A component never waits: neither for a disk that others wait for, nor for a name server, nor for
/// another component. When the queue behind it is full it is not called.
///
/// **Shutdown downwards.** [`end`](Self::end) is called once for each input after its last row, in any order, and
/// [`finish`](Self::finish) once after all inputs have ended; it hands on everything that is still held. Nothing is
/// called after it.
///
/// **Shutdown upwards.** When nobody behind the component wants rows any more, it is dropped without `finish`, and so, in
/// turn, are those before it that only it took rows from.
///
/// **Errors.** An error, or a panic, ends the component and stops the chain; whatever other components hold goes on to the sinks.
/// A row that the component cannot make sense of is no error: it is counted and dropped or passed on. A missing column is
/// an error, see [`ComponentError::missing_column`].
pub trait Transform: Send {
    /// Takes rows of an input. `rows` has at least one row; its columns may change from one call to the next.
    fn take(&mut self, input: usize, rows: RecordBatch, out: &mut Outlet) -> Result<(), ComponentError>;

    /// No more rows will come at an input.
    fn end(&mut self, _input: usize, _out: &mut Outlet) -> Result<(), ComponentError> {
        Ok(())
    }

    /// All inputs have ended: hands on everything that is still held.
    fn finish(&mut self, _out: &mut Outlet) -> Result<(), ComponentError> {
        Ok(())
    }

    /// Called about once a second while the chain runs, for what must be done by the clock.
    fn tick(&mut self, _out: &mut Outlet) -> Result<(), ComponentError> {
        Ok(())
    }

    /// The input without which nothing can be handed on; `None` when rows of any input are welcome.
    fn wanted(&self) -> Option<usize> {
        None
    }

    /// Whether each call of [`take`](Self::take) hands on its rows at once, all of them and in one burst. What accounts for
    /// them then stays with them, so that a sink keeps both or neither. Of all others the chain counts in the books what they
    /// take and what they hand on instead.
    fn keeps_bursts(&self) -> bool {
        false
    }

    /// What the component holds.
    fn state(&self) -> State {
        State::default()
    }
}
