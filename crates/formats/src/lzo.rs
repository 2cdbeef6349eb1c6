//! LZO1X decompression, with a limit on what comes out.
//!
//! The stream is a run of instructions: copy literals, or copy from what came out before. The library that is used to
//! compress panics on damaged input and knows no limit, so this half is here. Everything that an instruction says is
//! checked before it is followed.

/// A stream that is damaged, or longer than allowed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Damaged;

struct Input<'a> {
    octets: &'a [u8],
    at: usize,
}

impl Input<'_> {
    #[inline]
    fn octet(&mut self) -> Result<usize, Damaged> {
        let octet = *self.octets.get(self.at).ok_or(Damaged)?;
        self.at += 1;
        Ok(usize::from(octet))
    }

    /// A length: what the instruction has, or when that is 0, `base` and what follows, where each zero octet stands
    /// for 255.
    #[inline]
    fn length(&mut self, told: usize, base: usize) -> Result<usize, Damaged> {
        if told > 0 {
            return Ok(told);
        }
        let mut length = base;
        loop {
            match self.octet()? {
                0 => length += 255,
                last => return Ok(length + last),
            }
        }
    }
}

/// Decompresses into `output`; returns how many octets came out.
pub(crate) fn decompress(octets: &[u8], output: &mut [u8]) -> Result<usize, Damaged> {
    let mut input = Input { octets, at: 0 };
    let mut out = 0;
    // literals that the last instruction copied: 0 to 3, or 4 for more
    let mut state = 0;
    let first = octets.first().copied().unwrap_or(0);
    if first > 17 {
        input.at = 1;
        let literals = usize::from(first) - 17;
        copy_literals(&mut input, output, &mut out, literals)?;
        state = literals.min(4);
    }
    loop {
        let instruction = input.octet()?;
        if instruction < 16 && state == 0 {
            let length = input.length(instruction, 15)? + 3;
            copy_literals(&mut input, output, &mut out, length)?;
            state = 4;
            continue;
        }
        let Some((distance, length, literals)) = copy_of(instruction, state, &mut input)? else { return Ok(out) };
        copy_match(output, &mut out, distance, length)?;
        copy_literals(&mut input, output, &mut out, literals)?;
        state = literals;
    }
}

/// Distance and length of a copy from what came out, and the literals that follow; `None` at the end of the stream.
#[inline]
fn copy_of(instruction: usize, state: usize, input: &mut Input<'_>) -> Result<Option<(usize, usize, usize)>, Damaged> {
    Ok(Some(match instruction {
        64.. => {
            let high = input.octet()? << 3;
            (high + ((instruction >> 2) & 7) + 1, (instruction >> 5) + 1, instruction & 3)
        }
        32..64 => {
            let length = input.length(instruction & 31, 31)? + 2;
            let low = input.octet()?;
            let word = low | (input.octet()? << 8);
            ((word >> 2) + 1, length, word & 3)
        }
        16..32 => {
            let length = input.length(instruction & 7, 7)? + 2;
            let low = input.octet()?;
            let word = low | (input.octet()? << 8);
            let distance = ((instruction & 8) << 11) + (word >> 2);
            if distance == 0 {
                return Ok(None);
            }
            (distance + 16_384, length, word & 3)
        }
        _ => {
            let high = input.octet()? << 2;
            let near = high + (instruction >> 2) + 1;
            if state == 4 { (near + 2048, 3, instruction & 3) } else { (near, 2, instruction & 3) }
        }
    }))
}

#[inline]
fn copy_literals(input: &mut Input<'_>, output: &mut [u8], out: &mut usize, length: usize) -> Result<(), Damaged> {
    let literals = input.octets.get(input.at..input.at + length).ok_or(Damaged)?;
    output.get_mut(*out..*out + length).ok_or(Damaged)?.copy_from_slice(literals);
    input.at += length;
    *out += length;
    Ok(())
}

#[inline]
fn copy_match(output: &mut [u8], out: &mut usize, distance: usize, length: usize) -> Result<(), Damaged> {
    let from = out.checked_sub(distance).ok_or(Damaged)?;
    let end = *out + length;
    if end > output.len() {
        return Err(Damaged);
    }
    if distance >= length {
        output.copy_within(from..from + length, *out);
    } else {
        // the copy reads what it wrote, which is how a pattern is repeated
        for at in 0..length {
            output[*out + at] = output[from + at];
        }
    }
    *out = end;
    Ok(())
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    /// Nothing is compressed to nothing, which is no stream; no block is empty.
    fn check(data: &[u8]) {
        if data.is_empty() {
            return;
        }
        let compressed = lzokay_native::compress(data).expect("compresses");
        let mut output = vec![0; data.len()];
        assert_eq!(decompress(&compressed, &mut output), Ok(data.len()));
        assert_eq!(output, data);
        assert_eq!(decompress(&compressed, &mut output[..data.len() - 1]), Err(Damaged), "over the limit");
    }

    proptest! {
        #[test]
        fn what_was_compressed_comes_back(
            pieces in proptest::collection::vec((proptest::collection::vec(any::<u8>(), 0..40), 1_usize..400), 1..60)
        ) {
            let data: Vec<u8> = pieces.iter().flat_map(|(piece, times)| piece.repeat(*times)).collect();
            check(&data);
        }

        #[test]
        fn damage_never_writes_beyond_the_output(octets in proptest::collection::vec(any::<u8>(), 0..300)) {
            let mut output = vec![0; 4096];
            if let Ok(written) = decompress(&octets, &mut output) {
                prop_assert!(written <= output.len(), "{written}");
            }
        }
    }

    #[test]
    fn far_copies() {
        let mut state = 1_u32;
        let noise: Vec<u8> = std::iter::repeat_with(|| {
            state = state.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
            (state >> 24) as u8
        })
        .take(60_000)
        .collect();
        let data = [&noise[..], &noise[10_000..30_000], &noise[40_000..]].concat();
        check(&data);
    }
}
