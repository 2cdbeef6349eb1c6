//! Structures in the compact protocol of Thrift, of which the fields are known.
//!
//! A list is no longer than the octets that are left, nothing is deeper than its layout, and there are so many values at most: memory
//! grows with what is there, not with what is claimed.
//!
//! Source: <https://github.com/apache/thrift/blob/master/doc/specs/thrift-compact-protocol.md>.

/// What a field is.
#[derive(Debug)]
pub(super) enum Kind {
    Bool,
    Byte,
    /// Of so many bits, 16, 32 or 64, which are written in one way.
    Int(u32),
    Octets,
    /// Octets that are kept.
    Name,
    List(&'static Kind),
    Struct(Layout),
}

/// The fields that a structure may have, by their numbers.
pub(super) type Layout = &'static [(i16, Kind)];

/// A value; of those that nothing is decided by it is only known that they are there.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Value {
    Int(i64),
    Name(Vec<u8>),
    List(Vec<Value>),
    Struct(Fields),
    Other,
}

/// The fields of a structure, each once and in the order of their numbers.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Fields(Vec<(i16, Value)>);

/// What is wrong with a structure.
pub(super) type Malformed = &'static str;

impl Fields {
    fn value(&self, id: i16) -> Option<&Value> {
        self.0.iter().find(|(known, _)| *known == id).map(|(_, value)| value)
    }

    /// A number, if it is there.
    pub(super) fn int(&self, id: i16) -> Option<i64> {
        if let Some(Value::Int(number)) = self.value(id) { Some(*number) } else { None }
    }

    /// A number that is a count or a size, and is there.
    pub(super) fn size(&self, id: i16) -> Result<u64, Malformed> {
        self.int(id).and_then(|number| u64::try_from(number).ok()).ok_or("a count or a size is missing or negative")
    }

    /// A name, if it is there.
    pub(super) fn name(&self, id: i16) -> Option<&[u8]> {
        if let Some(Value::Name(name)) = self.value(id) { Some(name) } else { None }
    }

    /// A structure that is there.
    pub(super) fn inner(&self, id: i16) -> Result<&Self, Malformed> {
        if let Some(Value::Struct(fields)) = self.value(id) { Ok(fields) } else { Err("a structure is missing") }
    }

    /// The structures of a list that is there.
    pub(super) fn structs(&self, id: i16) -> Result<Vec<&Self>, Malformed> {
        let Some(Value::List(values)) = self.value(id) else { return Err("a list is missing") };
        let fields = values.iter().map(|value| if let Value::Struct(fields) = value { Some(fields) } else { None });
        fields.collect::<Option<_>>().ok_or("a list has something else than structures")
    }
}

/// Reads the structure at the front of some octets, of at most so many values; gives how many octets it takes, too.
pub(super) fn read(octets: &[u8], layout: Layout, values_max: usize) -> Result<(Fields, usize), Malformed> {
    let mut reader = Reader { octets, at: 0, values_left: values_max };
    let fields = reader.fields(layout)?;
    Ok((fields, reader.at))
}

struct Reader<'a> {
    octets: &'a [u8],
    at: usize,
    values_left: usize,
}

impl Reader<'_> {
    fn octet(&mut self) -> Result<u8, Malformed> {
        let octet = self.octets.get(self.at).copied().ok_or("it ends within a structure")?;
        self.at += 1;
        Ok(octet)
    }

    fn varint(&mut self) -> Result<u64, Malformed> {
        let mut number = 0;
        for shift in (0..64).step_by(7) {
            let octet = self.octet()?;
            number |= u64::from(octet & 0x7f) << shift;
            if octet & 0x80 == 0 {
                return Ok(number);
            }
        }
        Err("a number has too many octets")
    }

    /// A number of so many bits. Other readers go by the field, and not by the type that stands before the number, and cut off the
    /// bits that it has too many: they would read another one.
    fn int(&mut self, bits: u32) -> Result<i64, Malformed> {
        let number = self.varint()?;
        let number = (number >> 1) as i64 ^ -((number & 1) as i64);
        let spare = i64::BITS.saturating_sub(bits);
        let is_fit = (number << spare) >> spare == number;
        if is_fit { Ok(number) } else { Err("a number is too large for its field") }
    }

    fn text(&mut self) -> Result<&[u8], Malformed> {
        let octets = usize::try_from(self.varint()?).ok();
        let end = octets.and_then(|octets| self.at.checked_add(octets));
        let text = end.and_then(|end| self.octets.get(self.at..end)).ok_or("a text is longer than what is left")?;
        self.at += text.len();
        Ok(text)
    }

    fn fields(&mut self, layout: Layout) -> Result<Fields, Malformed> {
        let (mut found, mut id) = (Vec::new(), 0_i16);
        loop {
            let header = self.octet()?;
            if header.trailing_zeros() >= 4 {
                return Ok(Fields(found));
            }
            let step = i16::from(header >> 4);
            // the long form could name a field again
            id = id.checked_add(step).filter(|_| step > 0).ok_or("fields are not in the order of their numbers")?;
            let known = layout.iter().find(|(known, _)| *known == id);
            let (_, kind) =
                known.ok_or("a field is there that is not known here, or means encryption or other files")?;
            found.push((id, self.value(kind, header & 0xf, false)?));
        }
    }

    fn value(&mut self, kind: &'static Kind, code: u8, is_element: bool) -> Result<Value, Malformed> {
        self.values_left = self.values_left.checked_sub(1).ok_or("it has too many values")?;
        match (kind, code) {
            // that of a field is in its header
            (Kind::Bool, 1 | 2) if !is_element => Ok(Value::Other),
            (Kind::Bool, 1 | 2) | (Kind::Byte, 3) => self.octet().map(|_| Value::Other),
            (Kind::Int(bits), 4..=6) => self.int(*bits).map(Value::Int),
            (Kind::Octets, 8) => self.text().map(|_| Value::Other),
            (Kind::Name, 8) => self.text().map(|name| Value::Name(name.to_vec())),
            (Kind::List(kind), 9) => self.list(kind).map(Value::List),
            (Kind::Struct(layout), 12) => self.fields(layout).map(Value::Struct),
            _ => Err("a field has another type than it should"),
        }
    }

    fn list(&mut self, kind: &'static Kind) -> Result<Vec<Value>, Malformed> {
        let header = self.octet()?;
        let count = if header >> 4 == 15 { self.varint()? } else { u64::from(header >> 4) };
        // an element takes an octet at least
        let left = self.octets.len() - self.at;
        let count = usize::try_from(count).ok().filter(|count| *count <= left.min(self.values_left));
        let count = count.ok_or("a list is longer than what is left, or than it may be")?;
        (0..count).map(|_| self.value(kind, header & 0xf, true)).collect()
    }
}
