//! A walk over MessagePack that takes what is wanted and passes over the rest.
//!
//! The bytes are untrusted: every length is checked against what is left before anything is reserved for
//! it, and nesting is followed to [`MAX_NESTING`].

/// Arrays and maps inside one another that are passed over; events have four.
const MAX_NESTING: usize = 32;

/// The bytes are not the MessagePack that was expected here.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Fault {
    /// The bytes end inside a value, or are none: nothing after this can be read.
    Broken,
    /// A value has another type; it was passed over, and what follows can be read.
    WrongType,
}

/// A value that is not a container, as far as events have them.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) enum Scalar<'a> {
    /// `nil`
    Nil,
    /// Any integer; a negative one by its two's complement, as engines print 64-bit hashes.
    Integer(u64),
    /// UTF-8 or not: nobody has looked.
    Text(&'a [u8]),
    /// Raw bytes.
    Bytes(&'a [u8]),
    /// A float of 64 bits.
    Float(f64),
    /// A boolean, a short float or an extension: no event needs its value.
    Other,
}

/// What the next value is.
enum Head<'a> {
    Scalar(Scalar<'a>),
    Array(usize),
    Map(usize),
}

/// A place in MessagePack bytes.
#[derive(Clone, Debug)]
pub(super) struct Cursor<'a> {
    rest: &'a [u8],
}

impl<'a> Cursor<'a> {
    pub(super) fn new(bytes: &'a [u8]) -> Cursor<'a> {
        Cursor { rest: bytes }
    }

    /// The bytes from here to `later`, a place further on.
    pub(super) fn until(&self, later: &Cursor<'a>) -> &'a [u8] {
        &self.rest[..self.rest.len() - later.rest.len()]
    }

    /// Enters an array: the number of its elements.
    pub(super) fn array(&mut self) -> Result<usize, Fault> {
        match self.head()? {
            Head::Array(length) => Ok(length),
            other => self.other(other),
        }
    }

    /// Enters an array or, where there is none, takes `nil` for `None`.
    pub(super) fn optional_array(&mut self) -> Result<Option<usize>, Fault> {
        match self.head()? {
            Head::Array(length) => Ok(Some(length)),
            Head::Scalar(Scalar::Nil) => Ok(None),
            other => self.other(other),
        }
    }

    /// Enters an array (`false`) or a map (`true`): the number of its elements or pairs.
    pub(super) fn container(&mut self) -> Result<(bool, usize), Fault> {
        match self.head()? {
            Head::Array(length) => Ok((false, length)),
            Head::Map(length) => Ok((true, length)),
            other => self.other(other),
        }
    }

    /// A value that is not a container.
    pub(super) fn scalar(&mut self) -> Result<Scalar<'a>, Fault> {
        match self.head()? {
            Head::Scalar(scalar) => Ok(scalar),
            other => self.other(other),
        }
    }

    /// Passes over a value, whatever it is.
    pub(super) fn skip(&mut self) -> Result<(), Fault> {
        self.skip_values(1, 0)
    }

    /// The value is not what was expected: passes over what is left of it.
    fn other<T>(&mut self, head: Head<'a>) -> Result<T, Fault> {
        match head {
            Head::Scalar(_) => {}
            Head::Array(length) => self.skip_values(length, 1)?,
            Head::Map(length) => self.skip_values(length.saturating_mul(2), 1)?,
        }
        Err(Fault::WrongType)
    }

    fn skip_values(&mut self, values: usize, depth: usize) -> Result<(), Fault> {
        if depth > MAX_NESTING {
            return Err(Fault::Broken);
        }
        for _ in 0..values {
            match self.head()? {
                Head::Scalar(_) => {}
                Head::Array(length) => self.skip_values(length, depth + 1)?,
                Head::Map(length) => self.skip_values(length.saturating_mul(2), depth + 1)?,
            }
        }
        Ok(())
    }

    fn head(&mut self) -> Result<Head<'a>, Fault> {
        let marker = self.byte()?;
        let scalar = match marker {
            0x00..=0x7f => Scalar::Integer(u64::from(marker)),
            0xe0..=0xff => Scalar::Integer(i64::from(marker.cast_signed()).cast_unsigned()),
            0x80..=0x8f => return self.sized(usize::from(marker & 0x0f), true),
            0x90..=0x9f => return self.sized(usize::from(marker & 0x0f), false),
            0xa0..=0xbf => Scalar::Text(self.take(usize::from(marker & 0x1f))?),
            0xc0 => Scalar::Nil,
            0xc2 | 0xc3 => Scalar::Other,
            0xc4 => Scalar::Bytes(self.counted::<1>()?),
            0xc5 => Scalar::Bytes(self.counted::<2>()?),
            0xc6 => Scalar::Bytes(self.counted::<4>()?),
            0xc7 => self.extension::<1>()?,
            0xc8 => self.extension::<2>()?,
            0xc9 => self.extension::<4>()?,
            0xca => self.passed(4)?,
            0xcb => Scalar::Float(f64::from_bits(self.unsigned::<8>()?)),
            0xcc => Scalar::Integer(self.unsigned::<1>()?),
            0xcd => Scalar::Integer(self.unsigned::<2>()?),
            0xce => Scalar::Integer(self.unsigned::<4>()?),
            0xcf => Scalar::Integer(self.unsigned::<8>()?),
            0xd0 => Scalar::Integer(self.signed::<1>()?),
            0xd1 => Scalar::Integer(self.signed::<2>()?),
            0xd2 => Scalar::Integer(self.signed::<4>()?),
            0xd3 => Scalar::Integer(self.unsigned::<8>()?),
            // A fixed extension: one byte of type, then 1, 2, 4, 8 or 16 of data.
            0xd4..=0xd8 => self.passed(1 + (1 << (marker - 0xd4)))?,
            0xd9 => Scalar::Text(self.counted::<1>()?),
            0xda => Scalar::Text(self.counted::<2>()?),
            0xdb => Scalar::Text(self.counted::<4>()?),
            0xdc => return self.counted_container::<2>(false),
            0xdd => return self.counted_container::<4>(false),
            0xde => return self.counted_container::<2>(true),
            0xdf => return self.counted_container::<4>(true),
            0xc1 => return Err(Fault::Broken),
        };
        Ok(Head::Scalar(scalar))
    }

    /// A container of `length`; one that claims more values than there are bytes is broken.
    fn sized(&self, length: usize, map: bool) -> Result<Head<'a>, Fault> {
        let values = if map { length.saturating_mul(2) } else { length };
        if values > self.rest.len() {
            return Err(Fault::Broken);
        }
        Ok(if map { Head::Map(length) } else { Head::Array(length) })
    }

    fn counted_container<const N: usize>(&mut self, map: bool) -> Result<Head<'a>, Fault> {
        let length = self.length::<N>()?;
        self.sized(length, map)
    }

    fn counted<const N: usize>(&mut self) -> Result<&'a [u8], Fault> {
        let length = self.length::<N>()?;
        self.take(length)
    }

    fn extension<const N: usize>(&mut self) -> Result<Scalar<'a>, Fault> {
        let length = self.length::<N>()?;
        self.passed(length.saturating_add(1))
    }

    fn passed(&mut self, length: usize) -> Result<Scalar<'a>, Fault> {
        self.take(length).map(|_| Scalar::Other)
    }

    fn length<const N: usize>(&mut self) -> Result<usize, Fault> {
        usize::try_from(self.unsigned::<N>()?).map_err(|_| Fault::Broken)
    }

    fn signed<const N: usize>(&mut self) -> Result<u64, Fault> {
        let shift = 64 - 8 * N as u32;
        let value = self.unsigned::<N>()?;
        Ok(((value << shift).cast_signed() >> shift).cast_unsigned())
    }

    fn unsigned<const N: usize>(&mut self) -> Result<u64, Fault> {
        let (bytes, rest) = self.rest.split_first_chunk::<N>().ok_or(Fault::Broken)?;
        self.rest = rest;
        Ok(bytes.iter().fold(0, |value, byte| value << 8 | u64::from(*byte)))
    }

    fn byte(&mut self) -> Result<u8, Fault> {
        let (byte, rest) = self.rest.split_first().ok_or(Fault::Broken)?;
        self.rest = rest;
        Ok(*byte)
    }

    fn take(&mut self, length: usize) -> Result<&'a [u8], Fault> {
        let (taken, rest) = self.rest.split_at_checked(length).ok_or(Fault::Broken)?;
        self.rest = rest;
        Ok(taken)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn scalars(bytes: &[u8]) -> Vec<Scalar<'_>> {
        let mut cursor = Cursor::new(bytes);
        let mut found = Vec::new();
        while !cursor.rest.is_empty() {
            found.push(cursor.scalar().unwrap());
        }
        found
    }

    #[test]
    fn reads_integers_of_every_width_and_sign() {
        let bytes = [
            &[0x07, 0xff][..],
            &[0xcc, 0xff, 0xcd, 1, 0, 0xce, 0, 1, 0, 0],
            &[0xcf, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xfe],
            &[0xd0, 0x80, 0xd1, 0xff, 0xfe, 0xd2, 0xff, 0xff, 0xff, 0xff],
            &[0xd3, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xfe],
        ]
        .concat();
        let expected = [7, -1, 255, 256, 65_536, -2, -128, -2, -1, -2_i64];
        let expected: Vec<_> = expected.iter().map(|value| Scalar::Integer(value.cast_unsigned())).collect();
        assert_eq!(scalars(&bytes), expected);
    }

    #[test]
    fn reads_texts_bytes_and_passes_over_the_rest() {
        let bytes = [
            &[0xc0, 0xa1, b'a', 0xd9, 1, b'b', 0xc4, 2, 1, 2, 0xc2, 0xc3][..],
            &[0xca, 0, 0, 0, 0, 0xcb, 0, 0, 0, 0, 0, 0, 0, 0, 0xd4, 5, 0, 0xc7, 1, 5, 0],
        ]
        .concat();
        let other = Scalar::Other;
        let expected = [
            Scalar::Nil,
            Scalar::Text(b"a"),
            Scalar::Text(b"b"),
            Scalar::Bytes(&[1, 2]),
            other,
            other,
            other,
            Scalar::Float(0.0),
            other,
            other,
        ];
        assert_eq!(scalars(&bytes), expected);
    }

    #[test]
    fn a_wrong_type_is_passed_over() {
        let mut cursor = Cursor::new(&[0x82, 1, 0x92, 2, 3, 4, 0x81, 5, 6, 9]);
        assert_eq!(cursor.scalar(), Err(Fault::WrongType));
        assert_eq!(cursor.scalar(), Ok(Scalar::Integer(9)));
        assert_eq!(Cursor::new(&[7]).array(), Err(Fault::WrongType));
        assert_eq!(Cursor::new(&[0xc0]).optional_array(), Ok(None));
    }

    #[test]
    fn claims_beyond_the_end_are_broken() {
        for bytes in [
            &[0xdd, 0xff, 0xff, 0xff, 0xff, 1][..],
            &[0xdf, 0xff, 0xff, 0xff, 0xff, 1],
            &[0xc6, 0xff, 0xff, 0xff, 0xff, 1],
            &[0xc9, 0xff, 0xff, 0xff, 0xff, 1],
            &[0xa5, b'a'],
            &[0xcf, 1],
            &[0xc1],
            &[],
        ] {
            assert_eq!(Cursor::new(bytes).skip(), Err(Fault::Broken), "{bytes:x?}");
        }
        assert_eq!(Cursor::new(&[0x91; 100_000]).skip(), Err(Fault::Broken));
    }
}
