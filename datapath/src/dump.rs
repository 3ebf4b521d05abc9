// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Lists by rtnetlink: many messages answer one question, over several answers, and whether it was
//! torn by what came or went meanwhile is told with them.

use std::io;
use std::os::fd::AsRawFd;

use nix::sys::socket::{MsgFlags, SockProtocol, recv};

use crate::netlink::{self, HEADER_BYTES, NLM_F_DUMP, NLMSG_DONE, NLMSG_ERROR, half, word};

/// Some came or went meanwhile: one may be missing (linux/netlink.h).
const NLM_F_DUMP_INTR: u16 = 0x10;
/// The kernel puts no more into one answer.
const ANSWER_BYTES: usize = 32 << 10;

/// What the kernel has told so far.
#[derive(Debug, PartialEq, Eq)]
struct Told<T> {
    all: Vec<T>,
    is_torn: bool,
}

impl<T> Told<T> {
    fn nothing() -> Self {
        Told { all: Vec::new(), is_torn: false }
    }
}

/// Messages of one kind, and what is read in each; `None` of one that tells nothing.
pub(crate) struct Listed<T> {
    pub kind: u16,
    pub read: fn(&[u8]) -> Option<T>,
}

impl<T> Listed<T> {
    /// Takes in the messages of an answer; whether the last was among them.
    fn take(&self, mut answer: &[u8], told: &mut Told<T>) -> io::Result<bool> {
        while let (Some(bytes), Some(kind), Some(flags)) =
            (word(answer, 0), half(answer, 4), half(answer, 6))
        {
            let bytes = bytes as usize;
            let message = answer.get(..bytes).filter(|message| message.len() >= HEADER_BYTES);
            let message = message.ok_or(io::ErrorKind::InvalidData)?;
            told.is_torn |= flags & NLM_F_DUMP_INTR != 0;
            match kind {
                NLMSG_DONE | NLMSG_ERROR => {
                    return netlink::error_in(message).map_or(Ok(true), Err);
                }
                _ if kind == self.kind => told.all.extend((self.read)(message)),
                _ => {}
            }
            answer = answer.get(bytes.next_multiple_of(4)..).unwrap_or_default();
        }
        Ok(false)
    }

    fn once(&self, question: &[u8]) -> io::Result<Told<T>> {
        let netlink = netlink::ask_strictly(SockProtocol::NetlinkRoute, question.to_vec())?;
        let (mut told, mut answer) = (Told::nothing(), vec![0; ANSWER_BYTES]);
        loop {
            let length = recv(netlink.as_raw_fd(), &mut answer, MsgFlags::empty())?;
            if self.take(&answer[..length], &mut told)? {
                return Ok(told);
            }
        }
    }

    /// All that answer this question.
    ///
    /// # Errors
    /// The kernel's.
    pub fn all(&self, question: &[u8]) -> io::Result<Vec<T>> {
        const TRIES: u32 = 4;
        let mut told = self.once(question)?;
        for _ in 1..TRIES {
            if !told.is_torn {
                break;
            }
            told = self.once(question)?;
        }
        Ok(told.all)
    }
}

/// A question for all of something, whose own part is of so many bytes, all 0.
pub(crate) fn question(kind: u16, own_bytes: usize) -> Vec<u8> {
    netlink::question(kind, NLM_F_DUMP, own_bytes)
}

/// A message as the kernel would send it.
#[cfg(test)]
pub(crate) fn message(kind: u16, flags: u16, body: &[u8]) -> Vec<u8> {
    let mut message = ((HEADER_BYTES + body.len()) as u32).to_ne_bytes().to_vec();
    message.extend([kind, flags].map(u16::to_ne_bytes).concat());
    message.extend([0_u8; 8]);
    message.extend(body);
    message.resize(message.len().next_multiple_of(4), 0);
    message
}

/// An attribute of one.
#[cfg(test)]
pub(crate) fn attribute(kind: u16, value: &[u8]) -> Vec<u8> {
    let mut attribute = [value.len() as u16 + 4, kind].map(u16::to_ne_bytes).concat();
    attribute.extend(value);
    attribute.resize(attribute.len().next_multiple_of(4), 0);
    attribute
}

#[cfg(test)]
mod tests {
    use super::*;

    const KIND: u16 = 16;

    fn word_of(message: &[u8]) -> Option<u32> {
        word(message, HEADER_BYTES).filter(|word| *word != 0)
    }

    fn one(word: u32) -> Vec<u8> {
        message(KIND, 0, &word.to_ne_bytes())
    }

    fn taken(answers: &[Vec<u8>]) -> io::Result<(Told<u32>, bool)> {
        let mut told = Told::nothing();
        let is_through = Listed { kind: KIND, read: word_of }.take(&answers.concat(), &mut told)?;
        Ok((told, is_through))
    }

    #[test]
    fn what_the_messages_of_one_kind_tell_is_taken_in() {
        let other = message(KIND + 1, 0, &9_u32.to_ne_bytes());
        let told = Told { all: vec![7, 8], is_torn: false };
        assert_eq!(
            taken(&[one(7), one(0), other, one(8)]).unwrap(),
            (told, false),
            "more may come"
        );
    }

    #[test]
    fn the_last_message_says_how_it_ended() {
        let end = |kind, errno: i32| message(kind, 0, &errno.to_ne_bytes());
        assert!(taken(&[one(7), end(NLMSG_DONE, 0), one(8)]).unwrap().1);
        for kind in [NLMSG_DONE, NLMSG_ERROR] {
            let error = taken(&[end(kind, -1)]).unwrap_err();
            assert_eq!(error.raw_os_error(), Some(libc::EPERM));
        }
        let torn = message(NLMSG_DONE, NLM_F_DUMP_INTR, &[0; 4]);
        assert!(taken(&[one(7), torn]).unwrap().0.is_torn);
        let cut = one(7);
        assert!(taken(&[cut[..cut.len() - 1].to_vec()]).is_err() && taken(&[vec![0; 16]]).is_err());
    }
}
