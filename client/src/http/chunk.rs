// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The chunks of a body, byte by byte (RFC 9112, section 7.1).

/// Where we are among the chunks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Chunk {
    /// In the size, of which so much is known, and how many digits of it.
    Size(u64, u8),
    /// Between the size and the end of its line.
    Extension(u64),
    /// Before the line feed after the size.
    SizeEnd(u64),
    Data(u64),
    /// Before the carriage return after the data.
    DataEnd,
    DataLineFeed,
    /// At the beginning of a line of the trailer.
    Trailer,
    /// Within a line of it.
    TrailerLine,
    /// Before the line feed that ends everything.
    LastLineFeed,
}

impl Chunk {
    /// Where one more byte outside of data leads: `Some(None)` is the end of the last chunk.
    pub(super) fn after(self, byte: u8) -> Option<Option<Self>> {
        let next = match (self, byte) {
            (Self::Size(_, 1..) | Self::Extension(_), b'\r') => Self::SizeEnd(self.size()),
            (Self::Size(_, 1..), b';' | b' ' | b'\t') => Self::Extension(self.size()),
            (Self::Size(size, digits @ 0..16), _) => {
                let digit = (byte as char).to_digit(16)?;
                Self::Size(size << 4 | u64::from(digit), digits + 1)
            }
            (Self::Extension(size), _) => Self::Extension(size),
            (Self::SizeEnd(0), b'\n') => Self::Trailer,
            (Self::SizeEnd(size), b'\n') => Self::Data(size),
            (Self::DataEnd, b'\r') => Self::DataLineFeed,
            (Self::DataLineFeed, b'\n') => Self::Size(0, 0),
            (Self::Trailer, b'\r') => Self::LastLineFeed,
            (Self::TrailerLine, b'\n') => Self::Trailer,
            (Self::Trailer | Self::TrailerLine, _) => Self::TrailerLine,
            (Self::LastLineFeed, b'\n') => return Some(None),
            _ => return None,
        };
        Some(Some(next))
    }

    fn size(self) -> u64 {
        match self {
            Self::Size(size, _) | Self::Extension(size) => size,
            _ => 0,
        }
    }
}
