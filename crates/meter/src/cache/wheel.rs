//! Flows by the time at which they may be over.
//!
//! A ring of lists, one for each second or so. A flow is in one list, which is not changed when packets come: when the
//! time of its list has come, the flow either is over or enters again at its deadline of then. So a packet costs
//! nothing here, and a flow one visit for each idle timeout that it lives. An entry whose flow has ended otherwise stays
//! in its list until its time, even when it holds another flow by then, which is then looked at early, or late by the
//! idle timeout at most.
//!
//! The lists have the numbers of entries by themselves, in pieces of two lines of the processor's cache. Links from
//! entry to entry would need no room, and each would be known only when the entry before had come from memory, one
//! after the other.

use super::flow::Flow;

/// A tick is 2^20 microseconds.
const TICK_BITS: u32 = 20;
/// Ticks of the ring, over an hour; later deadlines enter again then.
const TICKS: i64 = 4096;
/// A clock that goes back by more ticks than this was set, or belongs to another capture.
const BACK_MAX: i64 = 4;
/// Numbers in a piece of a list.
const PIECE_SLOTS: usize = 30;
/// No piece.
const NONE: u32 = u32::MAX;

/// A piece of a list.
#[derive(Debug, Clone, Copy)]
#[repr(C, align(64))]
struct Piece {
    /// The piece that was begun before this one.
    next: u32,
    taken: u32,
    slots: [u32; PIECE_SLOTS],
}

#[derive(Debug)]
pub(super) struct Wheel {
    /// The piece of each list that was begun last.
    heads: Vec<u32>,
    pieces: Vec<Piece>,
    /// The first of the pieces that are in no list.
    free: u32,
    /// The next tick to look at; `None` before the first flow.
    tick: Option<i64>,
    /// What is left of the list that is looked at.
    draining: u32,
}

impl Wheel {
    /// For a table of at most this many entries. As with the table, memory is reserved, and taken as flows come.
    pub(super) fn new(flows_max: usize) -> Self {
        Self {
            heads: vec![NONE; TICKS as usize],
            // all pieces but the last one of each list are full
            pieces: Vec::with_capacity(flows_max / PIECE_SLOTS + TICKS as usize + 2),
            free: NONE,
            tick: None,
            draining: NONE,
        }
    }

    pub(super) fn octets(&self) -> usize {
        self.heads.len() * size_of::<u32>() + self.pieces.len() * size_of::<Piece>()
    }

    /// Enters an entry, unless it is in a list.
    pub(super) fn enter(&mut self, slot: u32, flow: &mut Flow, deadline_us: i64, now_us: i64) {
        if flow.is_in_wheel() {
            return;
        }
        let next = *self.tick.get_or_insert(now_us >> TICK_BITS);
        // the tick after the deadline, so that it has passed when the list is looked at
        let tick = (deadline_us >> TICK_BITS).saturating_add(1).clamp(next, next + TICKS - 1);
        let list = tick.rem_euclid(TICKS) as usize;
        let head = self.heads[list];
        let has_room = head != NONE && (self.pieces[head as usize].taken as usize) < PIECE_SLOTS;
        let head = if has_room { head } else { self.begin_piece(head) };
        self.heads[list] = head;
        let piece = &mut self.pieces[head as usize];
        piece.slots[piece.taken as usize] = slot;
        piece.taken += 1;
        flow.set_in_wheel(true);
    }

    /// An empty piece before this one.
    fn begin_piece(&mut self, next: u32) -> u32 {
        let piece = Piece { next, taken: 0, slots: [0; PIECE_SLOTS] };
        if self.free == NONE {
            self.pieces.push(piece);
            return self.pieces.len() as u32 - 1;
        }
        let number = self.free;
        self.free = std::mem::replace(&mut self.pieces[number as usize], piece).next;
        number
    }

    /// Takes entries out whose time has come, as many as fit into `slots`, and returns how many. Who takes them
    /// [says so](Flow::set_in_wheel) in each.
    pub(super) fn take_due(&mut self, now_us: i64, slots: &mut [u32]) -> usize {
        let Some(mut next) = self.tick else { return 0 };
        let now = now_us >> TICK_BITS;
        if now < next - BACK_MAX - 1 {
            next = now;
        }
        // each list once is enough, however far the clock went
        next = next.max(now - TICKS + 1);
        let mut taken = 0;
        while taken < slots.len() {
            if self.draining == NONE {
                if next > now {
                    break;
                }
                self.draining = std::mem::replace(&mut self.heads[next.rem_euclid(TICKS) as usize], NONE);
                next += 1;
            } else {
                taken += self.take_of_piece(&mut slots[taken..]);
            }
        }
        self.tick = Some(next);
        taken
    }

    /// Takes entries out of the piece that is looked at, and frees it when none is left.
    fn take_of_piece(&mut self, slots: &mut [u32]) -> usize {
        let number = self.draining;
        let piece = &mut self.pieces[number as usize];
        let left = (piece.taken as usize).saturating_sub(slots.len());
        let found = &piece.slots[left..piece.taken as usize];
        slots[..found.len()].copy_from_slice(found);
        let taken = found.len();
        piece.taken = left as u32;
        if left == 0 {
            self.draining = std::mem::replace(&mut piece.next, self.free);
            self.free = number;
        }
        taken
    }
}
