//! What is to happen when, by the millisecond.

/// A ring of milliseconds, each with a list of what happens then. Adding and taking cost the same however much is
/// planned; what speaks against it is that nothing can be planned further ahead than the ring is long.
#[derive(Debug, Clone)]
pub(crate) struct Agenda {
    /// The last one added for each millisecond.
    lasts: Vec<u32>,
    appointments: Vec<Appointment>,
    /// The first of the list of those to use again.
    free: u32,
}

#[derive(Debug, Clone, Copy)]
struct Appointment {
    slot: u32,
    generation: u32,
    /// The one added before it for the same millisecond.
    previous: u32,
}

const NONE: u32 = u32::MAX;

impl Agenda {
    /// Nothing will be added for more than `ahead_ms` after what was taken last.
    pub(crate) fn new(ahead_ms: u64) -> Self {
        let lasts = vec![NONE; (ahead_ms + 1).next_power_of_two() as usize];
        Self { lasts, appointments: Vec::new(), free: NONE }
    }

    /// Adds something for a time that lies ahead.
    #[inline]
    pub(crate) fn add(&mut self, at_ms: u64, slot: u32, generation: u32) {
        let place = self.place(at_ms);
        let appointment = Appointment { slot, generation, previous: self.lasts[place] };
        let index = self.free;
        if let Some(free) = self.appointments.get_mut(index as usize) {
            self.free = free.previous;
            *free = appointment;
            self.lasts[place] = index;
        } else {
            self.lasts[place] = self.appointments.len() as u32;
            self.appointments.push(appointment);
        }
    }

    /// Takes what was added last for this millisecond: slot and generation.
    #[inline]
    pub(crate) fn take(&mut self, now_ms: u64) -> Option<(u32, u32)> {
        let place = self.place(now_ms);
        let index = self.lasts[place];
        let taken = self.appointments.get_mut(index as usize)?;
        self.lasts[place] = taken.previous;
        taken.previous = self.free;
        self.free = index;
        Some((taken.slot, taken.generation))
    }

    #[inline]
    fn place(&self, at_ms: u64) -> usize {
        at_ms as usize & (self.lasts.len() - 1)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn everything_comes_in_its_millisecond_and_room_is_used_again() {
        let mut agenda = Agenda::new(1000);
        for now_ms in 0..10_000_u64 {
            for slot in 0..3 {
                agenda.add(now_ms + [1, 500, 1000][slot as usize], slot, now_ms as u32);
            }
            let mut due = Vec::new();
            while let Some((slot, generation)) = agenda.take(now_ms) {
                due.push((slot, u64::from(generation)));
            }
            due.sort_unstable();
            let planned = [(0, 1), (1, 500), (2, 1000)].into_iter();
            let planned = planned.filter_map(|(slot, ahead)| Some((slot, now_ms.checked_sub(ahead)?)));
            assert_eq!(due, planned.collect::<Vec<_>>());
        }
        assert!(agenda.appointments.len() <= 3 * 1001);
    }
}
