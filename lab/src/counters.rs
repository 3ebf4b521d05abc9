// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The kernel's own counters of a namespace.

use std::collections::BTreeMap;

use crate::error::LabError;
use crate::namespace::Namespace;

/// A snapshot, or the difference of two. Names are those of `nstat -az`: the group and the counter
/// in one word, such as `TcpExtListenDrops` or `TcpActiveOpens`.
///
/// TCP over IPv6 is counted in the same places as TCP over IPv4.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Counters {
    values: BTreeMap<String, i64>,
}

impl Counters {
    /// Reads the groups `Tcp` and `TcpExt` of a namespace, now.
    ///
    /// # Errors
    /// [`LabError::File`] or [`LabError::CounterFormat`].
    pub fn of(namespace: &Namespace) -> Result<Self, LabError> {
        let mut counters = Self::default();
        for (file, group) in
            [("/proc/thread-self/net/snmp", "Tcp"), ("/proc/thread-self/net/netstat", "TcpExt")]
        {
            counters.parse(file, group, &namespace.read_file(file)?)?;
        }
        Ok(counters)
    }

    /// One counter. Gauges (`TcpCurrEstab`) and limits (`TcpMaxConn` is −1) are why it is signed.
    ///
    /// # Errors
    /// [`LabError::MissingCounter`] when this kernel has none of that name.
    pub fn get(&self, name: &str) -> Result<i64, LabError> {
        self.values
            .get(name)
            .copied()
            .ok_or_else(|| LabError::MissingCounter { name: name.to_owned() })
    }

    /// What was counted between an earlier snapshot and this one.
    ///
    /// # Errors
    /// [`LabError::MissingCounter`] when the earlier snapshot lacks one of this one's counters.
    pub fn since(&self, earlier: &Self) -> Result<Self, LabError> {
        let values = self
            .values
            .iter()
            .map(|(name, now)| Ok((name.clone(), now.wrapping_sub(earlier.get(name)?))))
            .collect::<Result<_, LabError>>()?;
        Ok(Self { values })
    }

    /// Every counter that is not zero, by name.
    pub fn nonzero(&self) -> impl Iterator<Item = (&str, i64)> {
        self.values
            .iter()
            .filter(|(_, value)| **value != 0)
            .map(|(name, value)| (name.as_str(), *value))
    }

    /// The files hold, for each group, a line of names and then a line of values.
    fn parse(&mut self, file: &'static str, group: &str, text: &str) -> Result<(), LabError> {
        let prefix = format!("{group}: ");
        let odd = |line: &str| LabError::CounterFormat { file, line: line.to_owned() };
        let mut lines = text.lines().filter_map(|line| line.strip_prefix(&prefix));
        let names = lines.next().ok_or_else(|| odd(&prefix))?;
        let values = lines.next().ok_or_else(|| odd(names))?;
        if names.split(' ').count() != values.split(' ').count() {
            return Err(odd(values));
        }
        for (name, value) in names.split(' ').zip(values.split(' ')) {
            let value = value.parse().map_err(|_| odd(value))?;
            self.values.insert(format!("{group}{name}"), value);
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parsed(text: &str) -> Result<Counters, LabError> {
        let mut counters = Counters::default();
        counters.parse("test", "Tcp", text).map(|()| counters)
    }

    #[test]
    fn a_difference_is_taken_by_name() {
        let before = parsed("Ip: A\nIp: 1\nTcp: MaxConn Opens\nTcp: -1 5\n").unwrap();
        let after = parsed("Tcp: MaxConn Opens\nTcp: -1 9\n").unwrap();
        let difference = after.since(&before).unwrap();
        assert_eq!(difference.get("TcpOpens").unwrap(), 4);
        assert_eq!(difference.nonzero().collect::<Vec<_>>(), [("TcpOpens", 4)]);
    }

    #[test]
    fn what_is_missing_is_named() {
        let error = parsed("Tcp: A\nTcp: 1\n").unwrap().get("TcpExtNonsense");
        assert!(error.unwrap_err().to_string().contains("TcpExtNonsense"));
    }

    #[test]
    fn lines_that_do_not_match_are_refused() {
        assert!(parsed("Tcp: A B\nTcp: 1\n").is_err());
        assert!(parsed("Tcp: A\nTcp: x\n").is_err());
        assert!(parsed("Tcp: A\n").is_err());
        assert!(parsed("").is_err());
    }
}
