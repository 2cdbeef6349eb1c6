//! Numbers by slot.

use arrow::array::{Array, UInt64Array};

/// Makes room for so many slots.
pub(super) fn grow<T: Clone + Default>(values: &mut Vec<T>, slots: usize) {
    if values.len() < slots {
        values.resize(slots, T::default());
    }
}

/// Puts values into their slots.
pub(super) fn scatter<T: Copy>(to: &mut [T], slots: &[u32], values: impl Iterator<Item = T>) {
    for (&slot, value) in slots.iter().zip(values) {
        to[slot as usize] = value;
    }
}

/// The values in these slots.
pub(super) fn gather<T: Copy>(from: &[T], slots: &[u32]) -> Vec<T> {
    slots.iter().map(|&slot| from[slot as usize]).collect()
}

/// Numbers of 64 bits. They take 32 bits each as long as they lie close together.
#[derive(Debug)]
pub(super) enum LongNumbers {
    /// Distances from a base, which a run begins without.
    Near(Option<u64>, Vec<u32>),
    /// The numbers.
    Far(Vec<u64>),
}

impl Default for LongNumbers {
    fn default() -> Self {
        Self::Near(None, Vec::new())
    }
}

impl LongNumbers {
    /// Begins a run.
    pub(super) fn begin(&mut self, slots_total: usize) {
        match self {
            Self::Near(base, values) => {
                *base = None;
                grow(values, slots_total);
            }
            Self::Far(values) => grow(values, slots_total),
        }
    }

    /// Puts numbers into their slots. The base is the first number of a run minus `reach_below`, or 0 when that is 0.
    pub(super) fn put(&mut self, slots: &[u32], numbers: &UInt64Array, reach_below: u64) {
        if let Self::Near(base, values) = self {
            if base.is_none() {
                let first = numbers.iter().flatten().next();
                *base = first.map(|first| if reach_below == 0 { 0 } else { first.wrapping_sub(reach_below) });
            }
            // without a base all of these are null
            let Some(base) = *base else { return };
            if all_near(numbers, base) {
                scatter(values, slots, numbers.values().iter().map(|number| number.wrapping_sub(base) as u32));
                return;
            }
            *self = Self::Far(values.iter().map(|value| base.wrapping_add(u64::from(*value))).collect());
        }
        if let Self::Far(values) = self {
            scatter(values, slots, numbers.values().iter().copied());
        }
    }

    /// The numbers in these slots.
    pub(super) fn gather(&self, slots: &[u32]) -> Vec<u64> {
        match self {
            Self::Near(base, values) => {
                let base = base.unwrap_or_default();
                slots.iter().map(|&slot| base.wrapping_add(u64::from(values[slot as usize]))).collect()
            }
            Self::Far(values) => gather(values, slots),
        }
    }
}

fn all_near(numbers: &UInt64Array, base: u64) -> bool {
    let distance = |number: u64| number.wrapping_sub(base);
    if numbers.null_count() > 0 {
        return numbers.iter().flatten().all(|number| u32::try_from(distance(number)).is_ok());
    }
    // bits of all of them together, so that many are looked at in one instruction
    let bits = numbers.values().iter().fold(0, |bits, number| bits | distance(*number));
    u32::try_from(bits).is_ok()
}
